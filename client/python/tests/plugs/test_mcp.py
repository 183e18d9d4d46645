"""The event store for the official SDK, in the version that is installed, on three nodes."""

import asyncio
import itertools
import secrets

import pytest

pytest.importorskip("mcp")

from helve import AsyncClient, UnavailableError
from helve.mcp import _MESSAGE, EventStore, TokenStorage


def message(number):
    return _MESSAGE.validate_python(
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": number}}
    )


def number_of(event):
    return _MESSAGE.dump_python(event.message, mode="json")["params"]["data"]


async def replayed(store, last):
    events = []

    async def send(event):
        events.append(event)

    return await store.replay_events_after(last, send), events


@pytest.fixture
def run(endpoints):
    """Runs a case on two stores that are one: of two clients, as two replicas have them."""

    def run(case, **options):
        async def whole():
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                owner = f"ev-{secrets.token_hex(8)}"
                await case(*(EventStore(c, owner=owner, **options) for c in (one, other)))

        asyncio.run(whole())

    return run


def test_a_replay_has_what_came_behind_on_any_replica(run):
    async def case(store, other):
        primed = await store.store_event("s", None)
        ids = [await (store, other)[n % 2].store_event("s", message(n)) for n in range(10)]
        await store.store_event("other stream", message(99))
        for replica in (store, other):
            stream, events = await replayed(replica, primed)
            assert (stream, [number_of(event) for event in events]) == ("s", list(range(10)))
            assert [event.event_id for event in events] == ids
            stream, events = await replayed(replica, ids[6])
            assert [number_of(event) for event in events] == [7, 8, 9]
            assert (await replayed(replica, ids[9]))[1] == []

    run(case)


def test_of_forty_events_of_two_stores_at_once_none_is_lost(run):
    async def case(store, other):
        primed = await store.store_event("s", None)
        await asyncio.gather(
            *((store, other)[n % 2].store_event("s", message(n)) for n in range(40))
        )
        stream, events = await replayed(other, primed)
        assert stream == "s"
        assert sorted(number_of(event) for event in events) == list(range(40))
        assert len({event.event_id for event in events}) == 40

    run(case)


def test_what_is_written_between_two_pages_is_left_for_the_next_replay(run):
    async def case(store, other):
        primed = await store.store_event("s", None)
        await asyncio.gather(*(other.store_event("s", message(n)) for n in range(150)))
        read, numbers, cursors = store._keys._values_page, itertools.count(150), []

        async def write(after, *, is_behind):
            """Writes events until one is on this side of where the next page begins."""
            while True:
                event_id = await other.store_event("s", message(next(numbers)))
                if (event_id.split(".")[1] > after.rsplit("/", 1)[1]) is is_behind:
                    return

        async def between(prefix, after, *rest):
            if after is not None and not cursors:
                cursors.append(after)
                # The first page misses an event, and the second one has a later one.
                await write(after, is_behind=False)
                await write(after, is_behind=True)
            return await read(prefix, after, *rest)

        store._keys._values_page = between
        _, first = await replayed(store, primed)
        assert cursors, "there was a second page"
        _, second = await replayed(store, first[-1].event_id)
        sent = sorted(number_of(event) for event in first + second)
        assert sent == list(range(next(numbers)))

    run(case)


def test_an_event_is_stored_though_old_ones_cannot_be_deleted(run):
    async def case(store, other):
        async def fails(prefix):
            raise UnavailableError("the leader dies")

        store._keys.list = fails
        primed = await store.store_event("s", None)
        await store.store_event("s", message(1))
        assert [number_of(event) for event in (await replayed(other, primed))[1]] == [1]

    run(case, max_events_per_stream=4)


def test_sessions_of_one_store_do_not_see_each_other(run):
    async def case(store, other):
        mine, theirs = store.scoped("a"), other.scoped("b")
        last = await mine.store_event("1", message(1))
        await theirs.store_event("1", message(2))
        await store.scoped("a").store_event("1", message(3))
        assert [number_of(event) for event in (await replayed(mine, last))[1]] == [3]
        assert await replayed(theirs, last) == (None, [])

    run(case)


def test_unknown_ids_are_answered_with_none(run):
    async def case(store, _):
        await store.store_event("s", message(1))
        for odd in ("", "1", "a.b", f"{'0' * 32}.{'0' * 32}", "../..", "\0"):
            assert await replayed(store, odd) == (None, [])

    run(case)


def test_a_stream_has_a_bound(run):
    async def case(store, other):
        ids = [await store.store_event("s", message(n)) for n in range(100)]
        assert await replayed(store, ids[0]) == (None, [])
        left = await store._keys.list("events/")
        assert 16 <= len(left.items) <= 18
        assert [number_of(event) for event in (await replayed(other, ids[95]))[1]] == [
            96,
            97,
            98,
            99,
        ]

    run(case, max_events_per_stream=16)


def test_no_event_is_lost_while_the_leader_is_killed(run, cluster):
    async def case(store, other):
        for replica in (store, other):
            replica._keys._client = replica._keys._client.with_deadline(60.0)
        primed = await store.store_event("s", None)

        def kill():
            leader = cluster.leader()
            leader.kill()
            return leader

        killing = asyncio.get_running_loop().run_in_executor(None, kill)
        await asyncio.gather(
            *((store, other)[n % 2].store_event("s", message(n)) for n in range(60))
        )
        (await killing).start()
        _, events = await replayed(other, primed)
        assert sorted(number_of(event) for event in events) == list(range(60))

    run(case)


def test_what_one_replica_logged_in_with_another_has(endpoints):
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

    tokens = OAuthToken(access_token="a", token_type="Bearer", refresh_token="r", expires_in=60)
    client_info = OAuthClientInformationFull(
        client_id="c", client_secret="s", redirect_uris=["http://127.0.0.1:1/callback"]
    )

    async def whole():
        owner = f"oauth-{secrets.token_hex(8)}"
        async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
            url = "https://server.test/mcp"
            first, second = (TokenStorage(client, url, owner=owner) for client in (one, other))
            assert await first.get_tokens() is None
            assert await first.get_client_info() is None
            await first.set_tokens(tokens)
            await first.set_client_info(client_info)
            metadata = OAuthClientMetadata(redirect_uris=client_info.redirect_uris)
            provider = OAuthClientProvider(url, metadata, second)
            await provider._initialize()
            assert provider.context.current_tokens == tokens
            assert provider.context.client_info == client_info
            for stranger in (
                TokenStorage(one, "https://other.test/mcp", owner=owner),
                TokenStorage(one, url, owner=f"{owner}-2"),
            ):
                assert await stranger.get_tokens() is None

    asyncio.run(whole())
