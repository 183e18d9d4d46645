"""A rolling upgrade from the release before to this tree, under load: both ways while it is held, and none back after that.

Run by `make upgrade-test`. Exits with 0 only if every check held. `--plant no-hold` leaves the hold out: the run must then fail.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/mcp"))

from checks import Report, equal, expect  # noqa: E402
from load import Load  # noqa: E402
from processes import Cluster, running, until  # noqa: E402

# Rounds of calls between two steps.
ROUNDS = 12
REFUSED = 2
NOT_NOW = 6
# How a build for tests supports one level more.
LEVEL_VARIABLE = "HELVE_FEATURE_LEVEL"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helve", type=Path, required=True, help="this tree's binary, built with planted bugs")
    parser.add_argument("--before", type=Path, required=True, help="the binary of the release before")
    parser.add_argument("--workers", type=int, default=4, help="callers at the same time")
    parser.add_argument("--plant", choices=["no-hold"], help="break something: the run must fail")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--keep", action="store_true", help="leave data and logs")
    return parser.parse_args()


class Upgrade:
    """A cluster whose nodes run one of two versions, its load, and what was checked."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self.asked = asked
        self.report = Report(quiet=asked.output == "json")
        self.cluster = Cluster(asked.helve, directory)
        self.load = Load(asked.workers, self.cluster.clients)
        for node in self.cluster.nodes:
            node.command[0] = str(asked.before)
        self.old_level = 0
        self.new_level = 0

    def check(self, section: str, fact: str, show: Callable[[], str | None]) -> None:
        """Runs a check. A run ends with the first that does not hold: the ones after it would be of another cluster."""

        async def shown() -> str | None:
            return show()

        if not asyncio.run(self.report.check(section, fact, shown)):
            raise Broken

    def status(self) -> dict[str, Any]:
        return until("a status", self.cluster.status)

    def upgrade(self, command: str) -> dict[str, Any]:
        return self.cluster.json("upgrade", command, "--endpoints", self.cluster.endpoints, "--timeout", "30s")

    def progress(self) -> None:
        """Waits until callers got on."""
        wanted = self.load.rounds() + ROUNDS
        until("callers to get on", lambda: self.load.rounds() >= wanted)

    def becomes(self, seat: int, binary: Path) -> None:
        """One node is stopped, as a package does, and goes on as another version."""
        node = self.cluster.nodes[seat - 1]
        equal(node.stop(), 0, f"exit status of node {seat}")
        self.set_version(seat, binary)
        node.start()
        self.cluster.wait_ready()

    def set_version(self, seat: int, binary: Path) -> None:
        node = self.cluster.nodes[seat - 1]
        node.command[0] = str(binary)
        node.environment = {}
        # Two versions of one level differ in nothing that could be held: this one supports one more then.
        if binary == self.asked.helve and self.new_level > level_of_tree():
            node.environment = {LEVEL_VARIABLE: str(self.new_level)}

    def stays(self, level: int) -> None:
        equal(self.status()["feature_level"], level, "the feature level")

    # The steps.

    def all_old(self) -> str:
        status = self.status()
        self.old_level = status["feature_level"]
        supported = max(node["feature_level"] for node in status["nodes"])
        # A young cluster rises to its own version's level first.
        until("the old level", lambda: self.status()["feature_level"] == supported)
        self.old_level = supported
        self.new_level = max(level_of_tree(), supported + 1)
        self.load.start()
        self.progress()
        return f"version {status['nodes'][0]['version']}, level {self.old_level}"

    def no_hold_yet(self) -> str:
        asked = self.cluster.run("upgrade", "hold", "--endpoints", self.cluster.endpoints)
        if asked.returncode == 0:
            # A release that holds levels: the roll begins without a hold, as an operator's would.
            freed = self.upgrade("finish")
            expect(not freed["held"], freed)
            self.stays(self.old_level)
            return "they can, and were freed"
        equal(asked.returncode, NOT_NOW, f"exit status of a hold of old nodes: {asked.stderr.decode()}")
        return "refused: no member's version can"

    def first(self) -> str:
        self.becomes(1, self.asked.helve)
        if self.asked.plant == "no-hold":
            return "left out"
        held = self.upgrade("hold")
        expect(held["held"], held)
        self.progress()
        self.agree()
        return "held by node 1"

    def others(self) -> str:
        for seat in (2, 3):
            self.becomes(seat, self.asked.helve)
            self.progress()
            self.stays(self.old_level)
        status = self.upgrade("status")
        levels = [step["level"] for step in status["finishing"]]
        equal(levels, list(range(self.old_level + 1, self.new_level + 1)), "levels that finishing raises to")
        return status["finishing"][-1]["forbids"]

    def each_leads(self) -> str:
        for node in self.status()["nodes"]:
            self.leads(node["id"])
            self.progress()
            self.stays(self.old_level)
        return "three leaders"

    def leads(self, node_id: int) -> None:
        """Leadership goes to this node."""

        def look() -> bool:
            if self.status()["leader_id"] == node_id:
                return True
            self.cluster.run("leader", "transfer", "--to", str(node_id), "--endpoints", self.cluster.endpoints)
            return False

        until(f"node {node_id} to lead", look)

    def held_by_all(self) -> str:
        held = self.upgrade("hold")
        levels = [node["held_level"] for node in held["nodes"]]
        equal(levels, [self.old_level] * 3, "levels at which nodes hold")
        return "held by three nodes"

    def one_back(self) -> str:
        self.becomes(2, self.asked.before)
        self.progress()
        refused = self.cluster.run("upgrade", "finish", "--endpoints", self.cluster.endpoints)
        said = refused.stderr.decode()
        equal(refused.returncode, NOT_NOW, f"exit status of finish: {said}")
        expect("node 2 runs version" in said, said)
        self.agree()
        return said.removeprefix("helve: ").strip()

    def one_forward(self) -> str:
        self.becomes(2, self.asked.helve)
        self.progress()
        self.stays(self.old_level)
        return "node 2"

    def all_back(self) -> str:
        for seat in (1, 2, 3):
            self.becomes(seat, self.asked.before)
            self.progress()
        self.stays(self.old_level)
        self.agree()
        return "three nodes"

    def all_forward(self) -> str:
        for seat in (3, 2, 1):
            # Killed, as a crash would, instead of stopped.
            self.cluster.nodes[seat - 1].kill()
            self.set_version(seat, self.asked.helve)
            self.cluster.nodes[seat - 1].start()
            self.cluster.wait_ready()
            self.progress()
            self.stays(self.old_level)
        expect(self.upgrade("status")["held"], "the hold was forgotten on the way back")
        return "still held"

    def finish(self) -> str:
        finished = self.upgrade("finish")
        equal(finished["feature_level"], self.new_level, "the feature level")
        expect(not finished["held"] and not finished["finishing"], finished)
        self.progress()
        again = self.upgrade("finish")
        equal(again["feature_level"], self.new_level, "the feature level after a repeat")
        return f"level {self.new_level}"

    def refused(self) -> str:
        node = self.cluster.nodes[2]
        equal(node.stop(), 0, "exit status of node 3")
        self.set_version(3, self.asked.before)
        with node.log.open("ab") as log:
            ended = subprocess.run(node.command, stdout=log, stderr=log, timeout=60, check=False)
        said = node.tail().strip().splitlines()[-1]
        equal(ended.returncode, REFUSED, f"exit status of an old version: {said}")
        expect(f"feature level {self.new_level}" in node.tail(), said)
        self.set_version(3, self.asked.helve)
        node.start()
        self.cluster.wait_ready()
        self.progress()
        return said

    def agree(self) -> None:
        """All nodes hold the same rows, of whichever version each is."""
        ended = self.cluster.run("digest", "--endpoints", self.cluster.endpoints, "--timeout", "60s", "--output", "json")
        equal(ended.returncode, 0, f"exit status of digest: {ended.stdout.decode()}{ended.stderr.decode()}")

    def verify(self) -> str:
        self.load.stop()
        self.agree()
        for port in self.cluster.clients:
            for worker in self.load.workers:
                worker.verify(port)
        self.report.count("rounds", self.load.rounds())
        self.report.count("calls", self.load.calls())
        self.report.count("tries again", self.load.retries())
        return f"{self.load.calls()} calls, each node"

    def run(self) -> None:
        held = self.asked.plant is None
        self.check("old", "three nodes of the release before serve", self.all_old)
        self.check("old", "they hold the level, or say that they cannot", self.no_hold_yet)
        self.check("roll", "the first new node holds the level", self.first)
        self.check("roll", "the others are new, and the level stays", self.others)
        self.check("held", "each node leads, and the level stays", self.each_leads)
        if held:
            self.check("held", "every new node holds the level", self.held_by_all)
        self.check("back", "one node goes back, and finish is refused", self.one_back)
        self.check("back", "it goes forward again", self.one_forward)
        self.check("back", "all nodes go back", self.all_back)
        self.check("back", "all go forward, killed on the way", self.all_forward)
        self.check("finish", "the level is raised, once", self.finish)
        self.check("finish", "the release before is refused by name of the level", self.refused)
        self.check("data", "every acknowledged write is on every node, none lost or doubled", self.verify)


class Broken(Exception):
    """A check did not hold; the report has it."""


def level_of_tree() -> int:
    """The newest level that this tree supports."""
    limits = (TOP / "node/machine/src/limits.rs").read_text()
    found = re.search(r"pub const FEATURE_LEVEL: u32 = (\d+);", limits)
    if found is None:
        raise RuntimeError("node/machine/src/limits.rs names no FEATURE_LEVEL")
    return int(found.group(1))


def main() -> int:
    asked = arguments()
    directory = Path(tempfile.mkdtemp(prefix="helve-upgrade-test-"))
    upgrade = Upgrade(asked, directory)
    report = upgrade.report
    with running(upgrade.cluster):
        try:
            upgrade.run()
        except Broken:
            upgrade.load.stopping.set()
    print(report.json() if asked.output == "json" else f"\n{report.table()}\n")
    failed = len(report.failed)
    if asked.keep or failed:
        print(f"data and logs: {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(report.checks) - failed} held; {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
