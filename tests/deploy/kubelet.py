"""Runs the pods of the StatefulSet in Docker, from the manifests alone, as a kubelet would: environment, volumes, security, probes,
names and grace. Each pod has an address of its own, which changes when the pod is made again."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import tarfile
import urllib.error
import urllib.request
from base64 import b64decode
from pathlib import Path
from typing import Any

from checks import expect
from manifests import Object, pod_of
from processes import PATIENCE_S, until

NAMESPACE = "helve"
# The lowest addresses are Docker's own.
FIRST_ADDRESS = 10


def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=PATIENCE_S)
    expect(not check or ended.returncode == 0, f"docker {' '.join(arguments)}: {ended.stderr}")
    return ended


def missing() -> str | None:
    """Why no pod can be run here."""
    if shutil.which("docker") is None:
        return "there is no docker"
    answer = docker("version", "--format", "{{.Server.Version}}", check=False)
    return None if answer.returncode == 0 else f"no Docker engine answers: {answer.stderr.strip()}"


def image(helve: Path, directory: Path, tag: str) -> None:
    """Packs the binary with the libraries that it names, as deploy/Dockerfile does."""
    linked = subprocess.run(["ldd", helve], capture_output=True, text=True, check=True).stdout
    libraries = [word for word in linked.split() if word.startswith("/")]
    stripped = directory / "helve"
    subprocess.run(["strip", "-o", stripped, helve], check=True)
    (directory / "nsswitch.conf").write_text("hosts: files dns\n")
    packed = directory / "image.tar"
    with tarfile.open(packed, "w") as tar:
        tar.add(stripped, "usr/local/bin/helve")
        tar.add(directory / "nsswitch.conf", "etc/nsswitch.conf")
        for library in libraries:
            tar.add(os.path.realpath(library), library.lstrip("/"))
    changes = ["--change", 'ENTRYPOINT ["helve"]', "--change", "ENV PATH=/usr/local/bin"]
    docker("import", *changes, str(packed), tag)
    packed.unlink()


def seat_of(name: str) -> int:
    """The number at the end of the name of a pod or claim."""
    return int(name.rsplit("-", 1)[1])


class Kubelet:
    """The pods of one StatefulSet, on a Docker network."""

    def __init__(self, objects: list[Object], helve: Path, directory: Path) -> None:
        self.directory = directory
        self.set = next(each for each in objects if each["kind"] == "StatefulSet")
        self.pod = pod_of(objects)
        self.container = self.pod["spec"]["containers"][0]
        self.secrets = {each["metadata"]["name"]: each["data"] for each in objects if each["kind"] == "Secret"}
        self.network = f"helve-pods-{os.getpid()}"
        self.tag = f"helve-pods:{os.getpid()}"
        self.addresses = 0
        self.running: dict[int, str] = {}
        image(helve, directory, self.tag)
        # Of its own, since Docker gives no pod a certain address on a network whose range it chose itself.
        self.subnet = f"10.214.{os.getpid() % 256}"
        docker("network", "create", "--subnet", f"{self.subnet}.0/24", self.network)

    def close(self) -> None:
        """Leaves nothing behind but files."""
        for seat in list(self.running):
            docker("rm", "--force", self.called(seat), check=False)
        docker("network", "rm", self.network, check=False)
        docker("image", "rm", "--force", self.tag, check=False)

    def called(self, seat: int) -> str:
        """The container of a pod."""
        return f"{self.network}-{seat}"

    def pod_name(self, seat: int) -> str:
        return f"{self.set['metadata']['name']}-{seat}"

    def environment(self, seat: int) -> dict[str, str]:
        """With fields of the pod, and references to variables above."""
        fields = {
            "metadata.name": self.pod_name(seat),
            "metadata.namespace": NAMESPACE,
            "metadata.labels['apps.kubernetes.io/pod-index']": str(seat),
        }
        found: dict[str, str] = {}
        for variable in self.container["env"]:
            value = variable.get("value")
            if value is None:
                value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for name, known in found.items():
                value = value.replace(f"$({name})", known)
            found[variable["name"]] = value
        return found

    def volume(self, seat: int, volume: str) -> Path:
        """The volume of a pod on this machine: that of a claim stays, that of a secret is made as the kubelet makes it."""
        path = self.directory / "volumes" / str(seat) / volume
        if path.exists():
            return path
        path.mkdir(parents=True)
        group = self.pod["spec"]["securityContext"]["fsGroup"]
        sources = {each["name"]: each["secret"] for each in self.pod["spec"]["volumes"]}
        if volume not in sources:
            os.chown(path, 0, group)
            path.chmod(0o2775)
            return path
        # Files are behind a link that is swapped when the secret changes.
        data = path / "..2026"
        data.mkdir()
        (path / "..data").symlink_to("..2026")
        for name, text in self.secrets[sources[volume]["secretName"]].items():
            file = data / name
            file.write_bytes(b64decode(text))
            os.chown(file, 0, group)
            file.chmod(sources[volume]["defaultMode"])
            (path / name).symlink_to(f"..data/{name}")
        return path

    def start(self, seat: int) -> str:
        """Makes a pod, and answers its address, which no pod had before."""
        self.addresses += 1
        address = f"{self.subnet}.{FIRST_ADDRESS + self.addresses}"
        host = f"{self.pod_name(seat)}.{self.set['spec']['serviceName']}"
        names = ["--network-alias", host, "--network-alias", f"{host}.{NAMESPACE}.svc", "--hostname", self.pod_name(seat)]
        grace = ["--stop-timeout", str(self.pod["spec"]["terminationGracePeriodSeconds"])]
        self.create(self.called(seat), seat, self.pod["spec"], self.environment(seat), ["--ip", address, *names, *grace])
        self.running[seat] = address
        return address

    def create(self, name: str, seat: int, spec: Object, environment: dict[str, str], more: list[str]) -> None:
        """Runs the container of a pod with the volumes of a seat."""
        container = spec["containers"][0]
        own, user = container["securityContext"], spec["securityContext"]
        expect(own["readOnlyRootFilesystem"] and user["runAsNonRoot"], "pods must not be root, nor write their image")
        arguments = [
            "run", "--detach", "--name", name, "--network", self.network, *more,
            "--user", f"{user['runAsUser']}:{user['runAsGroup']}", "--group-add", str(user["fsGroup"]), "--read-only",
            *(word for capability in own["capabilities"]["drop"] for word in ("--cap-drop", capability)),
            "--security-opt", "no-new-privileges", "--memory", container["resources"]["limits"]["memory"].rstrip("i"),
        ]
        for variable, value in environment.items():
            arguments += ["--env", f"{variable}={value}"]
        for mount in container["volumeMounts"]:
            only = ":ro" if mount.get("readOnly") else ""
            arguments += ["--volume", f"{self.volume(seat, mount['name'])}:{mount['mountPath']}{only}"]
        docker(*arguments, self.tag, *container["args"])

    def run_once(self, pod: Object) -> str:
        """Runs a pod of its own, on the claim that it names, to its end. Answers what it printed."""
        spec = pod["spec"]
        claims = [each["persistentVolumeClaim"]["claimName"] for each in spec["volumes"] if "persistentVolumeClaim" in each]
        environment = {each["name"]: each["value"] for each in spec["containers"][0]["env"]}
        name = f"{self.network}-{pod['metadata']['name']}"
        self.create(name, seat_of(claims[0]), spec, environment, [])
        status = docker("wait", name).stdout.strip()
        said = docker("logs", name)
        docker("rm", name)
        expect(status == "0", f"{pod['metadata']['name']} ended with {status}: {said.stderr}")
        return said.stdout

    def stop(self, seat: int) -> None:
        """Ends a pod as an eviction does: SIGTERM, and what it takes within its grace. The volume stays."""
        ended = docker("stop", self.called(seat))
        expect(ended.returncode == 0, ended.stderr)
        status = docker("inspect", "--format", "{{.State.ExitCode}}", self.called(seat)).stdout.strip()
        expect(status == "0", f"{self.pod_name(seat)} ended with {status}: {self.log(seat)}")
        docker("rm", self.called(seat))
        del self.running[seat]

    def kill(self, seat: int) -> None:
        """Ends a pod without a word. The volume stays."""
        docker("rm", "--force", self.called(seat))
        del self.running[seat]

    def forget(self, seat: int) -> None:
        """Deletes the claim of a pod that is gone."""
        expect(seat not in self.running, f"{self.pod_name(seat)} still runs")
        shutil.rmtree(self.directory / "volumes" / str(seat) / "data")

    def log(self, seat: int) -> str:
        said = docker("logs", "--tail", "30", self.called(seat), check=False)
        return said.stdout + said.stderr

    def probe(self, seat: int, probe: str) -> bool:
        """Asks what the manifest says, as the kubelet does: it trusts any certificate."""
        asked: dict[str, Any] = self.container[probe]["httpGet"]
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        url = f"{asked['scheme'].lower()}://{self.running[seat]}:{ports[asked['port']]}{asked['path']}"
        try:
            with urllib.request.urlopen(url, timeout=self.container[probe]["timeoutSeconds"], context=trusting) as answer:
                return answer.status == 200
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False

    def ready(self, *seats: int) -> None:
        for seat in seats:
            until(f"{self.pod_name(seat)} to be ready", lambda: self.probe(seat, "readinessProbe"))

    def exec(self, seat: int, *command: str) -> str:
        return docker("exec", self.called(seat), *command).stdout
