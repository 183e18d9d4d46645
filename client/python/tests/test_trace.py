"""In which span of the caller's calls are made, on scripted nodes."""

import asyncio
import importlib
import threading

import pytest
from scripted import ANSWER, BREAK, Node, part

from helve import SHARED, AsyncClient, Client, within_trace
from helve.trace import parsed

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
OTHER = f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PARENT, PARENT),
        (OTHER, OTHER),
        # The lowest flag alone is of version 00.
        (f"00-{TRACE}-{SPAN}-02", OTHER),
        (f"00-{TRACE}-{SPAN}-ff", PARENT),
        # Of a later version, with more fields or without.
        (f"cc-{TRACE}-{SPAN}-01", PARENT),
        (f"cc-{TRACE}-{SPAN}-01-more", PARENT),
    ],
)
def test_a_value_is_read(text, expected):
    assert parsed(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        b"00",
        PARENT[:-1],
        PARENT + "0",
        PARENT + "-more",
        PARENT + "\n",
        " " + PARENT,
        PARENT.upper(),
        PARENT.replace("-", "_"),
        PARENT.replace("0a", "\u0660a"),
        f"ff-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_a_malformed_value_is_none(text):
    assert parsed(text) is None
    with Node(ANSWER) as node, Client(node.address) as client, within_trace(text):
        client.handles("s", owner=SHARED).mint(1)
        assert node.spans == [None]


def test_calls_of_threads_bear_the_span_around_them():
    with Node(BREAK, *[ANSWER] * 5) as node, Client(node.address) as client:
        store = client.handles("s", owner=SHARED)
        with within_trace(PARENT):
            # Each try bears it.
            store.mint(1)
            # Another thread is not within it.
            thread = threading.Thread(target=store.mint, args=(1,))
            thread.start()
            thread.join()
            with within_trace(OTHER):
                store.mint(1)
            with within_trace("malformed"):
                store.mint(1)
        with pytest.raises(RuntimeError), within_trace(PARENT):
            raise RuntimeError
        store.get("h")
        assert node.spans == [PARENT, PARENT, None, OTHER, PARENT, None]


def test_calls_of_tasks_bear_the_spans_around_them():
    async def run(node):
        async with AsyncClient(node.address) as client:
            store = client.handles("s", owner=SHARED)

            async def minted(parent):
                with within_trace(parent):
                    # What else the loop does meanwhile is not within it.
                    await asyncio.gather(store.mint(1), asyncio.sleep(0))

            await store.mint(1)
            await asyncio.gather(minted(PARENT), minted(OTHER), minted(None))

    with Node(ANSWER, ANSWER, ANSWER, ANSWER) as node:
        asyncio.run(run(node))
        assert node.spans[0] is None
        assert sorted(node.spans[1:], key=str) == [OTHER, PARENT, None]


def test_a_watch_bears_the_span_in_which_it_begins():
    watches = importlib.import_module("conformance._sync.watches")
    with Node(watches=[[part(10), part(11, (11, 0))]]) as node, watches.client(node) as client:
        with within_trace(PARENT):
            changes = watches.watched(client)
        assert watches.told(changes, 1) == ["11.0"]
        assert node.spans == [PARENT]


def test_a_generator_may_be_closed_in_another_task():
    async def streamed():
        with within_trace(PARENT):
            yield 1

    async def closed_elsewhere():
        values = streamed()
        assert await anext(values) == 1
        await asyncio.create_task(values.aclose())

    asyncio.run(closed_elsewhere())
