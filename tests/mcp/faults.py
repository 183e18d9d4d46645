"""What happens to a cluster and a service while clients work: each replica and the leader killed, and started again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.to_thread import run_sync

from checks import Report
from processes import Cluster, Service


async def break_one_by_one(cluster: Cluster, service: Service, report: Report) -> None:
    """Kills every replica once, and whichever node leads once between two of them."""
    for number, replica in enumerate(service.replicas):
        await run_sync(replica.kill)
        report.count("replicas killed")
        if number == 1:
            leader = await run_sync(cluster.leader)
            await run_sync(leader.kill)
            report.count("leaders killed")
            await run_sync(leader.start)
            await run_sync(cluster.wait_ready)
        await run_sync(replica.start)


async def working(
    cluster: Cluster, service: Service, report: Report, workers: int, work: Callable[[int], Awaitable[None]]
) -> int:
    """Does pieces of work, numbered from 0, several at once, until everything was broken and started again, and each worker has done
    a piece after that. Answers how many."""
    calm = anyio.Event()
    done = 0

    async def worker() -> None:
        nonlocal done
        last = False
        while not last:
            last = calm.is_set()
            number, done = done, done + 1
            await work(number)

    async with anyio.create_task_group() as tasks:
        for _ in range(workers):
            tasks.start_soon(worker)
        await break_one_by_one(cluster, service, report)
        calm.set()
    return done
