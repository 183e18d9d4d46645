"""Several writes as one."""

from helve import Aborted, Committed, NotLive, Ttl
from helve._wire import messages as wire

from .io import together
from .setup import HOUR, SHORT, error_of, kind_of, wait_until


async def a_checkout_takes_the_cart_and_stores_the_order(setup):
    carts, orders = setup.handles(), setup.keys()
    cart = await carts.mint(["helve"], HOUR)

    def checkout(node):
        transaction = setup.client(node).transaction()
        ticket = transaction.take(carts, cart)
        transaction.put_key(orders, cart, {"of": "helve"}, Ttl.NEVER)
        return transaction, ticket

    transaction, ticket = checkout(0)
    committed = await transaction.commit()
    assert isinstance(committed, Committed)
    assert committed.taken(ticket).value == ["helve"]
    order = await orders.get_record(cart)
    assert order.revision == committed.revision
    transaction, _ = checkout(1)
    assert await transaction.commit() == Aborted(0, NotLive.TAKEN)
    assert await orders.get_record(cart) == order


async def what_does_not_live_aborts_all(setup):
    store, keys, client = setup.handles(), setup.keys(), setup.client()
    live = await store.mint(1)
    gone = await store.mint(2, SHORT)

    async def is_gone():
        return await store.get(gone) is None

    await wait_until("the handle expires", is_gone)
    for handle, status in ((gone, NotLive.EXPIRED), ("unknown", NotLive.UNKNOWN)):
        transaction = client.transaction()
        transaction.put_key(keys, "k", 1)
        transaction.put(store, live, 9)
        transaction.mint(store, 3)
        transaction.take(store, handle)
        assert await transaction.commit() == Aborted(3, status)
    assert await store.get(live) == 1
    assert await store.count() == 1
    assert not await keys.exists("k")


async def a_conflict_aborts_all_and_names_the_operation(setup):
    store, keys = setup.handles(), setup.keys()
    await keys.put("k", 1)
    stored = await keys.get_record("k")
    transaction = setup.client().transaction()
    transaction.put(store, "h", 1)
    transaction.put_key(keys, "k", 2, if_revision=0)
    error = await error_of(lambda: transaction.commit())
    assert (error.kind, error.revision, error.operation) == ("Conflict", stored.revision, 1)
    assert await store.resolve("h") is NotLive.UNKNOWN
    assert await keys.get_record("k") == stored


async def every_operation_answers_in_order(setup):
    store, keys = setup.handles(), setup.keys()
    for n, handle in enumerate(("taken", "renewed", "deleted", "replaced")):
        await store.put(handle, n)
    await keys.put("old", 1)
    transaction = setup.client().transaction()
    tickets = [
        transaction.mint(store, 10),
        transaction.put(store, "replaced", 11),
        transaction.take(store, "taken"),
        transaction.renew(store, "renewed", HOUR),
        transaction.delete(store, "deleted"),
        transaction.put_key(keys, "new", 12, if_revision=0),
        transaction.delete_key(keys, "old"),
    ]
    committed = await transaction.commit()
    infos = [committed.info(ticket) for ticket in tickets]
    names = [info and info.name for info in infos]
    assert names[1:] == ["replaced", "taken", "renewed", None, "new", None]
    assert await store.get(names[0]) == 10
    assert committed.taken(tickets[2]).value == 0
    statuses = [reply.status for reply in committed.replies]
    assert statuses[1] == wire.WRITE_STATUS_REPLACED
    assert statuses[5] == wire.WRITE_STATUS_CREATED
    assert committed.existed(tickets[6])
    renewed = (await store.resolve("renewed")).record
    assert renewed.info.expires_at_ms is not None
    assert renewed.revision < committed.revision
    assert await store.resolve("deleted") is NotLive.UNKNOWN
    assert [info.name for info in (await keys.list()).items] == ["new"]


async def a_transaction_over_a_closed_store_says_so(setup):
    store, keys = setup.handles(), setup.keys()

    def over_both():
        transaction = setup.client().transaction()
        transaction.put(store, "h", 1)
        transaction.put_key(keys, "k", 1)
        return transaction

    begun_before = over_both()
    keys.close()
    for transaction in (begun_before, over_both()):
        assert await kind_of(lambda each=transaction: each.commit()) == "Closed"
    assert await store.get("h") is None, "nothing was written"


async def what_sixteen_build_from_what_they_read_is_all_kept(setup):
    store, keys = setup.handles(), setup.keys()
    handle = await store.mint([])
    await keys.put("sum", 0)

    def builder(n):
        async def build(both):
            listed, total = await store.resolve(handle), await keys.get_record("sum")
            seen = listed.record
            both.put(store, handle, [*seen.value, n], if_revision=seen.revision)
            both.put_key(keys, "sum", total.value + n, if_revision=total.revision)
            return n

        return build

    answers = await together([lambda n=n: setup.client(n).transact(builder(n)) for n in range(16)])
    assert answers == list(range(16))
    assert sorted(await store.get(handle)) == list(range(16))
    assert await keys.get("sum") == sum(range(16))


async def what_is_built_is_built_again_once_a_handle_lives_no_more(setup):
    store, keys = setup.handles(), setup.keys()
    handle = await store.mint(1)
    found = []

    async def build(both):
        found.append(await store.resolve(handle))
        if found[-1] is NotLive.TAKEN:
            return "gone"
        await store.take(handle)
        both.take(store, handle)
        both.put_key(keys, "k", 1)
        return "taken"

    assert await setup.client().transact(build) == "gone"
    assert len(found) == 2
    assert not await keys.exists("k")


async def a_builder_that_raises_writes_nothing_and_is_asked_once(setup):
    keys = setup.keys()
    asked = []

    async def build(both):
        asked.append(1)
        both.put_key(keys, "k", 1)
        raise LookupError("no")

    try:
        await setup.client().transact(build)
    except LookupError:
        pass
    else:
        raise AssertionError("it raised nothing")
    assert asked == [1]
    assert not await keys.exists("k")


async def a_transaction_that_never_fits_ends_with_the_deadline(setup):
    keys = setup.keys()
    await keys.put("k", 1)
    asked = []

    async def build(both):
        asked.append(1)
        both.put_key(keys, "k", 2, if_revision=0)

    client = setup.client().with_deadline(2.0)
    # Which one depends on where the deadline falls: between two rounds, or into one.
    error = await kind_of(lambda: client.transact(build))
    assert error in ("Conflict", "Ambiguous", "Unavailable")
    assert len(asked) > 1
    assert await keys.get("k") == 1
