"""Lifetimes, absolute and idle, and renewals that race with reads at the deadline."""

from helve import NotLive, Ttl
from helve._wire import messages as wire
from helve._wire import methods

from .io import begin, ended, give_way, sleep, together
from .setup import HOUR, HOUR_MS, PATIENCE, SHORT, wait_until


async def live(store, handle):
    return (await store.resolve(handle)).record.info


async def expired(store):
    handle = await store.mint(1, SHORT)

    async def is_expired():
        return await store.resolve(handle) is NotLive.EXPIRED

    await wait_until("the handle expires", is_expired)
    return handle


async def put_without_default_clears_the_deadline(setup):
    store = setup.handles()
    handle = await store.mint(1, HOUR)
    assert await store.put(handle, 2)
    assert (await live(store, handle)).expires_at_ms is None


async def put_with_default_resets_it(setup):
    store = setup.handles(default_ttl=HOUR)
    handle = await store.mint(1, 2 * HOUR)
    assert await store.put(handle, 2)
    info = await live(store, handle)
    assert info.expires_at_ms == info.updated_at_ms + HOUR_MS


async def put_never_makes_immortal(setup):
    store = setup.handles(default_ttl=HOUR)
    handle = await store.mint(1)
    assert await store.put(handle, 2, Ttl.NEVER)
    assert (await live(store, handle)).expires_at_ms is None


async def put_and_delete_of_an_expired_handle_are_false(setup):
    store = setup.handles()
    handle = await expired(store)
    assert not await store.put(handle, 2)
    assert await store.get(handle) is None, "nothing was written"
    assert await store.put_if(handle, 2, 0) is NotLive.EXPIRED
    assert not await store.delete(handle)


async def get(client, store, handle):
    request = wire.GetRequest(store=store, id=handle)
    reply = await client.call(methods.GET, request)
    return reply, reply.header.clock_ms


async def a_handle_is_never_served_at_or_after_its_deadline(setup):
    store = setup.handles()
    handle = await store.mint(1, HOUR)
    deadline_ms = (await store.renew(handle, SHORT)).record.expires_at_ms

    async def is_expired():
        reply, clock_ms = await get(setup.client(1), setup.name, handle)
        if reply.status == wire.HANDLE_STATUS_LIVE:
            assert clock_ms < deadline_ms
        else:
            assert reply.status == wire.HANDLE_STATUS_EXPIRED
            assert clock_ms >= deadline_ms
        return reply.status == wire.HANDLE_STATUS_EXPIRED

    await wait_until("the handle expires", is_expired)


async def keep_leaves_the_lifetime(setup):
    store = setup.handles(default_ttl=2 * HOUR, idle_ttl=HOUR)
    handle = await store.mint(1)
    minted = await live(store, handle)
    assert minted.idle_ttl_ms == HOUR_MS
    plain = setup.handles()
    assert await plain.put(handle, 2, Ttl.KEEP)
    put = await live(store, handle)
    assert put.expires_at_ms == minted.expires_at_ms
    assert put.idle_ttl_ms == minted.idle_ttl_ms
    assert put.revision > minted.revision

    assert not await plain.put("new", 1, Ttl.KEEP)
    created = await live(plain, "new")
    assert (created.expires_at_ms, created.idle_ttl_ms) == (None, None)


async def renew_changes_the_lifetime_and_not_the_revision(setup):
    store = setup.handles()
    handle = await store.mint(1, Ttl.NEVER)
    minted = await live(store, handle)
    renewed = (await store.renew(handle, HOUR)).record
    assert renewed.revision == minted.revision
    assert renewed.expires_at_ms >= minted.created_at_ms + HOUR_MS
    kept = (await store.renew(handle, Ttl.KEEP)).record
    assert kept.expires_at_ms == renewed.expires_at_ms
    assert await store.renew("unknown", Ttl.NEVER) is NotLive.UNKNOWN
    assert await store.renew(await expired(store), Ttl.NEVER) is NotLive.EXPIRED


async def a_get_restarts_the_idle_time(setup):
    """A machine that pauses the case for one idle time shows nothing: then it begins again."""
    idle, idle_ms = 0.4, 400
    client = setup.client()
    store = setup.handles(idle_ttl=idle)

    async def survives():
        handle = await store.mint(1)
        _, begun_ms = await get(client, setup.name, handle)
        last_ms = begun_ms
        while last_ms < begun_ms + 3 * idle_ms:
            await sleep(idle / 8)
            reply, clock_ms = await get(client, setup.name, handle)
            if reply.status != wire.HANDLE_STATUS_LIVE:
                assert clock_ms >= last_ms + idle_ms, "it died within one idle time"
                return False
            last_ms = max(clock_ms, last_ms)
            # A clock that only moves with writes must not keep the loop from its end.
            await store.put("clock", 0, Ttl.NEVER)
        return True

    await wait_until("a run without a pause of an idle time", survives)


async def an_idle_handle_expires(setup):
    store = setup.handles(idle_ttl=SHORT)
    handle = await store.mint(1, Ttl.NEVER)

    async def is_empty():
        return await store.count() == 0

    await wait_until("the handle expires", is_empty)
    assert await store.resolve(handle) is NotLive.EXPIRED


async def reads_at_the_deadline_do_not_delete_a_renewed_handle(setup):
    lifetime = SHORT
    while not await survives(setup, lifetime):
        # The machine was too slow to renew in time, so nothing was shown.
        lifetime *= 2
        assert lifetime < PATIENCE, "no renewal comes in time"


async def survives(setup, lifetime):
    """False if a renewal came too late, by the replicated clock."""
    store = setup.handles()
    handle = await store.mint(7, HOUR)
    minted = await live(store, handle)
    renewed = {"deadline_ms": 0, "is_over": False}

    async def read(reader):
        while not renewed["is_over"]:
            deadline_ms = renewed["deadline_ms"]
            reply, clock_ms = await get(setup.client(reader), setup.name, handle)
            if reply.status == wire.HANDLE_STATUS_LIVE:
                assert reply.value == b"7"
            else:
                assert reply.status == wire.HANDLE_STATUS_EXPIRED
                assert clock_ms >= deadline_ms, "it was renewed"
            await give_way()

    readers = begin(lambda: together([lambda r=r: read(r) for r in range(4)]))
    try:
        in_time = await renew(store, handle, lifetime, renewed)
    finally:
        renewed["is_over"] = True
        await ended(readers)
    if in_time:
        info = await live(store, handle)
        assert info.revision == minted.revision
    return in_time


async def renew(store, handle, lifetime, renewed):
    """Renews shortly before each deadline, and at last for an hour. False if one came too late."""
    clock = await store.mint(0, Ttl.NEVER)

    async def now_ms():
        return (await store.renew(clock, HOUR)).record.expires_at_ms - HOUR_MS

    for following in [lifetime] * 5 + [HOUR]:
        found = await store.renew(handle, following)
        if isinstance(found, NotLive):
            assert await now_ms() >= renewed["deadline_ms"], "it was due"
            return False
        deadline_ms = renewed["deadline_ms"] = found.record.expires_at_ms
        if following == lifetime:

            async def is_near(near=deadline_ms - lifetime * 250):
                return await now_ms() >= near

            await wait_until("the deadline is near", is_near)
    return True
