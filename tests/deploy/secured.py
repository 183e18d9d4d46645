"""Three nodes on loopback with TLS, tokens, sealing and audit logs, and the Prometheus that scrapes them."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from processes import PATIENCE_S, Cluster, Process, free_port, until

TOP = Path(__file__).resolve().parents[2]
RULES = TOP / "deploy/prometheus/alerts.yaml"
# Looks back over a quarter of an hour, in which the tests have had leaders killed.
OF_A_QUARTER = "HelveLeaderChanges"
# Tells of this machine's disk, which other work may keep busy; made up series have it fire.
OF_THE_MACHINE = "HelveSlowDisk"


class Secured(Cluster):
    """Nodes of which every part has something to show on `/metrics`."""

    def __init__(self, helve: Path, directory: Path) -> None:
        super().__init__(helve, directory)
        secrets = directory / "secrets"
        subprocess.run([helve, "init", "--dir", secrets, "--node", "node=localhost,127.0.0.1"], check=True, capture_output=True)
        certificate = {"CERT": str(secrets / "node.crt"), "KEY": str(secrets / "node.key")}
        for node in self.nodes:
            ports = ("HELVE_TLS", "HELVE_PEER_TLS")
            node.environment |= {f"{port}_{what}": path for port in ports for what, path in certificate.items()} | {
                "HELVE_PEER_TLS_CA": str(secrets / "ca.crt"),
                "HELVE_AUTH": "tokens",
                "HELVE_OPERATOR_TOKEN_FILE": str(secrets / "operator.token"),
                "HELVE_DATA_KEY_FILE": str(secrets / "data.key"),
                "HELVE_AUDIT_LOG": str(directory / f"{node.name}.audit"),
            }
        self.credentials = {"HELVE_TLS_CA": str(secrets / "ca.crt"), "HELVE_TOKEN_FILE": str(secrets / "operator.token")}

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Runs the command line as an operator, unless the arguments bring another token."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HELVE_")}
        return subprocess.run(
            [str(self.helve), *arguments],
            env=inherited | self.credentials | {"HELVE_ENDPOINTS": self.endpoints},
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
        )

    def http(self, node: Process) -> str:
        """Where the node is scraped."""
        return node.command[node.command.index("--http-listen") + 1]


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


class Prometheus(Process):
    """Scrapes every second, and knows the alerts that are shipped. They wait for no longer than two seconds."""

    def __init__(self, targets: list[str], directory: Path) -> None:
        port = free_port()
        rules = yaml.safe_load(RULES.read_text())
        for rule in rules["groups"][0]["rules"]:
            if "for" in rule:
                rule["for"] = "2s"
        (directory / "alerts.yaml").write_text(yaml.safe_dump(rules))
        scraped = {"job_name": "helve", "static_configs": [{"targets": targets}]}
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(directory / "alerts.yaml")],
            "scrape_configs": [scraped],
        }
        (directory / "prometheus.yaml").write_text(yaml.safe_dump(config))
        command = [
            "prometheus", f"--config.file={directory / 'prometheus.yaml'}", f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]
        super().__init__("prometheus", command, port, directory / "prometheus.log")
        self.targets = targets

    def start(self) -> None:
        """Starts it, and waits until it answers queries: it listens before."""
        super().start()

        def ready() -> bool:
            try:
                return bool(get(f"http://127.0.0.1:{self.port}/-/ready"))
            except urllib.error.HTTPError:
                return False

        until("Prometheus to be ready", ready)

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        return json.loads(get(url))["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        return self.ask("query", query=expression)["result"]

    def firing(self) -> set[tuple[str, str]]:
        """Alert and instance; of an alert on the whole cluster the instance is empty."""
        alerts = self.query('ALERTS{alertstate="firing"}')
        return {(alert["metric"]["alertname"], alert["metric"].get("instance", "")) for alert in alerts}

    def fires(self, alert: str, instance: str = "") -> None:
        until(f"{alert} of {instance or 'the cluster'} to fire", lambda: (alert, instance) in self.firing())

    def calm(self) -> None:
        """Waits until every node is scraped and ready, and no alert fires but these two."""

        def look() -> bool:
            ready = self.query("sum(helve_ready and on (instance) up == 1)")
            counted = ready and float(ready[0]["value"][1]) == len(self.targets)
            return bool(counted) and not self.query(f'ALERTS{{alertname!~"{OF_A_QUARTER}|{OF_THE_MACHINE}"}}')

        until("every alert to end", look)
