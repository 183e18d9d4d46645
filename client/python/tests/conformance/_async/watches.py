"""How a watch goes on when streams break, lapse or fall silent, shown on scripted nodes."""

import gc
import time
from contextlib import contextmanager

from scripted import BREAK, Node, part

from helve import SHARED, AsyncClient, Watch, WatchTooOldError
from helve._core import limits

from .io import begin, ended
from .setup import error_of, kind_of, wait_until


def client(*nodes, **options):
    options = {"attempt_timeout": 2.0, "deadline": 20.0, **options}
    return AsyncClient([node.address for node in nodes], **options)


async def watched(client, after=None):
    return await client.watch(Watch.keys("a/", owner=SHARED), after=after)


async def told(changes, count):
    """The names of the next changes, at most this many: a revision and an ordinal each."""
    found = []
    async for change in changes:
        found.append(change.name)
        if len(found) == count:
            break
    return found


async def the_request_names_target_and_revision():
    with Node(watches=[[part(3)]] * 6) as node:
        async with client(node) as made:
            await watched(made)
            for watch in (
                Watch.store("s"),
                Watch.store("s", owner=SHARED),
                Watch.handle("s", "h", owner="alice"),
                Watch.keys(owner="alice"),
                Watch.owner("alice"),
            ):
                await made.watch(watch, after=3)
        first, *others = node.watched
        assert (first.keys.prefix, first.HasField("after"), first.cluster_id) == ("a/", False, "")
        assert [each.after for each in others] == [3] * 5
        everyone, shared, handle, keys, owner = others
        assert (everyone.store.store, everyone.store.HasField("owner")) == ("s", False)
        assert (shared.store.owner, shared.store.HasField("owner")) == ("", True)
        assert (handle.handle.store, handle.handle.owner, handle.handle.id) == ("s", "alice", "h")
        assert (keys.keys.owner, keys.keys.prefix, owner.owner.owner) == ("alice", "", "alice")


async def a_stream_that_breaks_goes_on_elsewhere_without_gap_or_double():
    # Of revision 13 a part was told, so the revision to go on after is the one before.
    cut = [part(10, cluster_id="c"), part(12, (11, 0), (12, 0)), part(12, (13, 0), (13, 1)), BREAK]
    rest = [part(12, cluster_id="c"), part(14, (13, 0), (13, 1), (13, 2), (14, 0))]
    with Node(watches=[cut]) as first, Node(watches=[rest]) as second:
        async with client(first, second) as made:
            changes = await watched(made)
            assert await told(changes, 6) == ["11.0", "12.0", "13.0", "13.1", "13.2", "14.0"]
        (again,) = second.watched
        assert (again.after, again.cluster_id, again.keys.prefix) == (12, "c", "a/")


async def a_silent_stream_goes_on_elsewhere():
    with (
        silence(0.3),
        Node(watches=[[part(10), part(11, (11, 0))]]) as silent,
        Node(watches=[[part(11), part(12, (12, 0))]]) as sound,
    ):
        async with client(silent, sound) as made:
            changes = await watched(made)
            assert await told(changes, 2) == ["11.0", "12.0"]
            await wait_until("the silent stream ends", is_ended(silent))
        assert [each.after for each in sound.watched] == [11]


async def a_stream_that_lapsed_goes_on_after_what_came():
    lapsed = [part(10), part(11, (11, 0)), ("WATCH_LAPSED", {"revision": "20"})]
    with Node(watches=[lapsed, [part(11), part(21, (12, 0), (21, 0))]]) as node:
        async with client(node) as made:
            changes = await watched(made)
            assert await told(changes, 3) == ["11.0", "12.0", "21.0"]
        assert node.watched[1].after == 11


async def what_one_node_forgot_another_one_tells():
    old = ("WATCH_TOO_OLD", {"revision": "50"})
    with Node(watches=[[old]]) as forgets, Node(watches=[[part(7), part(8, (8, 0))]]) as knows:
        async with client(forgets, knows) as made:
            changes = await watched(made, after=7)
            assert await told(changes, 1) == ["8.0"]


async def a_watch_that_no_node_goes_on_with_says_from_where_it_may():
    old = [("WATCH_TOO_OLD", {"revision": "50"})]
    with Node(watches=[[part(7), *old], old]) as one, Node(watches=[old]) as other:
        async with client(one, other) as made:
            changes = await watched(made)
            error = await error_of(lambda: told(changes, 1))
            assert isinstance(error, WatchTooOldError)
            assert (error.kind, error.reason, error.revision) == ("Lapsed", "WATCH_TOO_OLD", 50)
            assert changes.revision == 7
            assert await told(changes, 1) == []


async def the_revision_grows_with_what_was_told_and_without_changes():
    parts = [part(10), part(20, (15, 0), (16, 0), (16, 1)), part(30), BREAK]
    with Node(watches=[parts, [part(30), part(31, (31, 0))]]) as node:
        async with client(node) as made:
            changes = await watched(made)
            seen = [changes.revision]
            for _ in range(4):
                await told(changes, 1)
                seen.append(changes.revision)
        assert seen == [10, 14, 15, 20, 31]
        assert node.watched[1].after == 30


async def streams_that_end_at_once_are_opened_with_pauses():
    cut = [part(10), BREAK]
    with Node(watches=[*[cut] * 8, [part(10), part(11, (11, 0))]]) as node:
        async with client(node) as made:
            began = time.monotonic()
            assert await told(await watched(made), 1) == ["11.0"]
            # Half of 5, 10, 20, 40, 80, 160, 200 and 200 ms.
            assert time.monotonic() - began >= 0.35


async def a_refusal_ends_a_watch():
    with Node(watches=[[part(10), "DENIED"]]) as node:
        async with client(node) as made:
            changes = await watched(made)
            assert await kind_of(lambda: told(changes, 1)) == "Denied"
            assert await told(changes, 1) == []
        assert len(node.watched) == 1


async def a_watch_that_no_node_answered_is_iterated_again():
    with Node(watches=[[part(10), BREAK]]) as node:
        async with client(node, deadline=0.7) as made:
            changes = await watched(made)
            assert await kind_of(lambda: told(changes, 1)) == "Unavailable"
            node.watches = [[part(10), part(11, (11, 0))]]
            assert await told(changes, 1) == ["11.0"]


#: A watch that waits for a part, for the first part of its second stream, or for its next try.
WAITS = (
    [[part(10)]],
    [[part(10), BREAK], []],
    [[part(10), BREAK], [("OVERLOADED", 600.0)]],
)


async def closing_a_watch_ends_a_wait_at_once():
    for script in WAITS:
        with Node(watches=script) as node:
            async with client(node, attempt_timeout=6000.0, deadline=6000.0) as made:
                changes = await watched(made)
                waiting = begin(lambda changes=changes: told(changes, 1))
                await wait_until("the last stream", has_streams(node, len(script)))
                await changes.close()
                await wait_until("the wait ends", is_done(waiting))
                assert await ended(waiting) == []
                assert await told(changes, 1) == []
                await changes.close()
                await wait_until("the stream ends at its node", is_ended(node))


async def closing_the_client_ends_a_watch():
    for script in WAITS:
        with Node(watches=script) as node:
            async with client(node, attempt_timeout=6000.0, deadline=6000.0) as made:
                changes = await watched(made)
                waiting = begin(lambda changes=changes: kind_of(lambda: told(changes, 1)))
                await wait_until("the last stream", has_streams(node, len(script)))
                await made.close()
                await wait_until("the wait ends", is_done(waiting))
                assert await ended(waiting) == "Closed"
                assert await told(changes, 1) == []
                assert await kind_of(lambda made=made: watched(made)) == "Closed"


async def a_watch_that_is_dropped_ends_at_its_node():
    with Node(watches=[[part(10), part(11, (11, 0))], [part(10)]]) as node:
        async with client(node) as made:
            changes = await watched(made)
            assert await told(changes, 1) == ["11.0"]
            held = await watched(made)
            del changes
            gc.collect()
            await wait_until("the stream ends at its node", is_ended(node, 0))
            # Not with its connection.
            assert not node.ends[1].is_set()
            await held.close()


@contextmanager
def silence(seconds):
    """A watch waits for its node so long."""
    before, limits.WATCH_SILENCE = limits.WATCH_SILENCE, seconds
    try:
        yield
    finally:
        limits.WATCH_SILENCE = before


def is_done(waiting):
    async def look():
        return waiting.done()

    return look


def is_ended(node, number=-1):
    async def look():
        return node.ends[number].is_set()

    return look


def has_streams(node, count):
    async def look():
        return len(node.ends) == count

    return look
