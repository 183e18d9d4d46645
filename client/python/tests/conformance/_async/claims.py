"""Claims: a side effect that must happen once, on any nodes that keep the contract."""

from helve import (
    SHARED,
    Done,
    EarlierLease,
    Fresh,
    InFlight,
    InFlightError,
    LeaseEnd,
    LeaseLostError,
    Mapped,
    OtherDigest,
    Ttl,
    UnkeptResultError,
    digest_of,
)
from helve._async.claims import AsyncLease

from .io import begin, ended, together
from .setup import HOUR, HOUR_MS, SHORT, error_of, kind_of, refused, wait_until

PAY = digest_of({"pay": 17})
REFUND = digest_of({"refund": 17})
#: Long enough that no lease ends in the middle of a case, in seconds.
LONG = 60.0


def claims(setup, node=0, owner=SHARED, **options):
    return setup.client(node).claims(setup.name, owner=owner, **options)


class Declined(Exception):  # noqa: N818
    """The side effect did not happen."""


class Lost(Exception):  # noqa: N818
    """It may have happened."""


class Paying:
    """A side effect, and how often it happened."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.fences = []

    async def __call__(self, lease):
        assert isinstance(lease, AsyncLease)
        self.fences.append(lease.fence)
        if self.errors:
            raise self.errors.pop(0)
        return {"receipt": len(self.fences)}


async def never(lease):
    raise AssertionError(f"it was called: {lease!r}")


async def lease_of(found, key, digest=PAY, **options):
    """The lease of a claim that is fresh."""
    claimed = await found.claim(key, digest, **options)
    assert isinstance(claimed, Fresh), claimed
    return claimed.lease


async def is_over(found, key):
    """Waits until a lease or a result ends."""

    async def is_free():
        return not isinstance(await found.claim(key, PAY, lease=SHORT), (InFlight, Done))

    await wait_until("the key to be free", is_free)


async def of_twenty_callers_one_is_first_and_all_get_its_result(setup):
    calls = [lambda n=n: claims(setup, n).claim("k", PAY, note=f"caller {n}") for n in range(20)]
    outcomes = await together(calls)
    leases = [each.lease for each in outcomes if isinstance(each, Fresh)]
    assert len(leases) == 1
    held = [each for each in outcomes if isinstance(each, InFlight)]
    assert len(held) == 19
    (told,) = {(each.fence, each.until_ms, each.note) for each in held}
    assert told[:2] == (leases[0].fence, leases[0].until_ms)
    assert isinstance(outcomes[int(told[2].removeprefix("caller "))], Fresh)
    assert all(0 < each.left <= 30 for each in held)
    assert 0 < leases[0].left <= 30
    assert await leases[0].finish({"paid": True}) == {"paid": True}
    assert await together(calls) == [Done({"paid": True}, None)] * 20


async def another_digest_is_told_apart(setup):
    found = claims(setup)
    lease = await lease_of(found, "k")
    assert await found.claim("k", REFUND) == OtherDigest()
    await lease.finish("paid")
    assert await found.claim("k", REFUND) == OtherDigest()
    assert await found.claim("k", PAY) == Done("paid", None)


async def an_abandoned_key_is_free_at_once_and_its_lease_worth_nothing(setup):
    found = claims(setup)
    old = await lease_of(found, "k")
    assert await old.abandon()
    assert not await old.abandon()
    new = await lease_of(claims(setup, 1), "k", REFUND)
    assert new.fence > old.fence
    error = await error_of(lambda: old.finish("late"))
    assert isinstance(error, LeaseLostError)
    assert (error.kind, error.maybe_done) == ("Conflict", False)
    assert not await old.abandon()
    assert await new.finish("refunded") == "refunded"


async def a_lease_ends_by_itself(setup):
    found = claims(setup)
    old = await lease_of(found, "k", lease=SHORT)
    new = await lease_of_free(found, "k")
    assert new.fence > old.fence
    assert old.left == 0
    assert isinstance(await error_of(lambda: old.finish("late")), LeaseLostError)
    assert await new.finish("paid") == "paid"
    assert not await new.abandon()


async def a_lease_is_told_how_those_before_it_ended(setup):
    found = claims(setup)
    first = await lease_of(found, "k")
    assert first.earlier is None
    assert await first.abandon()
    crashed = await lease_of(found, "k", lease=SHORT)
    assert (crashed.earlier.end, crashed.earlier.fence) == (LeaseEnd.ABANDONED, first.fence)
    assert not crashed.earlier.may_have_happened
    second = await lease_of_free(found, "k")
    assert second.earlier == EarlierLease(LeaseEnd.EXPIRED, crashed.fence, crashed.until_ms)
    assert second.earlier.may_have_happened
    assert await second.abandon()
    third = await lease_of(claims(setup, 1), "k", REFUND)
    assert third.earlier == second.earlier
    assert await third.abandon(never_happened=True)
    fourth = await lease_of(found, "k")
    assert (fourth.earlier.end, fourth.earlier.fence) == (LeaseEnd.ABANDONED, third.fence)
    await fourth.finish("paid", SHORT)
    last = await lease_of_free(found, "k")
    assert (last.earlier.end, last.earlier.fence) == (LeaseEnd.FINISHED, fourth.fence)
    assert last.earlier.may_have_happened
    assert await found.delete("k")
    assert (await lease_of(found, "k")).earlier is None


async def lease_of_free(found, key):
    """The lease of a key whose earlier lease is about to end."""
    leases = []

    async def is_fresh():
        claimed = await found.claim(key, PAY, lease=LONG)
        leases.extend([claimed.lease] if isinstance(claimed, Fresh) else [])
        return leases != []

    await wait_until("the key to be free", is_fresh)
    return leases[0]


async def a_second_finish_keeps_the_first_result(setup):
    lease = await lease_of(claims(setup), "k")
    assert await lease.finish("first") == "first"
    assert await lease.finish("second", SHORT) == "first"
    assert not await lease.abandon()
    assert await claims(setup, 1).claim("k", PAY) == Done("first", None)


async def a_result_is_kept_for_as_long_as_was_said(setup):
    found = claims(setup, default_ttl=HOUR)
    lease = await lease_of(found, "default")
    await lease.finish(1)
    kept = await found.claim("default", PAY)
    lasts = kept.until_ms - (lease.until_ms - 30_000)
    assert HOUR_MS <= lasts < HOUR_MS + LONG * 1000
    await (await lease_of(found, "never")).finish(2, Ttl.NEVER)
    assert await found.claim("never", PAY) == Done(2, None)
    lease = await lease_of(found, "keep")
    await refused(lambda: lease.finish(3, Ttl.KEEP), "BAD_LIFETIME")
    await refused(lambda: lease.finish(3, 0), "BAD_LIFETIME")
    assert await lease.finish(3, SHORT) == 3
    await is_over(found, "keep")


async def claims_and_handles_leave_each_other_alone(setup):
    found, handles = claims(setup), setup.handles()
    lease = await lease_of(found, "claim")
    await refused(lambda: handles.put("claim", 1), "CLAIMED")
    await lease.finish("paid")
    await refused(lambda: handles.put("claim", 1), "CLAIMED")
    await handles.put("handle", 1)
    await refused(lambda: found.claim("handle", PAY), "CLAIMED")
    assert await handles.get("claim") == "paid"
    assert await handles.get("handle") == 1


async def owners_have_claims_of_their_own(setup):
    shared, alice = claims(setup), claims(setup, 1, owner="alice")
    await (await lease_of(shared, "k")).finish("ours")
    await (await lease_of(alice, "k", REFUND)).finish("hers")
    assert await shared.claim("k", PAY) == Done("ours", None)
    assert await shared.for_owner("alice").claim("k", REFUND) == Done("hers", None)


async def a_lease_stays_that_of_the_owner_who_claimed(setup):
    owner = ["alice"]
    found = claims(setup, owner=lambda: owner[0])
    lease = await lease_of(found, "k")
    owner[0] = "bob"
    assert await lease.finish("hers") == "hers"
    assert isinstance(await found.claim("k", PAY), Fresh)


async def what_is_no_claim_is_refused(setup):
    found = claims(setup)
    for digest in ("text", b"", bytes(65), None):
        await refused(lambda d=digest: found.claim("k", d), "BAD_REQUEST", repr(digest))
    for lease in (0, -1, 25 * HOUR):
        await refused(lambda n=lease: found.claim("k", PAY, lease=n), "BAD_LIFETIME", lease)
    for key, reason in (("", "BAD_ID"), ("a\0b", "BAD_ID"), ("x" * 129, "TOO_LARGE")):
        await refused(lambda k=key: found.claim(k, PAY), reason, key)
    lease = await lease_of(found, "k", bytes(64), lease=24 * HOUR, note="\0 \U0001f600")
    other = await claims(setup, 1).claim("k", bytes(64))
    assert (other.note, other.fence) == ("\0 \U0001f600", lease.fence)
    assert "\0" not in repr(lease)
    found.close()
    assert await kind_of(lambda: found.claim("k", PAY)) == "Closed"
    assert await kind_of(lambda: lease.finish(1)) == "Closed"
    assert await kind_of(lambda: lease.abandon()) == "Closed"
    assert await kind_of(lambda: found.delete("k")) == "Closed"


async def a_deleted_claim_is_free(setup):
    found = claims(setup)
    assert not await found.delete("k")
    lease = await lease_of(found, "k")
    assert await found.delete("k")
    assert isinstance(await error_of(lambda: lease.finish("late")), LeaseLostError)
    await (await lease_of(found, "k")).finish("paid")
    assert await found.delete("k")
    assert isinstance(await found.claim("k", REFUND), Fresh)


async def results_are_kept_as_the_codec_says(setup):
    codec = Mapped(lambda pair: list(pair), lambda found: (found[0], found[1]))
    found = claims(setup, codec=codec)
    assert await (await lease_of(found, "k")).finish((1, 2)) == (1, 2)
    assert await found.claim("k", PAY) == Done((1, 2), None)
    await (await lease_of(claims(setup), "text")).finish(5)
    error = await error_of(lambda: found.claim("text", PAY))
    assert error.kind == "Codec"
    assert "'text'" in error.message


async def once_happens_once_for_twenty_callers(setup):
    pay = Paying()
    answers = await together(
        [lambda n=n: claims(setup, n).once("k", PAY, pay, patience=LONG) for n in range(20)]
    )
    assert answers == [{"receipt": 1}] * 20
    assert len(pay.fences) == 1
    assert await claims(setup).once("k", PAY, never) == {"receipt": 1}
    error = await error_of(lambda: claims(setup).once("k", REFUND, never))
    assert (error.kind, error.maybe_done) == ("Invalid", False)


async def once_gives_up_what_did_not_happen(setup):
    found, pay = claims(setup), Paying(Declined(), Declined())
    for _ in range(2):
        try:
            await found.once("k", PAY, pay, undone=(Declined, ValueError), lease=LONG)
        except Declined:
            pass
        else:
            raise AssertionError("it raised nothing")
    assert await claims(setup, 1).once("k", PAY, pay, undone=Declined) == {"receipt": 3}
    assert len(set(pay.fences)) == 3


async def once_keeps_its_lease_after_an_error_that_leaves_doubt(setup):
    found = claims(setup, lease=LONG)
    try:
        await found.once("k", PAY, Paying(Lost()), undone=Declined)
    except Lost:
        pass
    else:
        raise AssertionError("it raised nothing")
    held = await found.claim("k", PAY)
    assert isinstance(held, InFlight)
    error = await error_of(lambda: claims(setup, 1).once("k", PAY, never, patience=0.1))
    assert isinstance(error, InFlightError)
    assert (error.kind, error.until_ms) == ("Conflict", held.until_ms)


async def once_never_repeats_what_may_have_happened(setup):
    found, pay = claims(setup, lease=LONG), Paying(Lost())
    try:
        await found.once("k", PAY, pay, undone=Declined, lease=SHORT)
    except Lost:
        pass
    else:
        raise AssertionError("it raised nothing")
    error = await error_of(lambda: found.once("k", PAY, never, patience=LONG))
    assert (error.kind, error.maybe_done) == ("Ambiguous", True)
    recover = Paying()
    assert await found.once("k", PAY, never, recover=recover) == {"receipt": 1}
    assert recover.fences[0] > pay.fences[0]
    assert await found.once("k", PAY, never) == {"receipt": 1}


async def once_recovers_again_after_a_recovery_that_failed(setup):
    found = claims(setup, lease=LONG)
    both = Paying(Lost(), Lost())
    for _ in range(2):
        try:
            await found.once("k", PAY, both, recover=both, lease=SHORT, patience=LONG)
        except Lost:
            pass
        else:
            raise AssertionError("it raised nothing")
    error = await error_of(lambda: found.once("k", PAY, never, patience=LONG))
    assert error.kind == "Ambiguous"
    assert await found.once("k", PAY, never, recover=both, patience=LONG) == {"receipt": 3}


async def once_waits_for_the_result_of_another(setup):
    found = claims(setup)
    lease = await lease_of(found, "k")
    waiting = begin(lambda: claims(setup, 1).once("k", PAY, never, patience=LONG))
    undone = begin(lambda: claims(setup, 2).once("k", PAY, never, patience=0.2))
    assert await ended_kind(undone) == "Conflict"
    await lease.finish("paid")
    assert await ended(waiting) == "paid"


async def ended_kind(begun):
    async def whole():
        return await ended(begun)

    return await kind_of(whole)


async def once_takes_over_what_another_gives_up(setup):
    lease = await lease_of(claims(setup), "k")
    pay = Paying()
    waiting = begin(lambda: claims(setup, 1).once("k", PAY, pay, patience=LONG))
    assert (
        await ended_kind(begin(lambda: claims(setup, 2).once("k", PAY, never, patience=0.2)))
        == "Conflict"
    )
    assert pay.fences == []
    assert await lease.abandon()
    assert await ended(waiting) == {"receipt": 1}


async def once_says_what_happened_though_its_result_cannot_be_kept(setup):
    async def pay(lease):
        return {1, 2}

    error = await error_of(lambda: claims(setup).once("k", PAY, pay))
    assert isinstance(error, UnkeptResultError)
    assert (error.kind, error.result) == ("Ambiguous", {1, 2})
    assert isinstance(await claims(setup, 1).claim("k", PAY), InFlight)
