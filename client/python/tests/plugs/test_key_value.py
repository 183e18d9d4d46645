"""The store for py-key-value on three nodes: what the shared suite asks of a store, and more."""

import asyncio
import secrets

import pytest

pytest.importorskip("key_value.aio")

from key_value.aio import protocols

from helve import AsyncClient, Raw
from helve._key_value_errors import kv
from helve.key_value import HelveStore


@pytest.fixture
def run(endpoints):
    """Runs a case on two stores that are one: of two clients, as two replicas have them."""

    def run(case, **options):
        async def whole():
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                owner = f"kv-{secrets.token_hex(8)}"
                stores = [HelveStore(c, owner=owner, **options) for c in (one, other)]
                await case(*stores)

        asyncio.run(whole())

    return run


def test_it_has_the_shape_of_every_protocol(run):
    async def case(store, _):
        found = protocols.key_value if hasattr(protocols, "key_value") else protocols
        names = [name for name in dir(found) if name.startswith("Async") and "Protocol" in name]
        assert len(names) >= 5
        for name in [*names, "AsyncKeyValue"]:
            assert isinstance(store, getattr(found, name)), name

    run(case)


def test_values_come_back_through_the_other_replica(run):
    async def case(store, other):
        assert await store.get("k") is None
        assert await store.ttl("k") == (None, None)
        value = {"text": "ä", "n": 1, "big": 2**63, "f": 0.1, "none": None, "deep": {"a": [1, {}]}}
        await store.put("k", value, collection="c")
        assert await other.get("k", collection="c") == value
        assert await other.get("k") is None, "another collection"
        assert await other.delete("k", collection="c")
        assert not await store.delete("k", collection="c")

    run(case)


def test_many_are_one_call_each_way(run):
    async def case(store, other):
        keys = [f"k{n}" for n in range(300)]
        values = [{"n": n} for n in range(300)]
        await store.put_many(keys, tuple(values), ttl=100)
        assert await other.get_many([*keys, "missing"]) == [*values, None]
        found = await other.ttl_many(["k0", "missing"])
        assert found[0][0] == {"n": 0}
        assert 95 < found[0][1] <= 100
        assert found[1] == (None, None)
        assert await other.delete_many([*keys[:200], "missing", "k0"]) == 200
        assert await store.delete_many(keys) == 100
        with pytest.raises(ValueError, match="1 keys, and 2 values"):
            await store.put_many(["a"], [{}, {}])

    run(case)


def test_many_large_values_are_put_and_read(run):
    async def case(store, other):
        values = [{"large": "v" * 900_000} for _ in range(8)]
        keys = [f"k{n}" for n in range(8)]
        await store.put_many(keys, values)
        assert await other.get_many(keys) == values

    run(case)


def test_largest_values_are_put_together_and_too_large_ones_put_none(run):
    async def case(store, other):
        room = (1 << 20) - len('{"v":""}')
        keys, values = [f"k{n}" for n in range(4)], [{"v": "v" * room}] * 4
        await store.put_many(keys, values)
        assert await other.get_many(keys) == values
        infos = (await other._keys.list(other._prefix)).items
        revisions = [info.revision for info in infos]
        assert [revisions.count(each) for each in dict.fromkeys(revisions)] == [3, 1]
        too_large = getattr(kv, "ValueTooLargeError", kv.KeyValueOperationError)
        with pytest.raises(too_large) as raised:
            await store.put_many(
                [f"l{n}" for n in range(4)], [*values[:3], {"v": "v" * room + "v"}]
            )
        assert raised.value.__cause__.reason == "TOO_LARGE"
        assert sorted(await other.keys()) == keys

    run(case)


def test_lifetimes_are_seconds(run):
    async def case(store, other):
        await store.put("k", {"a": 1}, ttl=100)
        value, ttl = await other.ttl("k")
        assert value == {"a": 1}
        assert 95 < ttl <= 100
        await store.put("k", {"a": 2})
        assert await other.ttl("k") == ({"a": 2}, None)
        await store.put("short", {"a": 1}, ttl=0.2)
        while await other.get("short") is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        for ttl in (0, -100, True, "1", float("nan")):
            with pytest.raises(kv.InvalidTTLError):
                await store.put("k", {"a": 3}, ttl=ttl)
        assert await other.get("k") == {"a": 2}

    run(case)


NAMES = ["plain", "a/b", "/", "*star", "", "x" * 2000, "nul\0", "!@#$%^&*() ", "ä" * 500, "%2F"]


def test_any_name_of_a_collection_and_a_key_is_kept_and_listed(run):
    async def case(store, other):
        for collection in NAMES:
            for key in NAMES:
                await store.put(key, {"c": collection, "k": key}, collection=collection or None)
        for collection in NAMES:
            name = collection or store.default_collection
            for key in NAMES:
                assert (await other.get(key, collection=name)) == {"c": collection, "k": key}
            assert sorted(await other.keys(name)) == sorted(NAMES)
            assert len(await other.keys(name, limit=3)) == 3
        expected = sorted(name or store.default_collection for name in NAMES)
        assert sorted(await other.collections()) == expected
        assert len(await other.collections(limit=2)) == 2
        assert await store.destroy_collection("a/b")
        assert not await store.destroy_collection("a/b")
        assert await other.keys("a/b") == []
        assert sorted(await other.keys("plain")) == sorted(NAMES)
        assert await store.destroy()
        assert not await other.destroy()
        assert await other.collections() == []

    run(case)


def test_what_cannot_be_kept_is_an_error_of_the_library(run, endpoints):
    async def case(store, other):
        for value in ({"a": {1, 2}}, {"a": 2**64}, {"a": float("nan")}, {1: 2}, "text"):
            with pytest.raises(kv.SerializationError):
                await store.put("k", value)
        too_large = getattr(kv, "ValueTooLargeError", kv.KeyValueOperationError)
        with pytest.raises(too_large) as raised:
            await store.put("k", {"large": "v" * (1 << 20)}, collection="c")
        assert raised.value.__cause__.reason == "TOO_LARGE"
        with pytest.raises(kv.InvalidKeyError):
            await store.get("\ud800")
        raw = store._client.keys(owner=store._keys._owner, codec=Raw())
        await raw.put("kv/default_collection/odd", b"\xff")
        with pytest.raises(kv.DeserializationError):
            await store.get("odd")
        await store._client.close()
        with pytest.raises(kv.StoreConnectionError) as closed:
            await store.get("k")
        assert closed.value.__cause__.kind == "Closed"

    run(case)


def test_put_if_absent_has_one_winner(run):
    async def case(store, other):
        calls = [
            (store, other)[n % 2].put_if_absent("k", {"winner": n}, ttl=100) for n in range(20)
        ]
        won = [n for n, is_stored in enumerate(await asyncio.gather(*calls)) if is_stored]
        assert len(won) == 1
        assert await store.get("k") == {"winner": won[0]}
        assert (await store.ttl("k"))[1] > 90

    run(case)


def test_compare_and_swap_loses_no_update(run):
    async def case(store, other):
        def add(n):
            return lambda found: {"seen": [*(found or {"seen": []})["seen"], n]}

        await asyncio.gather(*((store, other)[n % 2].update("k", add(n)) for n in range(20)))
        assert sorted((await store.get("k"))["seen"]) == list(range(20))
        record = await store.get_record("k")
        assert await other.put_if("k", {"seen": []}, record.revision)
        assert not await store.put_if("k", {"seen": [1]}, record.revision)
        taken = await asyncio.gather(*((store, other)[n % 2].take("k") for n in range(10)))
        assert [each for each in taken if each is not None] == [{"seen": []}]
        long = "x" * 2000
        await store.update(long, add(1))
        assert await other.take(long) == {"seen": [1]}

    run(case)


def test_it_goes_on_while_the_leader_is_killed(run, cluster):
    async def case(store, other):
        store._keys._client = store._client.with_deadline(60.0)
        other._keys._client = other._client.with_deadline(60.0)

        def add(n):
            return lambda found: {"seen": [*(found or {"seen": []})["seen"], n]}

        async def write(n):
            await (store, other)[n % 2].put(f"k{n}", {"n": n})
            await (store, other)[n % 2].update("list", add(n))

        def kill():
            leader = cluster.leader()
            leader.kill()
            return leader

        await asyncio.gather(*(write(n) for n in range(10)))
        killing = asyncio.get_running_loop().run_in_executor(None, kill)
        await asyncio.gather(*(write(n) for n in range(10, 40)))
        (await killing).start()
        assert sorted((await store.get("list"))["seen"]) == list(range(40))
        assert await other.get_many([f"k{n}" for n in range(40)]) == [{"n": n} for n in range(40)]

    run(case)
