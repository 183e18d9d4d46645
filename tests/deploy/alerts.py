"""The alerts: checked by promtool, and fired by a Prometheus that scrapes a cluster while it is broken."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from checks import equal, expect
from secured import RULES, TOP, Prometheus, Secured

RUNBOOKS = TOP / "docs/operations"


def promtool(*arguments: str) -> str:
    ended = subprocess.run(["promtool", *arguments], cwd=RULES.parent, capture_output=True, text=True)
    expect(ended.returncode == 0, ended.stdout + ended.stderr)
    return ended.stdout


def rules_are_valid() -> str:
    return re.search(r"\d+ rules found", promtool("check", "rules", RULES.name)).group()


def rules_fire_on_made_up_series() -> str:
    promtool("test", "rules", "alerts.test.yaml")
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    tested = (RULES.parent / "alerts.test.yaml").read_text()
    untested = [rule["alert"] for rule in rules if f'alertname="{rule["alert"]}"' not in tested]
    expect(not untested, f"no test lets {untested} fire")
    return f"{len(rules)} alerts"


def broken_rules_are_found(directory: Path) -> str:
    """Shows that the tests of the rules fail for a rule that never fires."""
    text = RULES.read_text()
    broken = text.replace("helve_audit_failing == 1", "helve_audit_failing == 2")
    expect(broken != text, "there is no such rule")
    (directory / "alerts.yaml").write_text(broken)
    (directory / "alerts.test.yaml").write_text((RULES.parent / "alerts.test.yaml").read_text())
    ended = subprocess.run(["promtool", "test", "rules", "alerts.test.yaml"], cwd=directory, capture_output=True, text=True)
    expect(ended.returncode != 0 and "HelveAuditFailing" in ended.stderr + ended.stdout, "the broken rule passed")
    return "HelveAuditFailing"


def every_alert_has_a_runbook() -> str:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    pages = set()
    for rule in rules:
        page = RUNBOOKS / rule["annotations"]["runbook_url"].rsplit("/", 1)[1]
        expect(page.exists(), f"{rule['alert']}: no {page.relative_to(TOP)}")
        expect(rule["alert"] in page.read_text(), f"{page.name} does not name {rule['alert']}")
        pages.add(page)
    return f"{len(pages)} pages"


def every_runbook_is_indexed() -> str:
    index = (RUNBOOKS / "README.md").read_text()
    pages = [page.name for page in RUNBOOKS.glob("*.md") if page.name != "README.md"]
    missing = [page for page in pages if f"({page})" not in index]
    expect(not missing, f"docs/operations/README.md does not link to {missing}")
    return f"{len(pages)} pages"


def nothing_fires_beside_a_healthy_cluster(prometheus: Prometheus) -> str:
    prometheus.calm()
    rules = prometheus.ask("rules")["groups"][0]["rules"]
    sick = [rule["name"] for rule in rules if rule["health"] != "ok"]
    expect(not sick, f"rules that Prometheus cannot evaluate: {sick}")
    return f"{len(rules)} rules"


def killed_follower_fires_node_gone(cluster: Secured, prometheus: Prometheus) -> str:
    leader = cluster.leader()
    gone = next(node for node in cluster.nodes if node is not leader)
    gone.kill()
    prometheus.fires("HelveNodeGone", cluster.http(gone))
    firing = prometheus.firing()
    expect("HelveMajorityLost" not in {alert for alert, _ in firing}, f"two of three serve, and {firing} fire")
    gone.start()
    prometheus.calm()
    return gone.name


def lost_majority_fires_and_ends(cluster: Secured, prometheus: Prometheus) -> str:
    left, *lost = cluster.nodes
    for node in lost:
        node.kill()
    prometheus.fires("HelveMajorityLost")
    prometheus.fires("HelveNodeNotReady", cluster.http(left))
    for node in lost:
        node.start()
    prometheus.calm()
    return f"{len(lost)} nodes killed"


def all_nodes_killed_fire_majority_lost(cluster: Secured, prometheus: Prometheus) -> str:
    """Then nothing is scraped any more, and an alert on a node's own metrics would see nothing."""
    for node in cluster.nodes:
        node.kill()
    prometheus.fires("HelveMajorityLost")
    for node in cluster.nodes:
        node.start()
    prometheus.calm()
    return f"{len(cluster.nodes)} nodes killed"


def disk_below_its_reserve_fires(cluster: Secured, prometheus: Prometheus) -> str:
    node = cluster.nodes[2]
    equal(node.stop(), 0, "exit status")
    node.environment["HELVE_DISK_RESERVE"] = "1024TiB"
    node.start()
    prometheus.fires("HelveDiskFull", cluster.http(node))
    del node.environment["HELVE_DISK_RESERVE"]
    equal(node.stop(), 0, "exit status")
    node.start()
    prometheus.calm()
    return node.name
