"""The dashboard: every metric in it, and in the alerts, is one that a node has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import yaml

from checks import equal, expect
from processes import until
from secured import RULES, TOP, Prometheus, Secured, get

DASHBOARD = TOP / "deploy/grafana/helve.json"
# What each kind of metric is called once it is scraped.
SUFFIXES = {
    "counter": ["_total"], "gauge": [""], "info": ["_info"], "histogram": ["_bucket", "_sum", "_count"],
}
# Nothing to look at: what little it says, resident memory says better; and what only builds for tests have.
UNSEEN = {"process_virtual_memory_bytes", "helve_failpoint_passages"}
# What happens only when something goes wrong: on a healthy cluster these panels are empty.
QUIET = {"Calls that did not end with OK", "Messages given up", "Tenants' rows, of their quota"}


def targets() -> Iterator[tuple[str, str]]:
    """Title of the panel, and an expression in it."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def names(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:helve|process)_[a-z_]+\b", expression))


def every_metric_is_there(cluster: Secured) -> str:
    """Of those that a node shows once it has work; what nothing has happened to is not on its page."""
    pages = [get(f"http://{cluster.http(node)}/metrics") for node in cluster.nodes]
    types = {found for page in pages for found in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE)}
    there = {name + suffix for name, kind in types for suffix in SUFFIXES[kind]}
    rules = [rule["expr"] for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]]
    used = set().union(*(names(expression) for expression in [*rules, *(shown for _, shown in targets())]))
    expect(len(used) > 30, f"only {used} are used")
    equal(sorted(used - there), [], "metrics that no node has")
    # Each that a node has is to be seen somewhere: in a panel, an alert, or a page for operators.
    pages = [*(TOP / "docs/operations").glob("*.md"), TOP / "docs/limits.md"]
    told = names("".join(page.read_text() for page in pages))
    shown = {re.sub(r"_(total|bucket|sum|count|info)$", "", name) for name in used | told}
    unseen = sorted({name for name, _ in types} - shown - UNSEEN)
    equal(unseen, [], "metrics in no panel, no alert and no page")
    return f"{len(used)} names"


def work(cluster: Secured) -> None:
    """Leaves something for every panel: a tenant with quotas, and calls of all kinds."""
    token = str(cluster.nodes[0].log.parent / "shop.token")
    for command in (
        ["tenant", "create", "shop", "--rows", "1000", "--bytes", "1MiB", "--writes-per-second", "1000"],
        ["token", "create", "--tenant", "shop", "--role", "writer", "--name", "shop", "--out", token],
        ["handle", "mint", "--store", "cart", "--value", "{}", "--token-file", token],
        ["handle", "list", "--store", "cart", "--token-file", token],
    ):
        ended = cluster.run(*command)
        expect(ended.returncode == 0, f"helve {' '.join(command)}: {ended.stderr.decode()}")


def every_panel_shows_something(cluster: Secured, prometheus: Prometheus) -> str:
    work(cluster)
    variables = {"$job": "helve", "$instance": ".*", "$__rate_interval": "1m"}
    shown = [(title, expression) for title, expression in targets() if title not in QUIET]

    def empty() -> list[str]:
        found = []
        for title, expression in shown:
            for variable, value in variables.items():
                expression = expression.replace(variable, value)
            if not prometheus.query(expression):
                found.append(title)
        return found

    until("every panel to show something", lambda: not empty())
    return f"{len(shown)} queries"
