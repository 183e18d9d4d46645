"""Nodes, replicas and balancers as processes on loopback, to be killed and started again."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

# How long a condition may take to hold before the run fails: generous, since machines may be busy.
PATIENCE_S = 120.0
# Between two looks at a condition.
PAUSE_S = 0.05

T = TypeVar("T")


def until(what: str, look: Callable[[], T | None]) -> T:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(PAUSE_S)
    raise TimeoutError(f"waited {PATIENCE_S:.0f} s for {what}")


def free_port() -> int:
    """A port without a listener. It is given out once in a run."""
    while True:
        with contextlib.closing(socket.socket()) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        if port not in _GIVEN:
            _GIVEN.add(port)
            return port


_GIVEN: set[int] = set()


def listens(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Process:
    """A program that can be killed and started again, with the same arguments. What it says goes to a file."""

    name: str
    command: list[str]
    port: int
    log: Path
    environment: dict[str, str] = field(default_factory=dict)
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it listens."""
        # What the shell around the run has set is no business of the processes under test.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HELVE_")}
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                self.command, env=inherited | self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        until(f"{self.name} to listen", lambda: self._ended() or listens(self.port))

    def _ended(self) -> bool:
        if self.running is not None and self.running.poll() is not None:
            raise RuntimeError(f"{self.name} ended with {self.running.returncode}:\n{self.tail()}")
        return False

    def kill(self) -> None:
        """SIGKILL: it has no chance to say goodbye."""
        assert self.running is not None, f"{self.name} does not run"
        self.running.kill()
        self.running.wait()
        self.running = None

    def freeze(self) -> None:
        """SIGSTOP: its connections stay open, and nothing answers on them."""
        assert self.running is not None, f"{self.name} does not run"
        self.running.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen process run on."""
        assert self.running is not None, f"{self.name} does not run"
        self.running.send_signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM, as a rolling update does. Answers the exit status."""
        assert self.running is not None, f"{self.name} does not run"
        self.running.send_signal(signal.SIGTERM)
        status = self.running.wait(PATIENCE_S)
        self.running = None
        return status

    def tail(self) -> str:
        return self.log.read_bytes()[-4096:].decode(errors="replace")


class Cluster:
    """Three nodes."""

    def __init__(self, helve: Path, directory: Path) -> None:
        self.helve = helve
        self.clients = [free_port() for _ in range(3)]
        peers = [free_port() for _ in range(3)]
        seats = ",".join(f"{seat}=127.0.0.1:{port}" for seat, port in enumerate(peers, 1))
        self.nodes = [
            Process(
                f"node-{seat}",
                [
                    str(helve), "serve", "--id", str(seat), "--data-dir", str(directory / f"node-{seat}"),
                    "--listen", f"127.0.0.1:{client}", "--peer-listen", f"127.0.0.1:{peer}",
                    "--http-listen", f"127.0.0.1:{free_port()}", "--peers", seats,
                ],
                client,
                directory / f"node-{seat}.log",
            )
            for seat, (client, peer) in enumerate(zip(self.clients, peers), 1)
        ]

    @property
    def endpoints(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.clients)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.wait_ready()

    def status(self) -> dict[str, Any] | None:
        """What `helve status` says; none, while it says that something is wrong."""
        ended = self.run("status", "--endpoints", self.endpoints, "--output", "json")
        return json.loads(ended.stdout) if ended.returncode == 0 else None

    def wait_ready(self) -> None:
        """Until all nodes are ready under one leader."""

        def look() -> bool:
            status = self.status()
            return bool(status) and all(node["health"] == "ready" for node in status["nodes"])

        until("three ready nodes", look)

    def leader(self) -> Process:
        """The node that leads."""

        def look() -> Process | None:
            status = self.status()
            leaders = [node["seat"] for node in status["nodes"] if node["role"] == "leader"] if status else []
            return self.nodes[leaders[0] - 1] if leaders else None

        return until("a leader", look)

    def run(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Runs the command line."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HELVE_")}
        return subprocess.run(
            [str(self.helve), *arguments], env=environment, input=stdin, capture_output=True, timeout=PATIENCE_S
        )

    def json(self, *arguments: str) -> Any:
        """What the command line prints as JSON."""
        ended = self.run(*arguments, "--output", "json")
        if ended.returncode != 0:
            raise RuntimeError(f"helve {' '.join(arguments)}: {ended.returncode}: {ended.stderr.decode()}")
        return json.loads(ended.stdout)


class Service:
    """Three replicas of one MCP server behind a round-robin balancer."""

    def __init__(
        self, name: str, cluster: Cluster, directory: Path, command: Callable[[int], tuple[list[str], dict[str, str]]]
    ) -> None:
        self.name = name
        ports = [free_port() for _ in range(3)]
        self.replicas = []
        for number, port in enumerate(ports, 1):
            arguments, environment = command(port)
            replica = f"{name}-{number}"
            self.replicas.append(Process(replica, arguments, port, directory / f"{replica}.log", environment))
        front = free_port()
        to = ",".join(f"127.0.0.1:{port}" for port in ports)
        arguments = [str(cluster.helve), "balancer", "--listen", f"127.0.0.1:{front}", "--to", to]
        self.balancer = Process(f"{name}-balancer", arguments, front, directory / f"{name}-balancer.log")

    @property
    def url(self) -> str:
        """Through the balancer."""
        return f"http://127.0.0.1:{self.balancer.port}/mcp"

    def direct(self, replica: int) -> str:
        """Past the balancer."""
        return f"http://127.0.0.1:{self.replicas[replica].port}/mcp"

    def start(self) -> None:
        for process in (*self.replicas, self.balancer):
            process.start()

    def processes(self) -> Iterator[Process]:
        yield from self.replicas
        yield self.balancer


@contextlib.contextmanager
def running(*owners: Cluster | Service) -> Iterator[None]:
    """Starts them, and leaves nothing behind."""
    processes = [
        process
        for owner in owners
        for process in (owner.nodes if isinstance(owner, Cluster) else owner.processes())
    ]
    try:
        for owner in owners:
            owner.start()
        yield
    finally:
        for process in processes:
            if process.running is not None:
                process.kill()
