"""Watches: on scripted nodes, whose streams break in every way."""

import asyncio
import importlib
import inspect

import pytest
from scripted import Node, part

from helve._async.io import Parts

SCRIPTED = importlib.import_module("conformance._async.watches")
NAMES = [
    name
    for name, function in inspect.getmembers(SCRIPTED, inspect.iscoroutinefunction)
    if not inspect.signature(function).parameters
]


@pytest.mark.parametrize("flavour", ["_async", "_sync"])
@pytest.mark.parametrize("name", NAMES)
def test_case(name, flavour):
    case = getattr(importlib.import_module(f"conformance.{flavour}.watches"), name)
    if flavour == "_async":
        asyncio.run(case())
    else:
        case()


def test_a_wait_that_is_cancelled_loses_no_change():
    async def run(node):
        async with SCRIPTED.client(node) as made:
            changes = await SCRIPTED.watched(made)
            assert await SCRIPTED.told(changes, 1) == ["11.0"]
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(SCRIPTED.told(changes, 1), 0.1)
            node.watches = [[part(11), part(12, (12, 0))]]
            assert await SCRIPTED.told(changes, 1) == ["12.0"]

    with Node(watches=[[part(10), part(11, (11, 0))]]) as node:
        asyncio.run(run(node))
        assert {each.after for each in node.watched[1:]} == {11}


def test_a_part_read_by_a_cancelled_reader_is_told(monkeypatch):
    whole = Parts.next

    async def cancelled(parts, timeout):
        await whole(parts, timeout)
        raise asyncio.CancelledError

    async def run(node):
        async with SCRIPTED.client(node) as made:
            changes = await SCRIPTED.watched(made)
            with monkeypatch.context() as patched:
                patched.setattr(Parts, "next", cancelled)
                with pytest.raises(asyncio.CancelledError):
                    await SCRIPTED.told(changes, 1)
            assert await SCRIPTED.told(changes, 2) == ["11.0", "12.0"]

    script = [part(10), part(11, (11, 0)), part(12, (12, 0))]
    with Node(watches=[script, script[1:]]) as node:
        asyncio.run(run(node))
