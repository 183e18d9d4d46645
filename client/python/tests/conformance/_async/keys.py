"""Caxton's state tool: values under keys."""

from helve import Conflict, Created, Replaced, Ttl

from .io import together
from .setup import HOUR, HOUR_MS, SHORT, kind_of, refused, wait_until


async def names(keys, prefix=""):
    return [info.name for info in (await keys.list(prefix)).items]


async def store_retrieve_delete_exists(setup):
    keys = setup.keys()
    assert await keys.get("k") is None
    assert not await keys.exists("k")
    value = {"nested": [1, None, "text"], "n": 1.5}
    await keys.put("k", value)
    assert await keys.get("k") == value
    await keys.put("k", None)
    assert (await keys.get_record("k")).value is None
    assert await keys.exists("k")
    assert await keys.delete("k")
    assert not await keys.delete("k")
    assert not await keys.exists("k")
    keys.close()
    assert await kind_of(lambda: keys.exists("k")) == "Closed"


async def list_has_full_keys_in_order(setup):
    keys = setup.keys()
    for key in ("logs/2", "logs/10", "logs", "log", "checkpoints/a/latest", "logs/1/x", "z"):
        await keys.put(key, key)
    assert await names(keys, "logs/") == ["logs/1/x", "logs/10", "logs/2"]
    everything = ["checkpoints/a/latest", "log", "logs", "logs/1/x", "logs/10", "logs/2", "z"]
    assert await names(keys) == everything
    assert await names(keys, "logs/3") == []
    values = [record.value for record in (await keys.list_values("log")).items]
    assert values == ["log", "logs", "logs/1/x", "logs/10", "logs/2"]


async def a_key_may_hold_any_text_but_nul(setup):
    keys = setup.keys()
    odd = ["../../etc", "//", "/", " ", "\x01", "\xff", "\U0010ffff", "\uffff", "a\nb", "%00"]
    for key in odd:
        await keys.put(key, key)
    for key in odd:
        assert await keys.get(key) == key
    assert await names(keys) == sorted(odd, key=str.encode)
    assert await names(keys, "/") == ["/", "//"]
    assert await names(keys, "\U0010ffff") == ["\U0010ffff"]


async def batch_store_is_all_or_nothing(setup):
    keys = setup.keys()
    await keys.put_many({key: key for key in "abc"})
    revisions = [info.revision for info in (await keys.list()).items]
    assert len(revisions) == 3
    assert len(set(revisions)) == 1
    await keys.put_many({"c": ["c"], "d": ["d"]})
    values = [record.value for record in (await keys.list_values()).items]
    assert values == ["a", "b", ["c"], ["d"]]
    await keys.delete("d")
    assert await kind_of(lambda: keys.put_many({"d": 1, "": 2})) == "Invalid"
    assert await names(keys) == ["a", "b", "c"]


async def batch_retrieve_keeps_the_order(setup):
    keys = setup.keys()
    await keys.put("a", 1)
    await keys.put("b", 2)
    found = await keys.get_many(["b", "missing", "a", "b"])
    assert [record and record.value for record in found] == [2, None, 1, 2]


async def store_if_writes_only_on_the_revision(setup):
    keys = setup.keys()
    created = await keys.put_if("k", 1, 0)
    assert isinstance(created, Created)
    revision = created.info.revision
    assert await keys.put_if("k", 2, 0) == Conflict(revision)
    assert await keys.put_if_absent("k", 2) == Conflict(revision)
    assert isinstance(await keys.put_if("k", 3, revision), Replaced)
    record = await keys.get_record("k")
    assert record.revision > revision
    assert record.value == 3
    assert await keys.put_if("gone", 1, revision) == Conflict(0)
    # What is deleted and stored again is another one.
    await keys.delete("k")
    await keys.put("k", 4)
    assert isinstance(await keys.put_if("k", 5, record.revision), Conflict)
    assert not await keys.delete_if("k", record.revision)
    assert await keys.get("k") == 4


async def a_store_answers_its_revision(setup):
    keys = setup.keys()
    first = await keys.put("k", "one", Ttl.NEVER)
    assert (first.name, first.value_bytes, first.expires_at_ms) == ("k", 5, None)
    second = await keys.put("k", "two", Ttl.NEVER)
    assert second.revision != first.revision
    assert second.created_at_ms == first.created_at_ms
    assert second.updated_at_ms >= first.updated_at_ms
    record = await keys.get_record("k")
    assert (record.info, record.value) == (second, "two")
    listing = await keys.list()
    assert listing.items == (record.info,)
    assert (await keys.list_values()).items[0].info == record.info
    assert listing.revision >= record.revision
    other = await keys.put("a", 1, Ttl.NEVER)
    assert other.revision > record.revision


async def one_of_sixteen_stores_at_one_revision_wins(setup):
    revision = 0
    for turn in range(3):
        outcomes = await together(
            [
                lambda n=n, t=turn, r=revision: setup.keys(n).put_if("k", [t, n], r, Ttl.KEEP)
                for n in range(16)
            ]
        )
        won = [(n, each) for n, each in enumerate(outcomes) if not isinstance(each, Conflict)]
        assert len(won) == 1, outcomes
        caller, outcome = won[0]
        record = await setup.keys(1).get_record("k")
        assert record.value == [turn, caller]
        assert record.info == outcome.info
        revision = outcome.info.revision


async def one_of_sixteen_takes_of_a_key_gets_the_value(setup):
    await setup.keys().put("k", 7)
    taken = await together([lambda n=n: setup.keys(n).take("k") for n in range(16)])
    assert [record.value for record in taken if record is not None] == [7]
    assert await setup.keys().get("k") is None


async def keys_expire_and_are_then_absent(setup):
    keys = setup.keys()
    await keys.put("k", 1, SHORT)

    async def is_gone():
        return not await keys.exists("k")

    await wait_until("the key expires", is_gone)
    assert await keys.get("k") is None
    assert await names(keys) == []
    assert (await keys.list_values()).items == ()
    assert await keys.get_many(["k"]) == (None,)
    assert isinstance(await keys.put_if("k", 2, 0, HOUR), Created)
    record = await keys.get_record("k")
    assert record.value == 2
    assert record.info.created_at_ms == record.info.updated_at_ms
    assert record.info.expires_at_ms == record.info.updated_at_ms + HOUR_MS


async def a_lifetime_is_kept_or_refused(setup):
    keys = setup.keys()
    deadline = (await keys.put("k", 1, HOUR)).expires_at_ms
    assert deadline is not None
    assert (await keys.put("k", 2, Ttl.KEEP)).expires_at_ms == deadline
    assert (await keys.put("k", 3, Ttl.NEVER)).expires_at_ms is None
    await refused(lambda: keys.put("k", 4, 0), "BAD_LIFETIME")
    limited = setup.keys(default_ttl=HOUR)
    await limited.put("by default", 1)
    record = await limited.get_record("by default")
    assert record.info.expires_at_ms == record.info.updated_at_ms + HOUR_MS
    await limited.put_many({"a": 1, "b": 1})
    for info in (await limited.list()).items:
        assert (info.expires_at_ms is not None) == (info.name != "k"), info.name


async def the_largest_key_and_value_are_kept(setup):
    keys = setup.keys()
    # The quotes count.
    large = "v" * ((1 << 20) - 2)
    long = ["k" * 1024, "/" * 512, "\U0001f511" * 85]
    for key in long:
        await keys.put(key, len(key))
    await keys.put(long[0], large)
    assert await keys.get(long[0]) == large
    assert await names(keys) == sorted(long, key=str.encode)
    many = {f"{number:03}": number for number in range(128)}
    await keys.put_many(many)
    found = await keys.get_many(list(many))
    assert [record.value for record in found] == list(range(128))


async def closed_keys_say_so(setup):
    closed, still_open = setup.keys(), setup.keys()
    await closed.put("k", 1)
    closed.close()
    closed.close()
    for call in (
        lambda: closed.put("k", 2),
        lambda: closed.put_if("k", 2, 0),
        lambda: closed.get("k"),
        lambda: closed.delete("k"),
        lambda: closed.exists("k"),
        lambda: closed.list(),
        lambda: closed.list_values(),
        lambda: closed.put_many({"k": 2}),
        lambda: closed.get_many(["k"]),
    ):
        assert await kind_of(call) == "Closed"
    assert await still_open.get("k") == 1


async def pages_of_keys_are_the_whole_list_in_order(setup):
    keys = setup.keys()
    for number in range(10):
        await keys.put(f"p/{number:02}", number)
    for stranger in ("o/1", "p", "q/1"):
        await keys.put(stranger, 0)
    after, listed = None, []
    while True:
        page = await keys.list_page("p/", after, 3)
        values = await keys.list_values_page("p/", after, 3)
        assert [info.name for info in page.items] == [record.name for record in values.items]
        assert page.next == values.next
        assert len(page.items) <= 3
        listed += [record.value for record in values.items]
        after = page.next
        if after is None:
            break
    assert listed == list(range(10))
    assert [record.value async for record in keys.scan("p/", 4)] == listed
    # A place before the prefix is its start, and one behind it is its end.
    page = await keys.list_page("p/", "a", 3)
    assert [info.name for info in page.items] == ["p/00", "p/01", "p/02"]
    past = await keys.list_page("p/", "q", 3)
    assert (past.items, past.next) == ((), None)
    # The page that ends with the last key is the last.
    whole = await keys.list_page("p/", None, 10)
    assert (len(whole.items), whole.next) == (10, None)


async def updates_of_sixteen_callers_lose_nothing(setup):
    await together(
        [lambda n=n: setup.keys(n).update("k", lambda seen: [*(seen or []), n]) for n in range(16)]
    )
    assert sorted(await setup.keys().get("k")) == list(range(16))
