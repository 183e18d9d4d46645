"""What handles do besides mcpkit's tests: outcomes, lists, owners, contention, pages, guards."""

import pytest

from helve import (
    SHARED,
    Aborted,
    CodecError,
    Conflict,
    Created,
    Live,
    NotLive,
    Raw,
    Replaced,
    Ttl,
)

from .io import together
from .setup import HOUR, PATIENCE, SHORT, kind_of, wait_until


async def resolve_tells_live_expired_taken_and_unknown(setup):
    store = setup.handles()
    handle = await store.mint(1)
    record = (await store.resolve(handle)).record
    assert (record.name, record.value) == (handle, 1)
    assert record.revision > 0

    expired = await store.mint(2, SHORT)

    async def is_expired():
        return await store.resolve(expired) is NotLive.EXPIRED

    await wait_until("the handle expires", is_expired)
    taken = await store.mint(3)
    assert (await store.take(taken)).record.value == 3
    assert await store.resolve(taken) is NotLive.TAKEN
    assert await store.take(taken) is NotLive.TAKEN
    deleted = await store.mint(4)
    assert await store.delete(deleted)
    assert await store.resolve(deleted) is NotLive.UNKNOWN
    assert await store.resolve("never-minted") is NotLive.UNKNOWN


async def put_if_writes_only_on_the_revision(setup):
    store = setup.handles()
    created = await store.put_if("h", 1, 0)
    assert isinstance(created, Created)
    revision = created.info.revision
    for wrong in (0, revision - 1, revision + 1):
        assert await store.put_if("h", 2, wrong) == Conflict(revision)
    assert await store.get("h") == 1
    replaced = await store.put_if("h", 3, revision)
    assert isinstance(replaced, Replaced)
    assert replaced.info.revision > revision
    assert await store.put_if("absent", 1, 7) == Conflict(0)
    assert isinstance(await store.put_if_absent("h", 4), Conflict)


async def a_taken_handle_cannot_be_written(setup):
    store = setup.handles()
    handle = await store.mint(1)
    await store.take(handle)
    assert not await store.put(handle, 2)
    assert await store.put_if(handle, 2, 0) is NotLive.TAKEN
    assert await store.renew(handle, Ttl.NEVER) is NotLive.TAKEN
    assert not await store.delete(handle)


async def lists_are_in_order_with_values_on_request(setup):
    store = setup.handles()
    # More than one part's worth, and in no order.
    names = [f"{n * 7 % 60:02}" for n in range(60)]
    for name in names:
        await store.put(name, name * 20_000)
    listing = await store.list()
    assert [info.name for info in listing.items] == sorted(names)
    assert all(info.revision <= listing.revision for info in listing.items)
    assert all(info.value_bytes > 40_000 for info in listing.items)
    values = await store.list_values()
    assert len(values.items) == len(names)
    assert all(record.value == record.name * 20_000 for record in values.items)
    # Within one part, over several, of as many as there are and of more.
    for limit in (1, 40, 60, 61):
        page = await store.list_values_page(None, limit)
        assert [record.name for record in page.items] == sorted(names)[:limit]
    scanned = [record.name async for record in store.scan(7)]
    assert scanned == sorted(names)


async def what_one_node_writes_any_node_reads(setup):
    for turn in range(12):
        handle = await setup.handles(turn).mint(turn)
        for node in range(3):
            read = await setup.handles(node).get(handle)
            assert read == turn, f"minted through {turn}, read through {node}"
        assert await setup.handles(turn + 1).count() == turn + 1


async def a_closed_client_says_so(setup):
    client = setup.own_client()
    store = client.handles(setup.name, owner=SHARED)
    await store.put("h", 1)
    await client.close()
    await client.close()
    transaction = client.transaction()
    transaction.take(store, "h")
    for call in (
        lambda: store.get("h"),
        lambda: store.mint(1),
        lambda: store.list(),
        lambda: transaction.commit(),
    ):
        assert await kind_of(call) == "Closed"


async def updates_of_sixteen_clients_lose_nothing(setup):
    store = setup.handles()
    handle = await store.mint([])
    updated = await together(
        [lambda n=n: setup.handles(n).update(handle, lambda seen: [*seen, n]) for n in range(16)]
    )
    assert all(isinstance(each, Live) for each in updated)
    assert sorted(await store.get(handle)) == list(range(16))


async def one_of_sixteen_takes_gets_the_value(setup):
    handle = await setup.handles().mint(7)
    taken = await together([lambda n=n: setup.handles(n).take(handle) for n in range(16)])
    assert taken.count(NotLive.TAKEN) == 15
    assert [each.record.value for each in taken if isinstance(each, Live)] == [7]


async def one_of_sixteen_creations_wins(setup):
    outcomes = await together(
        [lambda n=n: setup.handles(n).put_if_absent("h", n) for n in range(16)]
    )
    winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Created)]
    assert len(winners) == 1, outcomes
    assert await setup.handles(1).get("h") == winners[0]


async def sixteen_mints_of_one_idempotency_key_make_one_handle(setup):
    made = await together(
        [lambda n=n: setup.handles(n, id_prefix="cart").mint_once("k", n) for n in range(16)]
    )
    store = setup.handles(id_prefix="cart")
    assert len(set(made)) == 1
    assert made[0].startswith("cart-")
    assert await store.count() == 1
    other = await store.mint_once("another", 16)
    assert other != made[0]
    assert await setup.handles().mint_once("k", 17) == made[0].removeprefix("cart-")
    assert await store.mint_once(None, 1) != await store.mint_once(None, 1)


async def a_handle_that_was_minted_once_and_taken_stays_taken(setup):
    store = setup.handles()
    handle = await store.mint_once("k", 1)
    assert await store.put(handle, 2)
    assert await store.mint_once("k", 3) == handle
    assert await store.get(handle) == 2
    await store.take(handle)
    assert await store.mint_once("k", 4) == handle
    assert await store.resolve(handle) is NotLive.TAKEN
    theirs = setup.handles(owner="bob")
    assert await theirs.mint_once("k", 5) == handle
    assert await theirs.get(handle) == 5


async def an_owner_that_is_a_function_is_asked_by_each_call(setup):
    current = ["alice"]
    store = setup.handles(owner=lambda: current[0])
    keys = setup.client().keys(owner=lambda: current[0] and f"{setup.name}-{current[0]}")
    handle = await store.mint("alice's")
    await keys.put("k", "alice's")
    current[0] = "bob"
    assert await store.resolve(handle) is NotLive.UNKNOWN
    assert await store.count() == 0
    assert [record async for record in store.scan()] == []
    assert not await keys.exists("k")
    both = setup.client().transaction()
    both.put(store, handle, "bob's")
    both.put_key(keys, "k", "bob's")
    await both.commit()
    current[0] = "alice"
    assert await store.get(handle) == "alice's"
    assert await keys.get("k") == "alice's"
    current[0] = ""
    assert await kind_of(lambda: store.count()) == "Invalid"
    assert await kind_of(lambda: keys.exists("k")) == "Invalid"


async def update_of_what_is_gone_says_why(setup):
    store = setup.handles()
    assert await store.update("unknown", lambda n: n) is NotLive.UNKNOWN
    handle = await store.mint(1)
    await store.take(handle)
    assert await store.update(handle, lambda n: n) is NotLive.TAKEN


async def an_update_that_gives_up_writes_nothing(setup):
    store = setup.handles()
    handle = await store.mint(1)
    before = await store.resolve(handle)

    def give_up(value):
        raise LookupError("no")

    try:
        await store.update(handle, give_up)
    except LookupError:
        pass
    else:
        raise AssertionError("it raised nothing")
    assert await store.resolve(handle) == before


async def a_foreign_handle_is_unknown_to_every_call(setup):
    alice = setup.handles(owner="alice")
    handle = await alice.mint(1)
    taken = await alice.mint(2)
    await alice.take(taken)
    for owner in ("bob", "alic", "alice2", SHARED):
        other = alice.for_owner(owner)
        for each in (handle, taken):
            assert await other.resolve(each) is NotLive.UNKNOWN
            assert await other.take(each) is NotLive.UNKNOWN
            assert await other.renew(each, Ttl.NEVER) is NotLive.UNKNOWN
            assert not await other.delete(each)
            assert await other.put_if(each, 9, 1) == Conflict(0)
            transaction = setup.client().transaction()
            transaction.take(other, each)
            assert await transaction.commit() == Aborted(0, NotLive.UNKNOWN)
    assert await alice.get(handle) == 1


async def each_owner_has_a_handle_of_the_same_id(setup):
    alice, bob = setup.handles(owner="alice"), setup.handles(owner="bob")
    assert not await alice.put("cart", 1)
    assert not await bob.put("cart", 2)
    assert await bob.delete("cart")
    assert await alice.get("cart") == 1


async def lists_and_counts_are_the_owners(setup):
    alice, bob = setup.handles(owner="alice"), setup.handles(owner="bob")
    for name in ("a", "b"):
        await alice.put(name, 1)
    await bob.put("c", 1)
    assert (await alice.count(), await bob.count()) == (2, 1)
    assert await setup.handles().count() == 0
    listed = [(info.owner, info.name) for info in (await alice.list()).items]
    assert listed == [("alice", "a"), ("alice", "b")]


async def keys_are_the_owners(setup):
    mine = setup.keys()
    other = mine.for_owner(f"{setup.name}-other")
    await mine.put("k", 1)
    assert await other.get("k") is None
    assert not (await other.list()).items
    assert not await other.delete("k")
    assert await mine.get("k") == 1


async def pages_of_handles_are_the_whole_list_in_order(setup):
    store = setup.handles()
    other = store.for_owner("somebody")
    for number in range(10):
        await store.put(f"h-{number:02}", number)
        await other.put(f"h-{number:02}", number)
    after, listed = None, []
    while True:
        page = await store.list_page(after, 3)
        values = await store.list_values_page(after, 3)
        assert [info.name for info in page.items] == [record.name for record in values.items]
        assert page.next == values.next
        assert len(page.items) <= 3
        assert page.revision > 0
        listed += [record.value for record in values.items]
        after = page.next
        if after is None:
            break
    assert listed == list(range(10))
    # It begins behind a name, whether or not there is such a handle.
    page = await store.list_page("h-04x", 1)
    assert [info.name for info in page.items] == ["h-05"]
    assert page.next == "h-05"
    past = await store.list_page("h-99", 1)
    assert (past.items, past.next) == ((), None)


async def a_mint_answers_the_revision_on_which_a_take_is_conditional(setup):
    store = setup.handles()
    minted = await store.mint_record(1)
    record = (await store.resolve(minted.name)).record
    assert record.info == minted
    await store.update(minted.name, lambda value: value + 1)
    revision = (await store.resolve(minted.name)).record.revision
    assert await store.take_if(minted.name, minted.revision) == Conflict(revision)
    assert (await store.take_if(minted.name, revision)).record.value == 2
    assert await store.take_if(minted.name, revision) is NotLive.TAKEN


async def bytes_are_kept_as_they_are(setup):
    store = setup.handles(codec=Raw())
    data = bytes([0, 255, ord('"'), 0xC3, 0x28])
    minted = await store.mint_record(data)
    assert minted.value_bytes == len(data)
    assert await store.get(minted.name) == data
    assert (await store.list_values_page(None, 1)).items[0].value == data
    assert await kind_of(lambda: setup.handles().get(minted.name)) == "Codec"
    transaction = setup.client().transaction()
    ticket = transaction.take(store, minted.name)
    transaction.mint(store, data)
    committed = await transaction.commit()
    assert committed.taken(ticket).value == data

    keys = setup.keys(codec=Raw())
    stored = await keys.put("k", data)
    found = await keys.get_record("k")
    assert (found.value, found.revision) == (data, stored.revision)
    assert await kind_of(lambda: setup.keys().get("k")) == "Codec"


async def value_that_does_not_decode_is_named_and_hides_no_page_before_it(setup):
    store, keys = setup.handles(), setup.keys()
    for good in ("a", "b"):
        await store.put(good, 1)
        await keys.put(good, 1)
    await setup.handles(codec=Raw()).put("c", b"x")
    await setup.keys(codec=Raw()).put("c", b"x")
    assert len((await store.list_values_page(None, 2)).items) == 2
    assert len((await keys.list_values_page("", None, 2)).items) == 2
    for call in (
        lambda: store.list_values(),
        lambda: store.list_values_page("a", 2),
        lambda: store.get("c"),
        lambda: keys.list_values(),
        lambda: keys.get_many(["a", "b", "c"]),
        lambda: keys.get("c"),
    ):
        with pytest.raises(CodecError, match="record 'c'"):
            await call()


async def an_owner_without_a_name_is_refused_unsent(setup):
    shared = setup.handles()
    handle = await shared.mint(1)
    nameless, keys = shared.for_owner(""), setup.keys().for_owner("")
    guards = setup.client().guards(owner="")
    for call in (
        lambda: nameless.get(handle),
        lambda: nameless.mint(1),
        lambda: nameless.list(),
        lambda: nameless.list_page(None, 1),
        lambda: nameless.count(),
        lambda: keys.put("k", 1),
        lambda: keys.get("k"),
        lambda: keys.list(),
        lambda: guards.try_acquire("g", HOUR),
    ):
        assert await kind_of(call) == "Invalid"
    assert await nameless.for_owner(SHARED).get(handle) == 1


async def one_of_sixteen_holds_the_guard_and_the_next_has_a_higher_fence(setup):
    calls = [
        lambda n=n: setup.client(n).guards(owner=setup.name).try_acquire("guard", HOUR)
        for n in range(16)
    ]
    held = [guard for guard in await together(calls) if guard is not None]
    assert len(held) == 1
    assert await held[0].release()
    following = await setup.client(1).guards(owner=setup.name).acquire("guard", HOUR, PATIENCE)
    assert following.fence > held[0].fence
    foreign = setup.client().guards(owner="somebody else")
    assert await foreign.try_acquire(setup.name, SHORT) is not None


async def a_guard_that_is_not_released_lapses(setup):
    lost = await setup.client().guards(owner=setup.name).acquire("guard", SHORT, PATIENCE)
    heirs = setup.client(1).guards(owner=setup.name)
    guard = await heirs.acquire("guard", HOUR, PATIENCE)
    assert guard.fence > lost.fence
    assert not await lost.release(), "it was lost, and the heir's is untouched"
    assert await heirs.try_acquire("guard", HOUR) is None
    assert await kind_of(lambda: heirs.acquire("guard", HOUR, 0.001)) == "Conflict"


async def a_guard_is_let_go_at_the_end_of_its_block(setup):
    keys, guards = setup.keys(), setup.client().guards(owner=setup.name)
    async with await guards.acquire("guard", HOUR, PATIENCE) as guard:
        assert await keys.exists(guard.key)
    assert not await keys.exists("guard")
