"""Two replicas of each plug, one of which is killed, and the leader with it."""

import asyncio
import contextlib
import importlib
import itertools
import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from plugged import PLUGS
from processes import until

from helve import AsyncClient

#: Writes before the death, and after it.
EACH = 12


class Replica:
    """A process that writes numbers, and says those that were acknowledged."""

    def __init__(self, plug, owner, worker, endpoints, log):
        self.owner, self.worker = owner, worker
        self.acknowledged = []
        self._log = log
        environment = {**os.environ, "HELVE_ENDPOINTS": ",".join(endpoints)}
        program = Path(__file__).with_name("plugged.py")
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, program, plug, owner, worker],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._hearing = threading.Thread(target=self._hear)
        self._hearing.start()

    def _hear(self):
        for line in self.process.stdout:
            self.acknowledged.append(int(line))

    def begin(self):
        """Lets it write."""
        # If the process has ended, `wait_for` says why.
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()

    def wait_for(self, count):
        """Until this number of writes was acknowledged."""

        def look():
            assert self.process.poll() is None, self._log.read_text()[-4000:]
            return len(self.acknowledged) >= count

        until(f"{count} writes of {self.worker}", look)

    def kill(self):
        """SIGKILL, in the middle of a write."""
        self.process.kill()
        self._ended()

    def end(self):
        """Lets it finish its last write."""
        self.process.stdin.close()
        assert self._ended() == 0, self._log.read_text()[-4000:]

    def _ended(self):
        status = self.process.wait(60)
        self._hearing.join(60)
        self.process.stdout.close()
        return status


def is_here(plug):
    """Whether the package that a plug is for is installed."""
    try:
        importlib.import_module(PLUGS[plug][0])
    except ImportError:
        return False
    return True


@pytest.fixture(scope="module")
def started(request, cluster, tmp_path_factory):
    """Starts the replicas of a plug, and of the next one too: their imports take seconds."""
    items = [item for item in request.session.items if item.module is request.module]
    plugs = [plug for plug in (item.callspec.params["plug"] for item in items) if is_here(plug)]
    nodes = [f"127.0.0.1:{port}" for port in cluster.clients]
    directory = tmp_path_factory.mktemp("replicas")
    made = {}

    def start(plug):
        owner = f"killed-{secrets.token_hex(8)}"
        made[plug] = [
            Replica(plug, owner, worker, order, directory / f"{plug}-{worker}")
            for worker, order in (("dies", nodes), ("lives", nodes[::-1]))
        ]

    def started(plug):
        at = plugs.index(plug)
        for each in plugs[at : at + 2]:
            if each not in made:
                start(each)
        return made[plug]

    yield started
    for replica in itertools.chain(*made.values()):
        if replica.process.poll() is None:
            replica.kill()


@pytest.mark.parametrize("plug", sorted(PLUGS))
def test_no_write_is_lost_with_a_replica_and_the_leader(plug, cluster, endpoints, started):
    needs, make = PLUGS[plug]
    pytest.importorskip(needs, exc_type=ImportError)
    replicas = started(plug)
    try:
        for replica in replicas:
            replica.begin()
        for replica in replicas:
            replica.wait_for(EACH)
        leader = cluster.leader()
        leader.kill()
        replicas[0].kill()
        replicas[1].wait_for(len(replicas[1].acknowledged) + EACH)
        leader.start()
        cluster.wait_ready()
        replicas[1].end()
    finally:
        for replica in replicas:
            if replica.process.poll() is None:
                replica.kill()

    async def read(replica):
        async with AsyncClient(endpoints, deadline=60.0) as client:
            return await make(client, replica.owner, replica.worker).read()

    for replica in replicas:
        acknowledged = replica.acknowledged
        assert acknowledged == list(range(len(acknowledged)))
        found = asyncio.run(read(replica))
        # The write that was under way when its replica died may be there, and once.
        both = [acknowledged, [*acknowledged, len(acknowledged)]]
        assert found in (both if replica.worker == "dies" else both[:1])
