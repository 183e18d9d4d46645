"""The client's own cost beside other clients, on one machine: calls a second and processor time.

Usage: python tools/bench.py HELVE [--seconds 5], for three nodes of the binary HELVE that it
starts itself. redis-py and etcd3 are measured beside it where they and their servers are there.
etcd3 0.12 wants protobuf below 3.21, and helve a newer one: --clients chooses what an environment
can measure.
A call is a write of 256 bytes or a read of it. Processor time is that of this process alone, and
hardly depends on what else the machine does; calls a second do.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).parents[3]
sys.path[:0] = [str(TOP / "tests" / "mcp"), str(Path(__file__).parents[1] / "src")]

from processes import Cluster, Process, free_port, running  # noqa: E402

VALUE = b"v" * 256
TASKS = (1, 64)
CLIENTS = ("helve", "redis", "etcd3")
Call = Callable[[], Awaitable[object]]
Called = Callable[[], object]


async def measured(call: Call, tasks: int, seconds: float) -> tuple[float, float]:
    """Calls a second, and microseconds of this process for each."""
    end = time.monotonic() + seconds
    count = 0

    async def work() -> None:
        nonlocal count
        while time.monotonic() < end:
            await call()
            count += 1

    await call()
    began, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    took = time.monotonic() - began
    return count / took, (time.process_time() - used) / count * 1e6


@contextlib.asynccontextmanager
async def helve(endpoints: list[str]) -> AsyncIterator[dict[str, Call]]:
    from helve import SHARED, AsyncClient, Raw

    async with AsyncClient(endpoints) as client:
        keys = client.keys(owner=SHARED, codec=Raw())
        yield {"write": lambda: keys.put("k", VALUE), "read": lambda: keys.get("k")}


@contextlib.asynccontextmanager
async def redis(directory: Path) -> AsyncIterator[dict[str, Call]]:
    """One Redis that syncs every write; it neither replicates nor answers linearizably."""
    from redis.asyncio import Redis

    port = free_port()
    command = ["redis-server", "--port", str(port), "--dir", str(directory)]
    command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]
    server = Process("redis", command, port, directory / "redis.log")
    server.start()
    try:
        async with Redis(port=port, max_connections=64) as client:
            yield {"write": lambda: client.set("k", VALUE), "read": lambda: client.get("k")}
    finally:
        server.kill()


@contextlib.contextmanager
def etcd(directory: Path) -> Iterator[dict[str, Called]]:
    """Three etcd nodes, and the client `etcd3`, whose reads are linearizable. It is for threads."""
    import etcd3

    names = ("a", "b", "c")
    ports = {name: (free_port(), free_port()) for name in names}
    peers = ",".join(f"{name}=http://127.0.0.1:{ports[name][1]}" for name in names)
    nodes: list[Process] = []
    with contextlib.ExitStack() as started:
        for name, (port, peer_port) in ports.items():
            command = ["etcd", "--name", name, "--data-dir", str(directory / f"etcd-{name}")]
            for flag, at in (("client", port), ("peer", peer_port)):
                urls = f"http://127.0.0.1:{at}"
                ours = "" if flag == "client" else "initial-"
                command += [f"--listen-{flag}-urls", urls, f"--{ours}advertise-{flag}-urls", urls]
            command += ["--initial-cluster", peers, "--log-level", "error"]
            log = directory / f"etcd-{name}.log"
            node = Process(f"etcd {name}", command, port, log)
            nodes.append(node)
            started.callback(lambda node=node: node.running and node.kill())
        # None listens before a majority is there.
        with ThreadPoolExecutor() as starting:
            list(starting.map(Process.start, nodes))
        client = etcd3.client(port=ports["a"][0], timeout=10)
        started.callback(client.close)
        yield {"write": lambda: client.put("k", VALUE), "read": lambda: client.get("k")}


def threads(name: str, calls: dict[str, Called], seconds: float) -> None:
    """A client for threads, with one."""
    for what, call in calls.items():
        call()
        end, count, used = time.monotonic() + seconds, 0, time.process_time()
        began = time.monotonic()
        while time.monotonic() < end:
            call()
            count += 1
        rate = count / (time.monotonic() - began)
        show(name, what, 1, rate, (time.process_time() - used) / count * 1e6)


def helve_in_threads(endpoints: list[str], seconds: float) -> None:
    from helve import SHARED, Client, Raw

    with Client(endpoints) as client:
        keys = client.keys(owner=SHARED, codec=Raw())
        calls = {"write": lambda: keys.put("k", VALUE), "read": lambda: keys.get("k")}
        threads("helve, threads", calls, seconds)


def show(client: str, what: str, tasks: int, rate: float, used: float) -> None:
    print(f"| {client} | {what} | {tasks} | {rate:,.0f} | {used:,.0f} |", flush=True)


async def beside(
    made: contextlib.AbstractAsyncContextManager[dict[str, Call]], name: str, s: float
):
    async with made as calls:
        for what, call in calls.items():
            for tasks in TASKS:
                show(name, what, tasks, *await measured(call, tasks, s))


def is_here(server: str, client: str) -> bool:
    """Whether a server and its client are installed; says which is not."""
    found = shutil.which(server) is not None and importlib.util.find_spec(client) is not None
    if not found:
        print(f"{server}, or the package {client}, is not here: left out", file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("helve", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--clients", nargs="+", default=list(CLIENTS), choices=CLIENTS)
    asked = parser.parse_args()
    print("| client | call | tasks | calls a second | processor time of the client, µs |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="helve-bench-") as directory:
        if "helve" in asked.clients:
            cluster = Cluster(asked.helve, Path(directory))
            with running(cluster):
                endpoints = cluster.endpoints.split(",")
                asyncio.run(beside(helve(endpoints), "helve, asyncio", asked.seconds))
                helve_in_threads(endpoints, asked.seconds)
        if "redis" in asked.clients and is_here("redis-server", "redis"):
            asyncio.run(beside(redis(Path(directory)), "redis-py, asyncio", asked.seconds))
        if "etcd3" in asked.clients and is_here("etcd", "etcd3"):
            with etcd(Path(directory)) as calls:
                threads("etcd3, threads", calls, asked.seconds)


if __name__ == "__main__":
    main()
