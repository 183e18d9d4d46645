"""A cluster of three nodes for all tests, which some of them break and mend."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]
TOP = PACKAGE.parents[1]
sys.path[:0] = [str(Path(__file__).parent), str(TOP / "tests" / "mcp")]

from processes import Cluster, running

# The cases for threads are made of those for asyncio, as the client itself.
CASES = Path(__file__).parent / "conformance"
subprocess.run(
    [sys.executable, PACKAGE / "tools" / "unasync.py", CASES / "_async", CASES / "_sync"],
    check=True,
)


@pytest.fixture(scope="session")
def helve():
    """The binary."""
    path = os.environ.get("HELVE_BINARY")
    if not path:
        raise pytest.UsageError("HELVE_BINARY names no binary: run make python-test")
    return Path(path)


@pytest.fixture(scope="session")
def cluster(helve):
    with tempfile.TemporaryDirectory(prefix="helve-python-") as directory:
        made = Cluster(helve, Path(directory))
        with running(made):
            yield made


@pytest.fixture(scope="session")
def seen_ready():
    """The node processes when all were last ready. A node that restarts has a new process."""
    return []


@pytest.fixture
def endpoints(cluster, seen_ready):
    """The nodes, all of which run."""
    for node in cluster.nodes:
        if node.running is None:
            node.start()
    found = [node.running for node in cluster.nodes]
    # To ask whether they are ready starts a process, which would slow each test down.
    if found != seen_ready or any(each.poll() is not None for each in found):
        cluster.wait_ready()
        seen_ready[:] = found
    return [f"127.0.0.1:{port}" for port in cluster.clients]
