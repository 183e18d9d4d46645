"""mcpkit's own tests of its handle store, and the decided deviations."""

import re
from dataclasses import asdict, dataclass

from helve import Live, Mapped, Ttl

from .io import together
from .setup import HOUR, HOUR_MS, SHORT, kind_of, wait_until


@dataclass
class Cart:
    items: list


CART = Cart(["helve", "wedge \U0001f528"])
CODEC = Mapped(asdict, lambda value: Cart(**value))


async def mint_and_get(setup):
    store = setup.handles(codec=CODEC)
    handle = await store.mint(CART)
    assert await store.get(handle) == CART


async def get_of_a_missing_id_is_none(setup):
    assert await setup.handles().get("no-such-id") is None


async def delete_is_true_once(setup):
    store = setup.handles(codec=CODEC)
    handle = await store.mint(CART)
    assert await store.delete(handle)
    assert await store.get(handle) is None
    assert not await store.delete(handle)


async def put_says_whether_it_existed(setup):
    store = setup.handles()
    handle = await store.mint(1)
    assert await store.put(handle, 2)
    assert await store.get(handle) == 2
    assert not await store.put("never-minted", 3)
    assert await store.get("never-minted") == 3


async def an_expired_handle_is_not_read_though_nothing_collects(setup):
    store = setup.handles()
    handle = await store.mint(1, SHORT)

    async def is_gone():
        return await store.get(handle) is None

    await wait_until("the handle expires", is_gone)


async def expired_handles_leave_the_count(setup):
    store = setup.handles()
    lasting = await together([lambda n=n: store.mint(n, HOUR) for n in range(50)])
    assert await store.count() == 50
    for handle in lasting:
        await store.renew(handle, SHORT)

    async def is_empty():
        return await store.count() == 0

    await wait_until("all expire", is_empty)


async def default_ttl_is_that_of_the_options(setup):
    store = setup.handles(default_ttl=HOUR)
    found = await store.resolve(await store.mint(1))
    assert isinstance(found, Live)
    info = found.record.info
    assert info.expires_at_ms == info.created_at_ms + HOUR_MS
    short = setup.handles(default_ttl=SHORT)
    handle = await short.mint(1)

    async def is_gone():
        return await short.get(handle) is None

    await wait_until("the handle expires", is_gone)


async def never_overrides_the_default(setup):
    store = setup.handles(default_ttl=SHORT)
    immortal = await store.mint(1, Ttl.NEVER)
    mortal = await store.mint(2)

    async def is_gone():
        return await store.get(mortal) is None

    await wait_until("the other expires", is_gone)
    found = await store.resolve(immortal)
    assert found.record.info.ends_at_ms is None


# 128 bits in 26 characters of 5: the last one carries three.
MINTED = re.compile(r"[A-Z2-7]{25}[AEIMQUY4]")


async def ids_have_the_prefix(setup):
    assert MINTED.fullmatch(await setup.handles().mint(1))
    prefixed = await setup.handles(id_prefix="cart").mint(1)
    assert prefixed.startswith("cart-")
    assert MINTED.fullmatch(prefixed.removeprefix("cart-"))


async def ids_are_unique(setup):
    store = setup.handles()
    ids = set()
    for _ in range(20):
        ids.update(await together([lambda: store.mint(1) for _ in range(50)]))
    assert len(ids) == 1000


async def concurrent_mint_get_delete_leave_nothing(setup):
    async def work(worker):
        store = setup.handles(worker)
        for n in range(20):
            handle = await store.mint(n)
            assert await store.get(handle) == n
            assert await store.delete(handle)

    await together([lambda worker=worker: work(worker) for worker in range(20)])
    assert await setup.handles().count() == 0


async def stores_of_different_names_are_isolated(setup):
    numbers = setup.handles()
    texts = setup.client().handles(f"{setup.name}-b", owner=numbers._owner)
    await numbers.put("same", 1)
    assert await texts.get("same") is None
    await texts.put("same", "one")
    assert await numbers.get("same") == 1
    assert await texts.delete("same")
    assert (await numbers.count(), await texts.count()) == (1, 0)


async def close_is_idempotent_and_final(setup):
    closed, still_open = setup.handles(), setup.handles()
    handle = await closed.mint(1)
    closed.close()
    closed.close()
    for call in (
        lambda: closed.get(handle),
        lambda: closed.mint(2),
        lambda: closed.put(handle, 2),
        lambda: closed.take(handle),
        lambda: closed.count(),
        lambda: closed.list(),
    ):
        assert await kind_of(call) == "Closed"
    assert await still_open.get(handle) == 1
