"""The checkpoint saver for LangGraph: its own conformance suite, and graphs, on three nodes."""

import asyncio
import secrets

import pytest

pytest.importorskip("langgraph.checkpoint.base")
conformance = pytest.importorskip("langgraph.checkpoint.conformance")

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.store.base import PutOp

from helve import AsyncClient, InvalidError, UnsupportedError
from helve.langgraph import HelveItemStore, HelveSaver


def owner():
    return f"lg-{secrets.token_hex(8)}"


def test_it_passes_the_conformance_suite_of_langgraph(endpoints):
    @conformance.checkpointer_test(name="HelveSaver")
    async def saver():
        async with AsyncClient(endpoints, deadline=60.0) as client:
            yield HelveSaver(client, owner=owner())

    report = asyncio.run(conformance.validate(saver))
    failures = {name: result.failures for name, result in report.results.items()}
    assert len(report.results) == 8
    assert all(result.detected and result.passed for result in report.results.values()), failures


def config(thread, **more):
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


def checkpoint(**values):
    made = empty_checkpoint()
    made["channel_values"] = values
    made["channel_versions"] = {name: f"1.{secrets.token_hex(4)}" for name in values}
    return made


def test_threads_and_asyncio_see_the_same_and_values_have_any_size(endpoints):
    async def write(client):
        saver = HelveSaver(client, owner=name)
        made = checkpoint(large="v" * 5_000_000, small=[1, {"a": None}], none=None)
        metadata = {"source": "loop", "step": 1, "parents": {}}
        stored = await saver.aput(config("t/1"), made, metadata, made["channel_versions"])
        await saver.aput_writes(stored, [("messages", "w" * 2_000_000)], "task", "path")
        await saver.aput_writes(stored, [("messages", "another")], "task", "path")
        return saver, made

    async def whole():
        async with AsyncClient(endpoints, deadline=60.0) as client:
            saver, made = await write(client)
            found = await saver.aget_tuple(config("t/1"))
            assert found.checkpoint == made
            loop = asyncio.get_running_loop()
            again = await loop.run_in_executor(None, saver.get_tuple, config("t/1"))
            assert again == found
            assert found.pending_writes == [("task", "messages", "w" * 2_000_000)]
            assert [each async for each in saver.alist(config("t/1"))] == [found]
            await loop.run_in_executor(None, saver.delete_thread, "t/1")
            assert await saver.aget_tuple(config("t/1")) is None
            left = await client.keys(owner=name).list()
            assert left.items == ()

    name = owner()
    asyncio.run(whole())


def test_a_pruned_thread_keeps_what_its_latest_checkpoint_needs(endpoints):
    async def whole():
        async with AsyncClient(endpoints, deadline=60.0) as client:
            saver = HelveSaver(client, owner=name)
            at = config("t")
            for step in range(4):
                made = checkpoint(always=step)
                versions = dict(made["channel_versions"])
                if step != 1:
                    # A channel without a value of its own: its value is made of its ancestors'.
                    made["channel_versions"]["delta"] = versions["delta"] = f"{step}.0"
                else:
                    made["channel_values"]["delta"] = "seed"
                    made["channel_versions"]["delta"] = versions["delta"] = f"{step}.0"
                at = await saver.aput(at, made, {"step": step}, versions)
                await saver.aput_writes(at, [("delta", step)], "task")
            asked = {"config": at, "channels": ["delta"]}
            before = await saver.aget_delta_channel_history(**asked)
            assert before["delta"]["seed"] == "seed"
            await saver.aprune(["t"])
            assert await saver.aget_delta_channel_history(**asked) == before
            left = [each.metadata["step"] async for each in saver.alist(config("t"))]
            assert left == [3, 2, 1]

    name = owner()
    asyncio.run(whole())


def test_a_graph_goes_on_at_another_replica_though_the_leader_is_killed(cluster, endpoints):
    graphs = pytest.importorskip("langgraph.graph")

    def made(client):
        builder = graphs.StateGraph(dict)
        builder.add_node("add", lambda state: {"steps": [*state.get("steps", []), len(state)]})
        builder.set_entry_point("add")
        builder.set_finish_point("add")
        return builder.compile(checkpointer=HelveSaver(client, owner=name))

    def kill():
        leader = cluster.leader()
        leader.kill()
        return leader

    async def whole():
        async with (
            AsyncClient(endpoints, deadline=60.0) as one,
            AsyncClient(endpoints[::-1], deadline=60.0) as other,
        ):
            replicas = [made(one), made(other)]
            loop = asyncio.get_running_loop()
            killing = None
            for turn in range(12):
                if turn == 4:
                    killing = loop.run_in_executor(None, kill)
                place = {"configurable": {"thread_id": "t"}}
                state = await replicas[turn % 2].aget_state(place)
                told = dict(state.values or {})
                answer = await replicas[turn % 2].ainvoke(told, place)
                assert len(answer["steps"]) == turn + 1
            (await killing).start()
            place = {"configurable": {"thread_id": "t"}}
            found = await loop.run_in_executor(None, replicas[0].get_state, place)
            assert len(found.values["steps"]) == 12

    name = owner()
    asyncio.run(whole())


def test_items_of_one_replica_are_found_listed_and_searched_by_another(endpoints):
    async def whole():
        async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
            first, second = (HelveItemStore(client, owner=name) for client in (one, other))
            namespace = ("users", "a/b", "prefs")
            await first.aput(namespace, "k/1", {"n": 1, "deep": {"x": "y"}, "none": None})
            await first.aput(namespace, "k", {"n": 2})
            await first.aput(("users",), "k", {"n": 3})
            await first.aput(("users2",), "k", {"n": 4})
            item = await second.aget(namespace, "k/1")
            assert (item.namespace, item.key) == (namespace, "k/1")
            assert item.value == {"n": 1, "deep": {"x": "y"}, "none": None}
            assert item.created_at == item.updated_at
            assert await second.aget(namespace, "missing") is None
            assert await second.aget(("users", "a/b"), "k") is None

            async def found(prefix, **options):
                return [each.value["n"] for each in await second.asearch(prefix, **options)]

            assert sorted(await found(("users",))) == [1, 2, 3]
            assert await found(("users",), filter={"n": {"$gte": 2, "$lt": 3}}) == [2]
            assert await found(("users",), filter={"deep": {"x": "y"}}) == [1]
            assert await found((), filter={"n": 4}) == [4]
            assert len(await found(("users",), limit=2)) == 2
            assert len(await found(("users",), limit=2, offset=2)) == 1
            with pytest.raises(UnsupportedError):
                await second.asearch(("users",), query="meaning")
            listed = await second.alist_namespaces(prefix=("users", "*"))
            assert listed == [namespace]
            assert await second.alist_namespaces(suffix=("prefs",)) == [namespace]
            assert await second.alist_namespaces(max_depth=1) == [("users",), ("users2",)]
            loop = asyncio.get_running_loop()
            again = await loop.run_in_executor(None, second.get, namespace, "k")
            assert again.value == {"n": 2}
            await loop.run_in_executor(None, second.delete, namespace, "k")
            assert await first.aget(namespace, "k") is None
            second.close()
            first.close()

    name = owner()
    asyncio.run(whole())


def test_large_items_of_a_batch_are_kept_and_too_large_ones_keep_none(endpoints):
    room = (1 << 20) - len('{"v":""}')

    def puts(namespace, more=0):
        values = ["v" * (room + more * (n == 3)) for n in range(4)]
        return [PutOp((namespace,), f"{n}", {"v": value}) for n, value in enumerate(values)]

    async def whole():
        async with AsyncClient(endpoints, deadline=60.0) as client:
            store = HelveItemStore(client, owner=name)
            loop = asyncio.get_running_loop()
            await store.abatch(puts("a"))
            await loop.run_in_executor(None, store.batch, puts("b"))
            for namespace in "ab":
                found = (await client.keys(owner=name).list(f"s/={namespace}/")).items
                revisions = [info.revision for info in found]
                assert [revisions.count(each) for each in dict.fromkeys(revisions)] == [3, 1]
            # An item of which only the last write counts is measured by that.
            await store.abatch([*puts("c", more=1), PutOp(("c",), "3", None)])
            assert len((await client.keys(owner=name).list("s/=c/")).items) == 3
            with pytest.raises(InvalidError) as raised:
                await store.abatch(puts("d", more=1))
            assert raised.value.reason == "TOO_LARGE"
            assert await store.asearch(("d",)) == []
            store.close()

    name = owner()
    asyncio.run(whole())


def test_an_item_lives_as_long_as_it_is_read(endpoints):
    async def whole():
        async with AsyncClient(endpoints) as client:
            store = HelveItemStore(client, owner=name, ttl={"default_ttl": 60})
            await store.aput(("a",), "default", {"n": 0})
            # Long enough for what is asked below, on a busy machine.
            await store.aput(("a",), "short", {"n": 1}, ttl=3 / 60)
            await store.aput(("a",), "never", {"n": 2}, ttl=None)
            records = (await client.keys(owner=name).list("s/")).items
            assert [info.idle_ttl_ms for info in records] == [3_600_000, None, 3_000]
            deadline = records[2].idle_deadline_ms
            assert (await store.aget(("a",), "short", refresh_ttl=False)).value == {"n": 1}
            assert (await store.asearch(("a",), refresh_ttl=False, limit=3))[2].key == "short"
            unread = (await client.keys(owner=name).list("s/=a/:short")).items
            assert [info.idle_deadline_ms for info in unread] in ([deadline], [])
            while await store.aget(("a",), "short", refresh_ttl=False) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
            assert [each.value["n"] for each in await store.asearch(("a",))] == [0, 2]
            store.close()

    name = owner()
    asyncio.run(whole())
