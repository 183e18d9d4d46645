"""The Kubernetes manifests: built by kustomize, rendered by Helm, and held against the API's schemas."""

from __future__ import annotations

import copy
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import kubernetes_validate
import yaml

from checks import equal, expect

TOP = Path(__file__).resolve().parents[2]
KUSTOMIZE = TOP / "deploy/k8s"
CHART = TOP / "deploy/helm/helve"
SCHEMAS = Path(__file__).parent / "schemas"
# The oldest version that knows all fields, and the newest whose schemas are installed.
API_VERSIONS = ["1.30", "1.37"]
# What a chart adds to each object.
CHART_LABELS = {"app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"}
# The values that make the chart the same as the overlay of that name.
SAME_AS = {
    "production": {},
    "dev": {
        "antiAffinity": "preferred",
        "storage": {"size": "1Gi"},
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "tls": {"certManager": {"enabled": False}},
        "monitoring": {"enabled": False},
    },
}

Object = dict[str, Any]


def documented(page: Path, begins: str) -> list[str]:
    """The one command of a page that begins so, as words. A line that ends with a backslash goes on."""
    text = page.read_text().replace("\\\n", "")
    found = [line[2:] for line in text.splitlines() if line.startswith(f"$ {begins}")]
    expect(len(found) == 1, f"{page.name} has {len(found)} commands `{begins}`")
    return shlex.split(found[0])


def with_secrets(helve: Path, directory: Path) -> Path:
    """A copy of the manifests, with the secrets that the documented command makes for the overlay `dev`."""
    copied = directory / "k8s"
    if not copied.exists():
        shutil.copytree(KUSTOMIZE, copied)
        command = documented(KUSTOMIZE / "README.md", "helve init")
        subprocess.run([helve, *command[1:]], cwd=copied / "overlays/dev", check=True, capture_output=True)
    return copied


def kustomized(manifests: Path, overlay: str) -> list[Object]:
    kubectl = Path(sys.executable).parent / "kubectl"
    built = subprocess.run([kubectl, "kustomize", manifests / "overlays" / overlay], capture_output=True, text=True)
    expect(built.returncode == 0, built.stderr)
    return [found for found in yaml.safe_load_all(built.stdout) if found]


def overlay_of_the_page_is_built(manifests: Path) -> str:
    """The page shows what goes into an overlay of one's own: it is built, and its image and volume arrive."""
    text = re.search(r"overlays/mine/.*?```yaml\n(.*?)```", (KUSTOMIZE / "README.md").read_text(), re.DOTALL)
    expect(text is not None, "README.md shows no overlay")
    own = manifests / "overlays/mine"
    own.mkdir()
    (own / "kustomization.yaml").write_text(text.group(1))
    objects = kustomized(manifests, "mine")
    every_object_fits_its_schema(objects)
    image = pod_of(objects)["spec"]["containers"][0]["image"]
    equal(image, "registry.example/helve:0.1.0", "image")
    expect('"100Gi"' in json.dumps(objects), "the volumes have another size")
    return image


def rendered(values: Object, release: str = "helve") -> list[Object]:
    with helm_python.Chart.load(str(CHART)) as chart:
        files = chart.render(values, name=release, namespace="helve")
    texts = [text for name, text in files.items() if not name.endswith("NOTES.txt")]
    return [found for text in texts for found in yaml.safe_load_all(text) if found]


def name(found: Object) -> str:
    return f"{found['kind']}/{found['metadata']['name']}"


def pod_of(objects: list[Object]) -> Object:
    return next(each for each in objects if each["kind"] == "StatefulSet")["spec"]["template"]


def problems(found: Object) -> list[str]:
    """What the schema of an object's kind does not allow."""
    own = SCHEMAS / f"{found['kind'].lower()}.json"
    if own.exists():
        validator = jsonschema.Draft7Validator(json.loads(own.read_text()))
        return [f"{name(found)}: {error.message}" for error in validator.iter_errors(found)]
    said = []
    for version in API_VERSIONS:
        try:
            kubernetes_validate.validate(found, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            said.append(f"{name(found)} at {version}: {error.message}")
    return said


def every_object_fits_its_schema(objects: list[Object]) -> str:
    found = [problem for each in objects for problem in problems(each)]
    expect(not found, "; ".join(found))
    return f"{len(objects)} objects"


def wrong_fields_are_found(objects: list[Object]) -> str:
    """Shows that the schema of each kind refuses a field that does not exist."""
    kinds = {each["kind"]: each for each in objects if "spec" in each}
    for kind, each in kinds.items():
        wrong = copy.deepcopy(each)
        wrong["spec"]["replica"] = 3
        expect(problems(wrong), f"{kind} may have a field spec.replica")
    return f"{len(kinds)} kinds"


def plain(objects: list[Object]) -> dict[str, Object]:
    """By name, without what only one of kustomize and Helm adds."""
    by_name = {}
    for each in copy.deepcopy(objects):
        metadata = each["metadata"]
        labels = metadata.get("labels", {})
        metadata["labels"] = {key: value for key, value in labels.items() if key not in CHART_LABELS}
        metadata.pop("namespace", None)
        # The order of names in a certificate is of no consequence.
        if "dnsNames" in each.get("spec", {}):
            each["spec"]["dnsNames"].sort()
        by_name[name(each)] = each
    return by_name


def chart_renders_the_same(by_kustomize: list[Object], by_helm: list[Object]) -> str:
    made_elsewhere = ("Namespace/", "Secret/")
    expected = {key: each for key, each in plain(by_kustomize).items() if not key.startswith(made_elsewhere)}
    found = plain(by_helm)
    equal(sorted(found), sorted(expected), "objects")
    for key, each in expected.items():
        equal(json.dumps(found[key], sort_keys=True), json.dumps(each, sort_keys=True), key)
    return f"{len(found)} objects"


def release_names_its_objects(release: str) -> str:
    """Two releases share no object, no secret and no name of a pod."""
    objects = rendered({}, release)
    for each in objects:
        expect(each["metadata"]["name"].startswith(release), f"{name(each)} is not of {release}")
    text = json.dumps(objects)
    foreign = re.findall(r"\bhelve-(?:[1-9]|peers|http|tls|ca|operator|data-keys)\b", text)
    expect(not foreign, f"names of another release: {sorted(set(foreign))}")
    expect(f'job=\\"{release}\\"' in text, "the rules ask for the job of another release")
    return f"{len(objects)} objects"


def selectors_choose_the_pods(objects: list[Object]) -> str:
    """A selector that chooses nothing is no error of the schema."""
    pod = pod_of(objects)
    labels = pod["metadata"]["labels"].items()
    ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
    selector = {
        "Service": lambda spec: spec["selector"],
        "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        "StatefulSet": lambda spec: spec["selector"]["matchLabels"],
    }
    choosing = [each for each in objects if each["kind"] in selector]
    for each in choosing:
        expect(selector[each["kind"]](each["spec"]).items() <= labels, f"{name(each)} chooses no pod")
    services = [each for each in objects if each["kind"] == "Service"]
    for each in services:
        expect({port["targetPort"] for port in each["spec"]["ports"]} <= ports, f"{name(each)} leads to no port")
    for each in (each for each in objects if each["kind"] == "ServiceMonitor"):
        wanted = each["spec"]["selector"]["matchLabels"].items()
        found = [service for service in services if wanted <= service["metadata"]["labels"].items()]
        equal(len(found), 1, "services that are scraped")
        scraped = {end["port"] for end in each["spec"]["endpoints"]}
        expect(scraped <= {port["name"] for port in found[0]["spec"]["ports"]}, f"no port {scraped}")
    return f"{len(choosing)} selectors"


def certificate_names_the_peers(objects: list[Object]) -> str:
    """A node whose certificate lacks the name by which the others reach it is alone."""
    certificate = next(each for each in objects if name(each) == "Certificate/helve-tls")["spec"]
    env = {each["name"]: each.get("value") for each in pod_of(objects)["spec"]["containers"][0]["env"]}
    founders = re.findall(r"=([a-z0-9-]+\.[a-z0-9-]+):7401", env["HELVE_PEERS"])
    equal(len(founders), 3, "founding seats")
    names = set(certificate["dnsNames"])
    expect(set(founders) <= names, f"{founders} are not all in {names}")
    expect("helve:node" in certificate["uris"], "the certificate does not say that it is a node's")
    return f"{len(names)} names"


def console_is_off_unless_it_is_asked_for() -> str:
    def said(values: Object) -> list[str]:
        env = pod_of(rendered(values))["spec"]["containers"][0]["env"]
        return [each["value"] for each in env if each["name"] == "HELVE_CONSOLE"]

    equal(said({}), [], "HELVE_CONSOLE of the chart as it is")
    equal(said({"console": True}), ["true"], "HELVE_CONSOLE with console: true")
    return "HELVE_CONSOLE"


def spans_go_to_a_collector_that_is_named_alone() -> str:
    def said(values: Object) -> tuple[list[str], list[int]]:
        objects = rendered(values)
        env = pod_of(objects)["spec"]["containers"][0]["env"]
        policy = next(each for each in objects if each["kind"] == "NetworkPolicy")["spec"]
        ports = [port["port"] for rule in policy["egress"] for port in rule["ports"]]
        urls = [each["value"] for each in env if each["name"] == "HELVE_OTLP_ENDPOINT"]
        return urls, [port for port in ports if port == 4317]

    url = "https://collector.monitoring.svc:4317"
    equal(said({}), ([], []), "the collector of the chart as it is")
    equal(said({"traces": {"endpoint": url}}), ([url], [4317]), "the collector, and the way to it")
    return "HELVE_OTLP_ENDPOINT"


def pods_are_placed_as_the_values_say() -> str:
    toleration = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    values = {
        "image": {"pullSecrets": ["registry"]},
        "nodeSelector": {"disk": "nvme"},
        "tolerations": [toleration],
        "priorityClassName": "stateful",
        "podAnnotations": {"team": "carts"},
    }
    pod = pod_of(rendered(values))
    equal(pod["metadata"]["annotations"], {"team": "carts"}, "annotations")
    spec = pod["spec"]
    equal(spec["imagePullSecrets"], [{"name": "registry"}], "secrets of the registry")
    placed = [spec[field] for field in ("nodeSelector", "tolerations", "priorityClassName")]
    equal(placed, [{"disk": "nvme"}, [toleration], "stateful"], "where pods may run")
    every_object_fits_its_schema(rendered(values))
    return ", ".join(values)


def misspelt_values_are_refused() -> str:
    wrong = [{"replica": 5}, {"antiAffinity": "some"}, {"replicas": "five"}, {"tls": {"secret": "mine"}}, {"env": {"A": {}}}]
    # The node refuses a variable of its own that is set to nothing.
    wrong.append({"env": {"HELVE_BLOCK_CACHE": ""}})
    for values in wrong:
        try:
            rendered(values)
        except helm_python.HelmError as error:
            expect("schema" in str(error), f"{values}: {error}")
        else:
            raise AssertionError(f"{values} are taken")
    rendered({"env": {"HELVE_BLOCK_CACHE": "256MiB", "HELVE_RAFT_THREADS": 2, "HELVE_INSECURE": False, "PROXY": ""}})
    # What the chart says by itself is what its schema knows.
    own = yaml.safe_load((CHART / "values.yaml").read_text())
    known = json.loads((CHART / "values.schema.json").read_text())["properties"]
    # A chart that this one is a part of sets the two.
    equal(set(own), set(known) - {"enabled", "global"}, "values that the schema knows")
    return f"{len(wrong)} refusals"


def shipped_rules_are_the_same() -> str:
    """The PrometheusRule and the chart hold the rules of deploy/prometheus/alerts.yaml."""
    rules = yaml.safe_load((TOP / "deploy/prometheus/alerts.yaml").read_text())
    # A copy, not a symbolic link: archives and checkouts without links would leave the chart with no rules.
    copied = yaml.safe_load((TOP / "deploy/helm/helve/files/alerts.yaml").read_text())
    equal(copied, rules, "copy deploy/prometheus/alerts.yaml to deploy/helm/helve/files")
    page = KUSTOMIZE / "components/monitoring/prometheusrule.yaml"
    equal(yaml.safe_load(page.read_text())["spec"], rules, f"{page.name}: indent alerts.yaml by two under `spec`")
    return f"{len(rules['groups'][0]['rules'])} rules"
