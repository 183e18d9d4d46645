"""Change events of MCP servers in two replicas, on three nodes."""

import asyncio
import secrets

import pytest

pytest.importorskip("mcp.server.subscriptions")

from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from test_killed import EACH, Replica

from helve import AsyncClient, UnavailableError, WatchTooOldError
from helve.mcp_subscriptions import HelveSubscriptionBus

#: What ends a test that waits for an event that does not come.
PATIENCE = 60.0


class Heard:
    """A listener, and what it heard."""

    def __init__(self):
        self.events = []
        self._news = asyncio.Event()

    def __call__(self, event):
        self.events.append(event)
        self._news.set()

    async def until(self, event):
        """All that was heard, once this event was."""
        while event not in self.events:
            self._news.clear()
            await asyncio.wait_for(self._news.wait(), PATIENCE)
        return self.events


def updated(number):
    return ResourceUpdated(f"test://{number}")


@pytest.fixture
def run(endpoints):
    """Runs a case on the buses of two replicas."""

    def run(case):
        async def whole():
            owner = f"bus-{secrets.token_hex(8)}"
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                await case(*(HelveSubscriptionBus(client, owner=owner) for client in (one, other)))

        asyncio.run(whole())

    return run


def test_all_replicas_hear_each_event_once_in_one_order(run):
    async def case(*buses):
        heard = [Heard(), Heard()]
        ends = [bus.subscribe(each) for bus, each in zip(buses, heard, strict=True)]
        odd = ["", "*", "*star", "a/b//../c", "x" * 2000, "é" * 800, "%2F", "all"]
        events = [ToolsListChanged(), PromptsListChanged(), ResourcesListChanged()]
        events += [ResourceUpdated(uri) for uri in odd]
        for number, event in enumerate([*events, *events]):
            await buses[number % 2].publish(event)
        await buses[0].publish(updated("last"))
        expected = [*events, *events, updated("last")]
        for each in heard:
            assert await each.until(updated("last")) == expected
        for end in ends:
            end()
            end()
        # The buses watch no more.
        assert all(bus._following is None for bus in buses)
        assert len(await tasks_left()) == 0

    run(case)


async def tasks_left():
    """What runs beside this test, once what was cancelled has ended."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    following = [task for task in others if "_follow" in repr(task)]
    await asyncio.gather(*following, return_exceptions=True)
    return [task for task in following if not task.cancelled()]


def test_many_events_of_both_replicas_at_once_are_all_heard(run):
    async def case(*buses):
        heard = [Heard(), Heard()]
        for bus, each in zip(buses, heard, strict=True):
            bus.subscribe(each)
        await buses[0].publish(updated("first"))
        for each in heard:
            await each.until(updated("first"))
        await asyncio.gather(*(buses[n % 2].publish(updated(n)) for n in range(200)))
        await buses[1].publish(updated("last"))
        found = [await each.until(updated("last")) for each in heard]
        assert found[0] == found[1]
        assert sorted(event.uri for event in found[0][1:-1]) == sorted(
            f"test://{n}" for n in range(200)
        )

    run(case)


def test_an_event_that_comes_before_the_watch_is_heard(run):
    async def case(*buses):
        client = buses[0]._client
        watch, may_open = client.watch, asyncio.Event()

        async def late(*arguments, **options):
            await may_open.wait()
            return await watch(*arguments, **options)

        client.watch = late
        heard = Heard()
        buses[0].subscribe(heard)
        for event in (ToolsListChanged(), updated(1)):
            await buses[1].publish(event)
        may_open.set()
        await heard.until(updated(1))
        assert heard.events == [ToolsListChanged(), updated(1)]

    run(case)


def test_what_was_published_long_before_is_not_heard(run):
    async def case(*buses):
        await buses[1].publish(updated("old"))
        (old,) = (await buses[1]._keys.list()).items
        clock_ms = 0
        # A new listener may hear events of the second before it.
        while clock_ms < old.updated_at_ms + 3000:
            clock_ms = (await buses[1]._keys.list()).clock_ms
        heard = Heard()
        buses[0].subscribe(heard)
        await buses[1].publish(updated("new"))
        assert await heard.until(updated("new")) == [updated("new")]

    run(case)


def test_a_listener_that_raises_ends_nothing_for_others(run, caplog):
    async def case(*buses):
        def fails(event):
            raise RuntimeError("scripted")

        heard = Heard()
        for listener in (fails, heard, heard):
            end = buses[0].subscribe(listener)
        await buses[1].publish(updated(1))
        await heard.until(updated(1))
        end()
        await buses[1].publish(updated(2))
        assert await heard.until(updated(2)) == [updated(1), updated(1), updated(2)]

    run(case)
    assert "scripted" in caplog.text


@pytest.mark.parametrize("lost", [WatchTooOldError, UnavailableError])
def test_what_a_replica_missed_while_cut_off_is_heard_later(run, lost):
    async def case(*buses):
        client = buses[0]._client
        watch, may_fail = client.watch, asyncio.Event()

        class CutOff:
            """A watch that tells nothing more, and then fails."""

            def __init__(self, changes):
                self.revision = changes.revision
                self._changes = changes

            async def __aenter__(self):
                return self

            async def __aexit__(self, *_):
                await self._changes.close()

            def __aiter__(self):
                return self

            async def __anext__(self):
                is_cut.set()
                await may_fail.wait()
                raise lost("scripted")

        async def cut(*arguments, **options):
            client.watch = watch
            return CutOff(await watch(*arguments, **options))

        client.watch, is_cut = cut, asyncio.Event()
        await buses[1].publish(updated(0))
        heard = Heard()
        buses[0].subscribe(heard)
        await is_cut.wait()
        for event in (updated(1), ToolsListChanged(), updated(2)):
            await buses[1].publish(event)
        may_fail.set()
        await heard.until(updated(2))
        await buses[1].publish(updated(3))
        await heard.until(updated(3))
        # It came before the listener, perhaps by so little that it is heard, but not again.
        assert heard.events.count(updated(0)) <= 1
        found = [event for event in heard.events if event != updated(0)]
        assert found == [updated(1), ToolsListChanged(), updated(2), updated(3)]

    run(case)


def test_clients_of_the_sdk_hear_what_another_replica_publishes(run):
    from mcp import Client as McpClient
    from mcp.server.mcpserver import Context, MCPServer

    def served(bus):
        server = MCPServer("served", subscriptions=bus)

        @server.tool()
        async def change(uri: str, context: Context) -> str:
            await context.notify_resource_updated(uri)
            await context.notify_resource_updated("test://unasked")
            await context.notify_tools_changed()
            return "changed"

        return server

    async def case(*buses):
        async with McpClient(served(buses[0])) as caller, McpClient(served(buses[1])) as listens:
            asked = {"tools_list_changed": True, "resource_subscriptions": ["test://1"]}
            async with listens.listen(**asked) as events:
                await caller.call_tool("change", {"uri": "test://1"})
                found = [await asyncio.wait_for(anext(events), PATIENCE) for _ in range(2)]
            assert found == [updated(1), ToolsListChanged()]

    run(case)


def test_no_event_is_lost_with_a_replica_and_the_leader(cluster, endpoints, tmp_path):
    owner, workers = f"bus-{secrets.token_hex(8)}", ("dies", "lives")

    def publish():
        replicas = []
        try:
            for worker, nodes in zip(workers, (endpoints, endpoints[::-1]), strict=True):
                replicas.append(Replica("bus", owner, worker, nodes, tmp_path / worker))
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
        return [replica.acknowledged for replica in replicas]

    async def whole():
        clients = [AsyncClient(endpoints[at:] + endpoints[:at]) for at in range(3)]
        heard = [Heard() for _ in clients]
        for client, each in zip(clients, heard, strict=True):
            HelveSubscriptionBus(client, owner=owner).subscribe(each)
        loop = asyncio.get_running_loop()
        acknowledged = await loop.run_in_executor(None, publish)
        last = HelveSubscriptionBus(clients[0].with_deadline(60.0), owner=owner)
        await last.publish(ToolsListChanged())
        found = [await each.until(ToolsListChanged()) for each in heard]
        for client in clients:
            await client.close()
        return acknowledged, found

    acknowledged, found = asyncio.run(whole())
    for events in found:
        assert events == found[0], "all replicas hear one order"
    for worker, numbers in zip(workers, acknowledged, strict=True):
        uris = [event.uri.split("/") for event in found[0][:-1]]
        mine = [int(number) for each, number in uris if each == worker]
        # The one that was under way when its replica died may have been published.
        assert numbers == list(range(len(numbers)))
        assert mine in (numbers, [*numbers, len(numbers)]) if worker == "dies" else mine == numbers
