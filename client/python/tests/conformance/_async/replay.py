"""Exactly once: the identities that retries repeat."""

import os

from helve import Ttl
from helve._core.identity import uuid7
from helve._wire import messages as wire
from helve._wire import methods

from .setup import HOUR_MS, error_of


async def opened(setup):
    """A session of the case's own, with its window."""
    request = wire.OpenSessionRequest(session_id=os.urandom(16))
    reply = await setup.client().call(methods.OPEN_SESSION, request)
    return request.session_id, reply.window_calls_max


def numbered(session, seq, first_incomplete):
    call = wire.SessionCall(session_id=session, seq=seq, first_incomplete=first_incomplete)
    return wire.CallIdentity(session=call)


def request_id(sent_ms):
    return wire.CallIdentity(request_id=uuid7(sent_ms, os.urandom(10)))


async def clock_ms(setup):
    await setup.handles().put("clock", 0, Ttl.NEVER)
    return (await setup.handles().list()).clock_ms


def mint(setup, identity, value=b"1"):
    return wire.MintRequest(identity=identity, store=setup.name, value=value)


async def refusal(setup, request):
    error = await error_of(lambda: setup.client().call(methods.MINT, request))
    return error.kind, error.reason


async def a_retried_mutation_returns_its_first_outcome_on_any_node(setup):
    session, _ = await opened(setup)
    first = await setup.client().call(methods.MINT, mint(setup, numbered(session, 1, 1)))
    for node in range(3):
        again = await setup.client(node).call(methods.MINT, mint(setup, numbered(session, 1, 1)))
        assert again.info == first.info, f"through {node}"
    assert await setup.handles().count() == 1

    # An outcome stays the first one though the world went on.
    def put():
        identity = numbered(session, 2, 1)
        return wire.PutRequest(identity=identity, store=setup.name, id="h", value=b"1")

    created = await setup.client().call(methods.PUT, put())
    await setup.handles().put("h", 2)
    again = await setup.client(1).call(methods.PUT, put())
    assert (again.status, again.info) == (created.status, created.info)
    assert await setup.handles(2).get("h") == 2


async def a_retried_take_returns_the_value_again(setup):
    session, _ = await opened(setup)
    handle = await setup.handles().mint(7)
    for node in range(3):
        identity = numbered(session, 1, 1)
        request = wire.TakeRequest(identity=identity, store=setup.name, id=handle)
        reply = await setup.client(node).call(methods.TAKE, request)
        assert (reply.status, reply.value) == (wire.HANDLE_STATUS_LIVE, b"7")


async def a_request_id_is_executed_once(setup):
    identity = request_id(await clock_ms(setup))
    first = await setup.client().call(methods.MINT, mint(setup, identity))
    for node in range(3):
        again = await setup.client(node).call(methods.MINT, mint(setup, identity))
        assert again.info == first.info, f"through {node}"


async def a_reused_identity_is_refused(setup):
    session, _ = await opened(setup)
    for identity in (numbered(session, 1, 1), request_id(await clock_ms(setup))):
        await setup.client().call(methods.MINT, mint(setup, identity))
        reused = mint(setup, identity, b"2")
        assert await refusal(setup, reused) == ("Invalid", "REPLAY_MISMATCH")


async def what_is_below_the_floor_is_stale(setup):
    session, _ = await opened(setup)
    for seq, first in ((1, 1), (2, 1), (3, 3)):
        await setup.client().call(methods.MINT, mint(setup, numbered(session, seq, first)))
    for seq in (1, 2):
        stale = await refusal(setup, mint(setup, numbered(session, seq, 1)))
        assert stale == ("Forgotten", "STALE_CALL")
    assert await setup.handles().count() == 3


async def what_is_beyond_the_window_is_too_early(setup):
    session, window = await opened(setup)
    early = await refusal(setup, mint(setup, numbered(session, window + 1, 1)))
    assert early == ("Forgotten", "TOO_EARLY")
    await setup.client().call(methods.MINT, mint(setup, numbered(session, window, 1)))


async def request_ids_of_other_times_are_refused(setup):
    now_ms = await clock_ms(setup)
    old = await refusal(setup, mint(setup, request_id(now_ms - HOUR_MS)))
    assert old == ("Forgotten", "REQUEST_TOO_OLD")
    early = await refusal(setup, mint(setup, request_id(now_ms + HOUR_MS)))
    assert early == ("Forgotten", "TOO_EARLY")


async def an_unknown_session_is_refused(setup):
    refused = await refusal(setup, mint(setup, numbered(os.urandom(16), 1, 1)))
    assert refused == ("Forgotten", "SESSION_EXPIRED")


async def a_client_whose_session_is_gone_opens_another(setup):
    client = setup.own_client()
    store = client.handles(setup.name, owner=setup.handles()._owner)
    await store.mint(1)
    cluster = client._cluster()
    if cluster._session is not None:
        cluster._session.id = os.urandom(16)
    await store.mint(2)
    assert await store.count() == 2
    await client.close()


async def a_client_whose_clock_is_wrong_asks_for_the_time(setup):
    for off_ms in (-2 * HOUR_MS, 2 * HOUR_MS):
        client = setup.own_client()
        store = client.handles(setup.name, owner=setup.handles()._owner)
        client._cluster()._clock._ahead_ms = off_ms
        client._cluster()._dial = setup.with_request_ids(client._cluster()._dial)
        handle = await store.mint(off_ms)
        assert await store.get(handle) == off_ms
        await client.close()
