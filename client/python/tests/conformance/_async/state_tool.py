"""The state tool for models."""

from helve import AsyncStateTool, ToolError

from .setup import HOUR_MS


async def told(tool, name, **arguments):
    return await tool.call(name, arguments)


async def error_of(tool, name, **arguments):
    try:
        answer = await tool.call(name, arguments)
    except ToolError as error:
        return error
    raise AssertionError(f"it was answered: {answer!r}")


async def reason_of(tool, name, **arguments):
    return (await error_of(tool, name, **arguments)).reason


def made(setup, **options):
    return AsyncStateTool(setup.client(), owner=setup.name, **options)


async def a_gate_shows_what_it_lets_pass(setup):
    reads = ["batch_retrieve", "exists", "list", "retrieve"]
    assert [tool["name"] for tool in made(setup).definitions()] == reads
    writes = made(setup, writes=True)
    assert {tool["name"] for tool in writes.definitions()} == {*reads, "batch_store", "store"}
    assert await reason_of(made(setup), "store", key="k", value=1) == "BAD_ARGUMENT"
    assert await reason_of(writes, "delete", key="k") == "BAD_ARGUMENT"


async def what_is_stored_is_retrieved_listed_and_replaced_on_its_revision(setup):
    tool = made(setup, writes=True, deletes=True)
    stored = await told(tool, "store", key="a/1", value={"n": 1}, ttl_ms=HOUR_MS)
    assert (stored["status"], stored["key"]) == ("created", "a/1")
    assert stored["expires_at_ms"] == stored["updated_at_ms"] + HOUR_MS
    found = await told(tool, "retrieve", key="a/1")
    assert found["value"] == {"n": 1}
    assert found["info"]["revision"] == stored["revision"]
    assert await told(tool, "exists", key="a/2") == {"key": "a/2", "exists": False}
    assert await reason_of(tool, "store", key="a/1", value=2) == "CANNOT_CONFIRM"
    assert await reason_of(tool, "store", key="a/1", value=2, if_revision=0) == "CONFLICT"
    again = await told(tool, "store", key="a/1", value=2, if_revision=float(stored["revision"]))
    assert again["status"] == "replaced"
    assert await reason_of(tool, "delete", key="a/1") == "CANNOT_CONFIRM"
    assert await told(tool, "delete", key="a/2") == {"key": "a/2", "existed": False}
    batch = [{"key": "a/2", "value": None}, {"key": "a/3", "value": [1.5]}]
    both = (await told(tool, "batch_store", items=batch))["stored"]
    assert [each["status"] for each in both] == ["created", "created"]
    assert both[0]["revision"] == both[1]["revision"]
    page = await told(tool, "list", prefix="a/", limit=2)
    assert [each["key"] for each in page["keys"]] == ["a/1", "a/2"]
    rest = await told(tool, "list", prefix="a/", after=page["next"])
    assert [each["key"] for each in rest["keys"]] == ["a/3"]
    assert "next" not in rest
    many = await told(tool, "batch_retrieve", keys=["a/3", "none", "a/2"])
    assert [each["found"] for each in many["keys"]] == [True, False, True]
    assert many["keys"][2]["value"] is None


async def an_operator_may_let_replacements_and_deletions_pass(setup):
    tool = made(setup, writes=True, deletes=True, replaces=True)
    await told(tool, "store", key="k", value=1)
    assert (await told(tool, "store", key="k", value=2))["status"] == "replaced"
    assert (await told(tool, "delete", key="k"))["existed"]
    assert not (await told(tool, "delete", key="k"))["existed"]


async def a_batch_that_conflicts_stores_nothing_and_names_the_key(setup):
    tool = made(setup, writes=True)
    await told(tool, "store", key="b", value=1)
    items = [{"key": "a", "value": 1}, {"key": "b", "value": 2, "if_revision": 1}]
    for each in (tool, made(setup, writes=True, replaces=True)):
        error = await error_of(each, "batch_store", items=items)
        assert error.reason == "CONFLICT"
        assert "'b'" in error.message
        assert error.revision > 1
    assert not (await told(tool, "exists", key="a"))["exists"]


async def bad_arguments_are_refused(setup):
    tool = made(setup, writes=True)
    for name, arguments in (
        ("retrieve", {}), ("retrieve", {"key": 1}), ("retrieve", {"key": ""}),
        ("retrieve", {"key": "k", "odd": 1}), ("store", {"key": "k"}),
        ("store", {"key": "k", "value": 1, "ttl_ms": 0}),
        ("store", {"key": "k", "value": 1, "ttl_ms": -1}),
        ("store", {"key": "k", "value": 1, "ttl_ms": 5, "lifetime": "keep"}),
        ("store", {"key": "k", "value": 1, "lifetime": "long"}),
        ("store", {"key": "k", "value": 1, "ttl_ms": 10**18}),
        ("store", {"key": "k", "value": 2**64}),
        ("store", {"key": "k", "value": 1, "if_revision": 1.5}),
        ("store", {"key": "k", "value": 1, "if_revision": True}),
        ("list", {"limit": 0}), ("list", {"limit": 1001}), ("list", {"prefix": 1}),
        ("batch_retrieve", {"keys": []}), ("batch_retrieve", {"keys": ["k"] * 101}),
        ("batch_retrieve", {"keys": [1]}), ("batch_store", {"items": [1]}),
        ("batch_store", {"items": [{"key": "k", "value": 1}] * 2}), ("odd", {}),
    ):  # fmt: skip
        assert await reason_of(tool, name, **arguments) == "BAD_ARGUMENT", (name, arguments)
    assert (await told(tool, "list"))["keys"] == []
