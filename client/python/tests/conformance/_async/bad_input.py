"""What breaks a limit or a rule is refused with its reason, and has no effect."""

from helve import Committed
from helve._wire import messages as wire
from helve._wire import methods

from .setup import refused

VALUE_BYTES_MAX = (1 << 20) - 2


async def bad_handle_calls_are_refused(setup):
    store = setup.handles()
    for handle, reason in (("", "BAD_ID"), ("nul\0", "BAD_ID"), ("i" * 129, "TOO_LARGE")):
        await refused(lambda h=handle: store.put(h, "v"), reason, "put")
        await refused(lambda h=handle: store.get(h), reason, "get")
        await refused(lambda h=handle: store.take(h), reason, "take")
        await refused(lambda h=handle: store.renew(h), reason, "renew")
        await refused(lambda h=handle: store.delete(h), reason, "delete")
    large = "v" * (VALUE_BYTES_MAX + 1)
    await refused(lambda: store.mint(large), "TOO_LARGE", "mint")
    await refused(lambda: store.put("h", large), "TOO_LARGE", "put")
    for name in ("", "Upper", "sp ace", "dot.", "\xfc", "nul\0", "n" * 65):
        bad = setup.client().handles(name, owner=store._owner)
        await refused(lambda s=bad: s.mint("v"), "BAD_NAME", "mint")
        await refused(lambda s=bad: s.get("h"), "BAD_NAME", "get")
        await refused(lambda s=bad: s.count(), "BAD_NAME", "count")
        await refused(lambda s=bad: s.list(), "BAD_NAME", "list")
        if name:
            prefixed = setup.handles(id_prefix=name)
            await refused(lambda s=prefixed: s.mint("v"), "BAD_NAME", "prefix")
    foreign = store.for_owner("o" * 257)
    await refused(lambda: foreign.get("h"), "TOO_LARGE", "owner")
    assert await store.count() == 0, "nothing was written"


async def bad_key_calls_are_refused(setup):
    keys = setup.keys()
    for key, reason in (("", "BAD_KEY"), ("nul\0", "BAD_KEY"), ("k" * 1025, "TOO_LARGE")):
        await refused(lambda k=key: keys.put(k, None), reason, "put")
        await refused(lambda k=key: keys.put_if(k, None, 0), reason, "put_if")
        await refused(lambda k=key: keys.get(k), reason, "get")
        await refused(lambda k=key: keys.exists(k), reason, "exists")
        await refused(lambda k=key: keys.delete(k), reason, "delete")
        await refused(lambda k=key: keys.put_many({k: None}), reason, "put_many")
        await refused(lambda k=key: keys.get_many([k]), reason, "get_many")
    await refused(lambda: keys.put("k", "v" * (VALUE_BYTES_MAX + 1)), "TOO_LARGE", "put")
    many = {str(n): None for n in range(129)}
    await refused(lambda: keys.put_many(many), "TOO_LARGE", "many")
    await refused(lambda: keys.get_many(list(many)), "TOO_LARGE", "many")
    await refused(lambda: keys.list("nul\0"), "BAD_KEY", "list")
    assert (await keys.list()).items == (), "nothing was written"


async def bad_transactions_are_refused(setup):
    store, keys, client = setup.handles(), setup.keys(), setup.client()
    await store.put("h", "value")

    twice = client.transaction()
    twice.take(store, "h")
    twice.delete(store, "h")
    await refused(lambda: twice.commit(), "BAD_ID", "a handle twice")
    again = client.transaction()
    again.delete_key(keys, "k")
    again.delete_key(keys, "k")
    await refused(lambda: again.commit(), "BAD_KEY", "a key twice")
    many = client.transaction()
    for n in range(129):
        many.delete_key(keys, str(n))
    await refused(lambda: many.commit(), "TOO_LARGE", "many operations")
    large = client.transaction()
    for n in range(5):
        large.put_key(keys, str(n), "v" * VALUE_BYTES_MAX)
    await refused(lambda: large.commit(), "TOO_LARGE", "many bytes")
    assert await store.get("h") == "value"
    assert (await keys.list()).items == (), "nothing was written"


async def what_fits_no_message_is_too_large(setup):
    store, keys = setup.handles(), setup.keys()
    large = "v" * (9 << 20)
    await refused(lambda: store.mint(large), "TOO_LARGE", "mint")
    await refused(lambda: store.put("h", large), "TOO_LARGE", "put")
    await refused(lambda: keys.put("k", large), "TOO_LARGE", "store")
    await refused(lambda: store.get(large), "TOO_LARGE", "get")
    await refused(lambda: keys.list(large), "TOO_LARGE", "list")
    for values in (5, 9):
        transaction = setup.client().transaction()
        for n in range(values):
            transaction.put(store, str(n), "v" * VALUE_BYTES_MAX)
        await refused(lambda each=transaction: each.commit(), "TOO_LARGE", "transaction")
    assert await store.count() == 0, "nothing was written"
    assert (await keys.list()).items == (), "nothing was written"


async def bad_lifetimes_are_refused(setup):
    store = setup.handles()
    for ttl in (0, -1, 0.0, float("nan"), float("inf"), 2**64, True, "1"):
        await refused(lambda t=ttl: store.mint(1, t), "BAD_LIFETIME", "mint")
        await refused(lambda t=ttl: store.put("h", 1, t), "BAD_LIFETIME", "put")
        if ttl is not True:
            idle = setup.handles(idle_ttl=ttl)
            await refused(lambda s=idle: s.mint(1), "BAD_LIFETIME", "idle")
    overflowing = wire.MintRequest(store=setup.name, value=b"1")
    overflowing.lifetime.after_ms = 2**64 - 1
    await refused(lambda: setup.client().call(methods.MINT, overflowing), "BAD_LIFETIME")
    assert await store.count() == 0, "nothing was written"


async def bad_identities_are_refused(setup):
    def numbered(session, seq, first):
        call = wire.SessionCall(session_id=session, seq=seq, first_incomplete=first)
        return wire.CallIdentity(session=call)

    for what, identity in (
        ("a short session id", numbered(b"short", 1, 1)),
        ("no number", numbered(b"0123456789abcdef", 0, 0)),
        ("a floor above the call", numbered(b"0123456789abcdef", 1, 2)),
        ("no UUIDv7", wire.CallIdentity(request_id=bytes(16))),
        ("a short request id", wire.CallIdentity(request_id=b"\x07")),
    ):
        request = wire.MintRequest(identity=identity, store=setup.name, value=b"1")
        await refused(lambda r=request: setup.client().call(methods.MINT, r), "BAD_REQUEST", what)
    assert await setup.handles().count() == 0, "nothing was written"


async def the_largest_of_everything_is_accepted(setup):
    value, handle, key = "v" * VALUE_BYTES_MAX, "i" * 128, "k" * 1024
    store = setup.handles(id_prefix="p" * 64)
    await store.put(handle, value)
    assert await store.get(handle) == value
    assert (await store.take(await store.mint(value))).record.value == value
    keys = setup.keys()
    await keys.put(key, value)
    assert await keys.get(key) == value
    many = setup.client().transaction()
    for n in range(128):
        many.put_key(keys, str(n), n)
    assert isinstance(await many.commit(), Committed)
    await store.for_owner("o" * 256).put("h", value)
