"""MCP peers: the official Python SDK drives Helve's servers through a balancer while replicas and nodes are killed.

Run by `make mcp-test`. Exits with 0 only if every check held. `--plant` breaks something on purpose: the run must then fail.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import anyio

import cart
import codec
import conformance
import oauth
import python_cart
import state
import tasks
from checks import Report
from processes import Cluster, running

SECTIONS = ["cart", "python", "state", "conformance", "codec", "oauth", "tasks"]
# What can be broken on purpose, and which section must notice.
PLANTS = {
    "lost-order": "cart", "lost-python-order": "python", "lost-key": "state", "other-ring": "conformance", "short-guard": "oauth",
    "tasks-in-memory": "tasks",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helve", type=Path, required=True, help="the binary")
    parser.add_argument("--fixture", type=Path, required=True, help="the conformance server")
    parser.add_argument("--agent", type=Path, required=True, help="the client that logs in")
    parser.add_argument("--python", type=Path, required=True, help="the Python with FastMCP, for the cart in Python")
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be repeated")
    parser.add_argument("--plant", choices=PLANTS, help="break something: the run must fail")
    parser.add_argument("--output", choices=["table", "json"], default="table")
    parser.add_argument("--keep", action="store_true", help="leave data and logs")
    return parser.parse_args()


async def run(asked: argparse.Namespace, directory: Path) -> Report:
    report = Report(quiet=asked.output == "json")
    sections = asked.only or ([PLANTS[asked.plant]] if asked.plant else SECTIONS)
    cluster = Cluster(asked.helve, directory)

    with running(cluster):
        if "cart" in sections:
            await cart.run(cluster, directory, report, asked.plant)
        if "python" in sections:
            await python_cart.run(cluster, directory, report, asked.python, asked.plant)
        if "state" in sections:
            await state.run(cluster, directory, report, asked.plant)
        if "conformance" in sections:
            await conformance.run(cluster, directory, report, asked.fixture, asked.plant)
        if "codec" in sections:
            await codec.run(cluster, directory, report, asked.fixture)
        if "oauth" in sections:
            await oauth.run(cluster, directory, report, asked.agent, asked.plant)
        if "tasks" in sections:
            await tasks.run(cluster, directory, report, asked.fixture, asked.plant)
    return report


def main() -> int:
    asked = arguments()
    # The SDK logs each broken connection, and here most are broken on purpose.
    logging.disable(logging.CRITICAL)
    directory = Path(tempfile.mkdtemp(prefix="helve-mcp-test-"))
    report = anyio.run(run, asked, directory)
    print(report.json() if asked.output == "json" else f"\n{report.table()}\n")
    if asked.keep or report.failed:
        print(f"data and logs: {directory}", file=sys.stderr)
    else:
        shutil.rmtree(directory)
    failed = len(report.failed)
    verdict = "FAILED" if failed else "ok"
    print(f"test result: {verdict}. {len(report.checks) - failed} held; {failed} failed", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
