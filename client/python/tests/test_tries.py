"""What both clients do when nodes refuse, fall silent or forget, on scripted nodes."""

import asyncio
import importlib
import inspect

import pytest
import variants
from scripted import ANSWER, HANG, Node

from helve import SHARED, AsyncClient

CASES = importlib.import_module("conformance._async.tries")
NAMES = [
    name
    for name, function in inspect.getmembers(CASES, inspect.iscoroutinefunction)
    if list(inspect.signature(function).parameters) == ["options"]
]


@pytest.mark.parametrize("name", NAMES)
def test_case(name, tmp_path):
    def directory(variant):
        place = tmp_path / variant
        place.mkdir()
        return {"directory": place}

    has_files = "directory" in inspect.getsource(getattr(CASES, name))
    variants.run("tries", name, directory if has_files else None)


def test_a_cancelled_call_holds_no_later_one_back():
    async def run(node):
        async with AsyncClient(node.address, attempt_timeout=60, deadline=60) as client:
            store = client.handles("s", owner=SHARED)
            task = asyncio.ensure_future(store.mint(1))
            while not node.identities:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await store.mint(1) == "minted"

    with Node(HANG, ANSWER) as node:
        asyncio.run(run(node))
        assert [each.session.first_incomplete for each in node.identities] == [1, 2]


def test_a_client_works_in_one_event_loop_after_another():
    with Node(ANSWER, ANSWER) as node:
        client = AsyncClient(node.address)
        for _ in range(2):
            assert asyncio.run(client.handles("s", owner=SHARED).mint(1)) == "minted"
