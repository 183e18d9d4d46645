"""What is in `deploy/` and makes a release: manifests against the schemas of Kubernetes, alerts and dashboard against a real
cluster, the package installed; and its JSON.

Run by `make deploy-test`. Exits with 0 only if every check held. What this machine cannot do is left out and named;
HELVE_REQUIRE_FAULTS=1 makes that a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import alerts
import commands
import dashboard
import described
import kubelet
import manifests
import package
import pods
import releasing
import unit
import variables
from checks import Report
from processes import running
from secured import Prometheus, Secured

SECTIONS = ["manifests", "unit", "release", "package", "pages", "rules", "cluster", "pods"]
# Minutes of generated calls: by name alone.
HTTP = "http"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helve", type=Path, required=True, help="the binary")
    parser.add_argument("--only", choices=[*SECTIONS, HTTP], action="append", help="this section; may be repeated")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--keep", action="store_true", help="leave data and logs")
    return parser.parse_args()


class Checks:
    """Runs checks of one section after the other."""

    def __init__(self, report: Report) -> None:
        self.report = report

    def check(self, section: str, show: Callable[..., str], *given: object, about: str = "") -> None:
        async def run() -> str:
            return show(*given)

        fact = show.__name__.replace("_", " ") + (f" ({about})" if about else "")
        asyncio.run(self.report.check(section, fact, run))


def check_manifests(checks: Checks, helve: Path, directory: Path) -> None:
    copied = manifests.with_secrets(helve, directory)
    for overlay, values in manifests.SAME_AS.items():
        objects = manifests.kustomized(copied, overlay)
        by_helm = manifests.rendered(values)
        checks.check("manifests", manifests.every_object_fits_its_schema, objects, about=overlay)
        checks.check("manifests", manifests.every_object_fits_its_schema, by_helm, about=f"chart as {overlay}")
        checks.check("manifests", manifests.chart_renders_the_same, objects, by_helm, about=overlay)
        checks.check("manifests", manifests.selectors_choose_the_pods, objects, about=overlay)
    production = manifests.kustomized(copied, "production")
    checks.check("manifests", manifests.overlay_of_the_page_is_built, copied)
    checks.check("manifests", manifests.wrong_fields_are_found, production)
    checks.check("manifests", manifests.certificate_names_the_peers, production)
    checks.check("manifests", manifests.release_names_its_objects, "carts")
    checks.check("manifests", manifests.console_is_off_unless_it_is_asked_for)
    checks.check("manifests", manifests.spans_go_to_a_collector_that_is_named_alone)
    checks.check("manifests", manifests.pods_are_placed_as_the_values_say)
    checks.check("manifests", manifests.misspelt_values_are_refused)
    checks.check("manifests", manifests.shipped_rules_are_the_same)
    checks.check("manifests", variables.variables_are_known, helve)


def check_release(checks: Checks, directory: Path) -> None:
    directory = directory / "release"
    directory.mkdir()
    checks.check("release", releasing.notes_are_of_the_version_alone, directory)
    checks.check("release", releasing.sbom_names_every_crate, directory)
    checks.check("release", releasing.sums_are_signed, directory)
    checks.check("release", releasing.incomplete_release_is_not_published, directory)
    checks.check("release", releasing.package_of_a_pre_release_has_a_name_that_github_keeps)
    checks.check("release", releasing.workflows_fit_their_schema, directory)
    checks.check("release", releasing.workflows_name_what_exists)
    checks.check("release", releasing.release_needs_every_job_and_the_history_of_an_upgrade)
    checks.check("release", releasing.scripts_pass_shellcheck, directory)


def check_package(checks: Checks, helve: Path, directory: Path) -> None:
    checks.check("package", package.versions_sort_as_releases_do)
    packages = package.Packages(helve, directory)
    checks.check("package", package.wrong_binaries_are_refused, packages, helve)
    checks.check("package", package.package_says_what_it_needs, packages)
    root = package.Root(packages.directory)
    try:
        checks.check("package", package.new_node_is_not_started, packages, root)
        checks.check("package", package.shipped_settings_start_no_node, root)
        checks.check("package", package.upgrade_keeps_all_and_restarts_nothing, packages, root)
        checks.check("package", package.removal_stops_the_node_and_keeps_its_data, root)
        checks.check("package", package.purge_keeps_data_and_keys, packages, root)
    finally:
        root.close()


def check_pages(checks: Checks, helve: Path) -> None:
    checks.check("pages", commands.commands_in_pages_are_known, helve)
    checks.check("pages", commands.misspelt_commands_are_found, helve)
    checks.check("pages", commands.kubectl_commands_in_pages_are_known)


def check_rules(checks: Checks, directory: Path) -> None:
    checks.check("rules", alerts.rules_are_valid)
    checks.check("rules", alerts.rules_fire_on_made_up_series)
    checks.check("rules", alerts.broken_rules_are_found, directory)
    checks.check("rules", alerts.every_alert_has_a_runbook)
    checks.check("rules", alerts.every_runbook_is_indexed)


def check_http(checks: Checks, helve: Path, directory: Path) -> None:
    directory = directory / "http"
    directory.mkdir()
    cluster = Secured(helve, directory)
    with running(cluster):
        checks.check("http", described.calls_in_json_answer_as_described, cluster, directory)
        checks.check("http", described.wrong_document_is_found, cluster, directory)


def check_cluster(checks: Checks, helve: Path, directory: Path) -> None:
    cluster = Secured(helve, directory)
    prometheus = Prometheus([cluster.http(node) for node in cluster.nodes], directory)
    with running(cluster):
        prometheus.start()
        try:
            checks.check("cluster", alerts.nothing_fires_beside_a_healthy_cluster, prometheus)
            checks.check("cluster", dashboard.every_panel_shows_something, cluster, prometheus)
            checks.check("cluster", dashboard.every_metric_is_there, cluster)
            broken = (
                alerts.killed_follower_fires_node_gone,
                alerts.lost_majority_fires_and_ends,
                alerts.all_nodes_killed_fire_majority_lost,
                alerts.disk_below_its_reserve_fires,
            )
            for breaking in broken:
                checks.check("cluster", breaking, cluster, prometheus)
        finally:
            prometheus.kill()


def check_pods(checks: Checks, helve: Path, directory: Path) -> None:
    objects = manifests.kustomized(manifests.with_secrets(helve, directory), "dev")
    machine = kubelet.Kubelet(objects, helve, directory)
    try:
        for show in pods.CHECKS:
            checks.check("pods", show, machine)
    finally:
        machine.close()


def left_out(sections: list[str]) -> dict[str, str]:
    """What this machine cannot do, and why."""
    packages = {"rules": "prometheus", "cluster": "prometheus", "unit": "systemd"}
    programs = {"prometheus": ("prometheus", "promtool"), "systemd": ("systemd-analyze",)}
    lacks = {}
    for section in sections:
        needed = packages.get(section)
        absent = [program for program in programs.get(needed, ()) if shutil.which(program) is None]
        if absent:
            lacks[section] = f"no {' and '.join(absent)}: install the package {needed}"
    for section, missing in (("pods", kubelet.missing), ("release", releasing.missing), ("package", package.missing)):
        why = missing() if section in sections else None
        if why:
            lacks[section] = why
    return lacks


def main() -> int:
    asked = arguments()
    sections = asked.only or SECTIONS
    directory = Path(tempfile.mkdtemp(prefix="helve-deploy-test-"))
    report = Report(quiet=asked.output == "json")
    checks = Checks(report)
    missing = left_out(sections)
    for section, why in missing.items():
        print(f"LEFT OUT: {section}: {why}", file=sys.stderr)
    sections = [section for section in sections if section not in missing]
    if "manifests" in sections:
        check_manifests(checks, asked.helve, directory)
    if "unit" in sections:
        checks.check("unit", unit.unit_is_known_to_systemd, asked.helve.resolve(), directory)
        checks.check("unit", unit.unit_is_hardened, directory)
    if "release" in sections:
        check_release(checks, directory)
    if "package" in sections:
        check_package(checks, asked.helve, directory)
    if "pages" in sections:
        check_pages(checks, asked.helve)
    if "rules" in sections:
        check_rules(checks, directory)
    if HTTP in sections:
        check_http(checks, asked.helve, directory)
    if "cluster" in sections:
        check_cluster(checks, asked.helve, directory)
    if "pods" in sections:
        check_pods(checks, asked.helve, directory)
    print(report.json() if asked.output == "json" else f"\n{report.table()}\n")
    failed = len(report.failed)
    if asked.keep or failed:
        print(f"data and logs: {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(report.checks) - failed} held; {failed} failed", file=sys.stderr)
    required = os.environ.get("HELVE_REQUIRE_FAULTS") == "1"
    return 1 if failed or (missing and required) else 0


if __name__ == "__main__":
    sys.exit(main())
