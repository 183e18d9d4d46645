"""Both clients' claims, on nodes that keep the contract and fail by a script."""

import asyncio
import hashlib
import importlib
import inspect
import json

import pytest
import variants
from claiming import Claiming, Kept

from helve import SHARED, AsyncClient, CodecError, Fresh, InFlight, digest_of
from helve._core.verdict import takes
from helve._wire import messages as wire


def cases(module, parameter):
    """The functions that take this alone."""
    found = importlib.import_module(f"conformance._async.{module}")
    return [
        name
        for name, function in inspect.getmembers(found, inspect.iscoroutinefunction)
        if list(inspect.signature(function).parameters) == [parameter]
        and function.__module__ == found.__name__
    ]


@pytest.mark.parametrize("name", cases("claim_faults", "options"))
def test_fault(name):
    variants.run("claim_faults", name)


@pytest.mark.parametrize("flavour", ["_async", "_sync"])
@pytest.mark.parametrize("name", cases("claims", "setup"))
def test_case(name, flavour):
    """What `test_conformance` runs on real nodes."""
    case = getattr(importlib.import_module(f"conformance.{flavour}.claims"), name)
    setup = importlib.import_module(f"conformance.{flavour}.setup")
    io = importlib.import_module(f"conformance.{flavour}.io")
    kept = Kept()
    with Claiming(kept) as first, Claiming(kept) as second, Claiming(kept) as third:
        io.run(case, setup.Setup([first.address, second.address, third.address]))


def test_a_caller_that_is_cancelled_leaves_its_lease_to_end():
    kept = Kept()

    async def run(node):
        async with AsyncClient(node.address) as client:
            claims = client.claims("pay", owner=SHARED)
            begun = asyncio.Event()

            async def pay(lease):
                begun.set()
                await asyncio.sleep(60)

            task = asyncio.ensure_future(claims.once("k", b"d", pay, undone=Exception))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert isinstance(await claims.claim("k", b"d"), InFlight)
            kept.ahead_ms += 30_000
            assert isinstance(await claims.claim("k", b"d"), Fresh)

    with Claiming(kept) as node:
        asyncio.run(run(node))


def test_the_answer_to_a_claim_may_be_too_large_for_a_proxy_after_it_was_carried_out():
    assert takes(wire.ClaimRequest())
    assert not takes(wire.PutRequest())


def test_a_digest_is_that_of_the_request_whatever_its_order():
    request = {"to": "Zoë", "amount": 5, "lines": [1, 2.5, None]}
    turned = dict(reversed(list(request.items())))
    assert digest_of(request) == digest_of(turned) == digest_of(json.loads(json.dumps(request)))
    # What another client makes of the same text.
    text = '{"amount":5,"lines":[1,2.5,null],"to":"Zoë"}'
    assert digest_of(request) == hashlib.sha256(text.encode()).digest()
    others = [{**request, "amount": 5.5}, {**request, "to": "Zoe"}, [request], {}]
    assert len({digest_of(each) for each in [request, *others]}) == 5
    # Languages with one type of number cannot tell these apart.
    assert digest_of({**request, "amount": 5.0}) == digest_of(request)
    assert digest_of([-0.0]) == digest_of([0])
    infinite = float("inf")
    wrongs = (2**64, 123456789012345680000, float("nan"), infinite, -infinite)
    for wrong in (*wrongs, [infinite], {1: 2}, b"bytes", "\ud800"):
        with pytest.raises(CodecError):
            digest_of(wrong)
