"""Claims whose answers are lost, or whose nodes fail: shown on nodes that do so by a script."""

import logging
import time

from claiming import DAY_MS, LOST, Claiming, Kept
from scripted import BREAK

from helve import SHARED, AsyncClient, Done, Fresh, LeaseLostError, UnkeptResultError
from helve._wire import messages as wire

from .claims import PAY, Declined, Paying, never
from .setup import error_of, kind_of

FRESH, FINISHED = wire.CLAIM_STATUS_FRESH, wire.CLAIM_STATUS_FINISHED
#: A lease so short that a case can wait it out, in seconds.
LEASE = 0.8


def claims(*nodes, **options):
    # No node is silent here: a machine that is slow must not look like one that is.
    options = {**options, "attempt_timeout": 60.0, "connect_timeout": 60.0, "deadline": 60.0}
    client = AsyncClient([node.address for node in nodes], **options)
    return client, client.claims("pay", owner=SHARED)


def actions(*nodes):
    return [action for node in nodes for action, _ in node.claimed]


async def a_begin_whose_answer_is_lost_gives_out_one_lease(options):
    kept = Kept()
    with Claiming(kept, LOST) as first, Claiming(kept) as second:
        client, found = claims(first, second, **options)
        async with client:
            claimed = await found.claim("k", PAY)
            assert isinstance(claimed, Fresh)
            assert await claimed.lease.finish("paid") == "paid"
        assert actions(first, second).count("begin") == 2
        assert kept.carried_out == [FRESH, FINISHED]


async def a_finish_whose_answer_is_lost_keeps_one_result(options):
    kept = Kept()
    with Claiming(kept, None, LOST, LOST) as node:
        client, found = claims(node, **options)
        async with client:
            assert await found.once("k", PAY, Paying()) == {"receipt": 1}
        (begun, *finishes) = [identity for _, identity in node.claimed]
        assert len(finishes) == 3
        assert begun != finishes[0]
        assert kept.carried_out == [FRESH, FINISHED]


async def a_finish_in_doubt_is_made_again_under_its_fence(options):
    kept = Kept()
    with Claiming(kept, None, LOST, BREAK) as node:
        client, found = claims(node, tries_max=1, **options)
        async with client:
            pay = Paying()
            assert await found.once("k", PAY, pay) == {"receipt": 1}
        assert len(pay.fences) == 1
        assert actions(node) == ["begin", "finish", "finish", "finish"]
        assert kept.carried_out == [FRESH, FINISHED, wire.CLAIM_STATUS_DONE]


async def what_another_call_kept_under_the_fence_is_the_answer(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:

            async def pay(lease):
                return await lease.finish("within") and "answered"

            assert await found.once("k", PAY, pay) == "within"


async def a_begin_in_doubt_carries_nothing_out(options):
    kept = Kept()
    with Claiming(kept, LOST) as node:
        client, found = claims(node, tries_max=1, **options)
        async with client:
            assert await kind_of(lambda: found.once("k", PAY, never)) == "Ambiguous"
        assert kept.carried_out == [FRESH]


async def a_lease_that_ends_before_its_finish_says_what_happened(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:

            async def slow(lease):
                kept.ahead_ms += 30_000
                other = await found.claim("k", PAY)
                assert other.lease.fence > lease.fence
                assert await other.lease.finish("other") == "other"
                return "paid"

            error = await error_of(lambda: found.once("k", PAY, slow))
            assert isinstance(error, UnkeptResultError)
            assert isinstance(error.__cause__, LeaseLostError)
            assert (error.result, error.maybe_done) == ("paid", True)
            assert await found.claim("k", PAY) == Done("other", None)


async def a_finish_is_tried_until_the_lease_ends(options):
    kept = Kept()
    with Claiming(kept, None, *[BREAK] * 10_000) as node:
        client, found = claims(node, tries_max=1, **options)
        async with client:
            began = time.monotonic()
            error = await error_of(lambda: found.once("k", PAY, Paying(), lease=3))
            assert isinstance(error, UnkeptResultError)
            assert error.result == {"receipt": 1}
            assert 1.5 < time.monotonic() - began < 30
        assert actions(node).count("finish") > 2


async def a_finish_that_is_refused_is_not_tried_again(options):
    kept = Kept()
    with Claiming(kept, None, "QUOTA") as node:
        client, found = claims(node, **options)
        async with client:
            error = await error_of(lambda: found.once("k", PAY, Paying()))
            assert isinstance(error, UnkeptResultError)
            assert error.reason == "QUOTA"
        assert actions(node) == ["begin", "finish"]


async def what_did_not_happen_is_told_though_it_cannot_be_given_up(options):
    kept, told = Kept(), []
    # Other variants of this case run at the same time, and log the same.
    key = f"k{id(kept)}"
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    logging.getLogger("helve").addHandler(handler)
    try:
        with Claiming(kept, None, "DENIED") as node:
            client, found = claims(node, **options)
            async with client:
                try:
                    await found.once(key, PAY, Paying(Declined()), undone=Declined)
                except Declined:
                    pass
                else:
                    raise AssertionError("it raised nothing")
            assert actions(node) == ["begin", "abandon"]
    finally:
        logging.getLogger("helve").removeHandler(handler)
    assert any(repr(key) in each for each in told)


async def an_earlier_holder_is_recovered_from(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            await found.claim("k", PAY)
            kept.ahead_ms += 30_000
            for _ in range(2):
                assert await kind_of(lambda: found.once("k", PAY, never)) == "Ambiguous"
            # It has no lease that would hold others up.
            assert actions(node) == ["begin", *["begin", "abandon"] * 2]
            recover = Paying()
            assert await found.once("k", PAY, never, recover=recover) == {"receipt": 1}


async def a_recovery_says_that_it_never_happened(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            await found.claim("k", PAY)
            kept.ahead_ms += 30_000
            recover = Paying(Declined())
            try:
                await found.once("k", PAY, never, recover=recover, undone=Declined)
            except Declined:
                pass
            else:
                raise AssertionError("it raised nothing")
            assert await found.once("k", PAY, Paying()) == {"receipt": 1}


async def an_earlier_holder_is_told_though_the_lease_cannot_be_given_up(options):
    kept = Kept()
    with Claiming(kept, None, None, "DENIED") as node:
        client, found = claims(node, **options)
        async with client:
            await found.claim("k", PAY)
            kept.ahead_ms += 30_000
            assert await kind_of(lambda: found.once("k", PAY, never)) == "Ambiguous"
            assert actions(node) == ["begin", "begin", "abandon"]
            kept.ahead_ms += 30_000
            recover = Paying()
            assert await found.once("k", PAY, never, recover=recover) == {"receipt": 1}


async def an_earlier_holder_is_forgotten_after_a_day(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            await found.claim("k", PAY)
            kept.ahead_ms += DAY_MS
            assert await kind_of(lambda: found.once("k", PAY, never)) == "Ambiguous"
            kept.ahead_ms += DAY_MS + 30_000
            assert await found.once("k", PAY, Paying()) == {"receipt": 1}


async def a_result_that_is_forgotten_is_that_of_an_earlier_holder(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            assert await found.once("k", PAY, Paying(), ttl=60) == {"receipt": 1}
            kept.ahead_ms += 60_000
            error = await error_of(lambda: found.once("k", PAY, never))
            assert error.kind == "Ambiguous"
            assert "forgotten" in error.message
            assert await found.once("k", PAY, never, recover=Paying()) == {"receipt": 1}


async def an_end_of_a_newer_version_rules_nothing_out(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            earlier = wire.EarlierLease(end=99, fence=1)
            kept.earlier["pay", "", "k"] = (earlier, kept.now_ms())
            assert await kind_of(lambda: found.once("k", PAY, never)) == "Ambiguous"


async def waiting_for_another_costs_no_writes(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            await found.claim("k", PAY)
            error = await error_of(lambda: found.once("k", PAY, never, patience=0.5))
            assert error.kind == "Conflict"
            assert len(kept.carried_out) == 2


async def a_status_of_a_newer_version_is_an_error(options):
    kept = Kept()
    with Claiming(kept) as node:
        client, found = claims(node, **options)
        async with client:
            claimed = await found.claim("k", PAY)
            kept.claim = lambda request: wire.ClaimReply(header=kept.header(), status=99)
            for call in (
                lambda: found.claim("k", PAY),
                lambda: claimed.lease.finish(1),
                lambda: claimed.lease.abandon(),
            ):
                assert await kind_of(call) == "Internal"
