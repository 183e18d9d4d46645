"""`helve mcp`, driven by the official SDK: stores under faults, confirmations that cross replicas, clients of older protocols."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.to_thread import run_sync
from mcp.shared.exceptions import MCPError

from checks import Report, equal, expect
from faults import working
from peer import AUDIENCE, INVALID_PARAMS, ISSUER, PATIENCE_S, SECRET, accept, call, call_tool, connected, flat, structured
from processes import Cluster, Service, running

SECTION = "helve mcp"
WORKERS = 4
TOOLS = {"store", "retrieve", "delete", "list", "exists", "batch_store", "batch_retrieve"}
# The reply to an invalid state, whatever is wrong with it.
REFUSED = (INVALID_PARAMS, "Invalid or expired requestState", {"reason": "invalid_request_state"})
# The ring whose keys confirmations are sealed under.
RING = "confirmations"
# Longer than a run: a client that waits for it would fail the run by its patience.
HOUR_S = 3600.0
# How long a call is given to reach the replica that answers it.
UNDER_WAY_S = 1.0
YES = {"confirm": accept(confirm=True)}


async def says_yes(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"confirm": True})


async def says_no(_: Any, __: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


def fresh() -> str:
    return f"mcp-test/{uuid.uuid4()}"


async def store(url: str, key: str, value: object, **options: Any) -> dict[str, Any]:
    return structured(await call(url, "alice", "store", {"key": key, "value": value}, **options))


async def value(url: str, key: str, subject: str = "alice") -> object:
    """The value, as a client reads it; None if there is none."""
    return structured(await call(url, subject, "retrieve", {"key": key})).get("value")


async def tools(service: Service) -> None:
    async with connected(service.url, "alice", mode="auto") as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    equal(set(listed), TOOLS, "the tools")
    for name, tool in listed.items():
        expect(tool.output_schema is not None, f"{name} says what it answers")
        reads = name in {"retrieve", "list", "exists", "batch_retrieve"}
        equal(bool(tool.annotations and tool.annotations.read_only_hint), reads, f"{name} only reads")


async def every_tool(service: Service) -> None:
    url, prefix = service.url, fresh()
    one, two, three = (f"{prefix}/{name}" for name in ("one", "two", "three"))
    equal((await store(url, one, {"n": 1}))["status"], "created", "a first store")
    items = [{"key": two, "value": [2]}, {"key": three, "value": None}]
    structured(await call(url, "alice", "batch_store", {"items": items}))
    got = structured(await call(url, "alice", "batch_retrieve", {"keys": [three, prefix, one]}))["keys"]
    equal([(key["found"], key.get("value")) for key in got], [(True, None), (False, None), (True, {"n": 1})], "a batch")
    listed = structured(await call(url, "alice", "list", {"prefix": prefix}))
    equal([key["key"] for key in listed["keys"]], [one, three, two], "the keys")
    deleted = structured(await call(url, "alice", "delete", {"key": two}, elicitation_callback=says_yes))
    equal(deleted["existed"], True, "what was deleted")
    equal(structured(await call(url, "alice", "exists", {"key": two}))["exists"], False, "what is deleted")
    equal(structured(await call(url, "bob", "list", {"prefix": prefix}))["keys"], [], "what bob sees")
    equal(await value(url, one, "bob"), None, "what bob reads")


async def confirmed(service: Service) -> None:
    key = fresh()
    await store(service.url, key, 1)
    replaced = await store(service.url, key, 2, elicitation_callback=says_yes)
    equal(replaced["status"], "replaced", "a confirmed store")
    refused = await call(service.url, "alice", "store", {"key": key, "value": 3}, elicitation_callback=says_no)
    expect(refused.is_error, refused)
    equal(await value(service.url, key), 2, "what a declined store left")
    for tool, arguments in (("store", {"key": key, "value": 4}), ("delete", {"key": key})):
        answer = await call_tool(service.url, tool, arguments, subject="alice", capabilities={})
        reason = answer.result.get("_meta", {}).get("helve.v1/reason")
        equal(reason, "CANNOT_CONFIRM", f"{tool} for a client that cannot ask")
    equal(await value(service.url, key), 2, "what clients that cannot ask left")


async def ask(service: Service, replica: int, key: str, new: object, subject: str = "alice") -> str:
    """The state of a question whether to replace a value."""
    answer = await call_tool(service.direct(replica), "store", {"key": key, "value": new}, subject=subject)
    equal(answer.result["resultType"], "input_required", "a question")
    return answer.result["requestState"]


async def crosses(service: Service) -> None:
    """Asked by one replica, which is killed; confirmed at another; then used up at every one."""
    key = fresh()
    await store(service.url, key, "old")
    state = await ask(service, 0, key, "new")
    arguments = {"key": key, "value": "new"}
    await run_sync(service.replicas[0].kill)
    try:
        answer = await call_tool(service.direct(1), "store", arguments, subject="alice", state=state, responses=YES)
        equal(answer.result["structuredContent"]["status"], "replaced", "a confirmation at another replica")
    finally:
        await run_sync(service.replicas[0].start)
    for replica in range(3):
        again = await call_tool(service.direct(replica), "store", arguments, subject="alice", state=state, responses=YES)
        equal(again.error, REFUSED, f"the same confirmation at replica {replica}")
    equal(await value(service.url, key), "new", "what was confirmed")


async def rotates(cluster: Cluster, service: Service, states: Path) -> None:
    """What was asked before the ring's key was replaced is confirmed after it, and what is asked after it as well."""
    key = fresh()
    ring = ["--ring", RING, "--key-file", str(states), "--endpoints", cluster.endpoints]
    await store(service.url, key, 0)
    before = await ask(service, 0, key, 1)
    [added] = (await run_sync(lambda: cluster.json("key", "add", *ring)))["keys"]
    await run_sync(lambda: cluster.json("key", "activate", added["id"], "--force", *ring))
    for replica, (state, new) in enumerate([(before, 1), (None, 2), (None, 3)]):
        state = state or await ask(service, (replica + 1) % 3, key, new)
        arguments = {"key": key, "value": new}
        answer = await call_tool(service.direct(replica), "store", arguments, subject="alice", state=state, responses=YES)
        equal(answer.result["structuredContent"]["status"], "replaced", f"a confirmation at replica {replica}")
    equal(await value(service.url, key), 3, "what was confirmed")


async def refuses_states(service: Service) -> str:
    """A state holds for its caller, tool and arguments alone, and not a bit of it may change."""
    key, other = fresh(), fresh()
    await store(service.url, key, "old")
    await store(service.url, other, "old")
    state = await ask(service, 0, key, "new")
    foreign = await ask(service, 1, key, "newer")
    good: dict[str, Any] = {"key": key, "value": "new"}
    flipped = state[:-1] + ("A" if state[-1] != "A" else "B")
    table = {
        "tampered": ("store", good, "alice", flipped),
        "appended": ("store", good, "alice", state + "-TAMPERED"),
        "truncated": ("store", good, "alice", state[:-8]),
        "empty": ("store", good, "alice", ""),
        "over-long": ("store", good, "alice", state + "A" * 100_000),
        "another form": ("store", good, "alice", "v1." + state.split(".", 1)[1]),
        "padded": ("store", good, "alice", state + "="),
        "another subject": ("store", good, "bob", state),
        "another tool": ("delete", {"key": key}, "alice", state),
        "another key": ("store", {"key": other, "value": "new"}, "alice", state),
        "another value": ("store", {"key": key, "value": "evil"}, "alice", state),
        "another question's": ("store", good, "alice", foreign),
        "to a tool that never asks": ("retrieve", {"key": key}, "alice", state),
    }
    for what, (tool, arguments, subject, presented) in table.items():
        answer = await call_tool(service.url, tool, arguments, subject=subject, state=presented, responses=YES)
        equal(answer.error, REFUSED, what)
    for untouched in (key, other):
        equal(await value(service.url, untouched), "old", "what refused states left")
    answer = await call_tool(service.direct(2), "store", good, subject="alice", state=state, responses=YES)
    equal(answer.result["structuredContent"]["status"], "replaced", "the state itself")
    return f"{len(table)} states"


async def survives(cluster: Cluster, service: Service, report: Report, plant: str | None) -> str:
    """Every value is stored, and then replaced with a confirmation."""
    ledger: dict[str, int] = {}

    async def work(number: int) -> None:
        key = fresh()
        for content in (number, number + 1):
            await store(service.url, key, content, elicitation_callback=says_yes)
            ledger[key] = content
            report.count("values acknowledged")

    stored = await working(cluster, service, report, WORKERS, work)
    if plant == "lost-key":
        cluster.run("state", "delete", next(iter(ledger)), "--owner", "alice", "--endpoints", cluster.endpoints)
    for key, content in ledger.items():
        equal(await value(service.url, key), content, key)
    for port in cluster.clients:
        node = ["--endpoints", f"127.0.0.1:{port}", "--owner", "alice", "--values"]
        records = cluster.json("state", "list", "mcp-test/", *node)["records"]
        found = {record["name"]: record["value"] for record in records}
        equal({key: found.get(key) for key in ledger}, ledger, f"the keys on the node at {port}")
    return f"{stored} keys"


async def stays_connected(service: Service) -> None:
    """One client, one after the other of all replicas stopped and restarted, as a rolling update does."""
    key = fresh()
    async with connected(service.url, "alice") as client:
        for number, replica in enumerate(service.replicas):
            status = await run_sync(replica.stop)
            equal(status, 0, f"how {replica.name} stopped")
            structured(await client.call_tool("store", {"key": f"{key}/{number}", "value": number}))
            await run_sync(replica.start)
        listed = structured(await client.call_tool("list", {"prefix": key}))
    equal(len(listed["keys"]), len(service.replicas), "the keys of the client that stayed")


async def legacy(service: Service) -> str:
    """A client with a session. It may store what is new; it cannot be asked, so it may replace nothing."""
    key = fresh()
    async with connected(service.url, "alice", mode="legacy") as client:
        version = client.protocol_version
        equal({tool.name for tool in (await client.list_tools()).tools}, TOOLS, "the tools")
        for number, replica in enumerate(service.replicas):
            await run_sync(replica.kill)
            stored = await client.call_tool("store", {"key": f"{key}/{number}", "value": number})
            equal(structured(stored)["status"], "created", "a session whose replica was killed")
            await run_sync(replica.start)
        refused = await client.call_tool("store", {"key": f"{key}/0", "value": "evil"})
        expect(refused.is_error, refused)
        equal(structured(await client.call_tool("retrieve", {"key": f"{key}/0"}))["value"], 0, "what it may not replace")
    return version


async def cut_off(cluster: Cluster, service: Service, url: str) -> str:
    """Replicas are killed while a client with a session waits for an answer. It hears of it long before it would give up by itself:
    the call fails, or the transport that bore it."""
    cut = anyio.Event()
    answered: list[types.CallToolResult] = []
    heard: list[BaseException] = []

    async def kill() -> None:
        # The cluster does not answer, so the replica keeps the call.
        await anyio.sleep(UNDER_WAY_S)
        cut.set()
        for replica in service.replicas:
            replica.kill()

    try:
        # The SDK's own limits are an hour, so that an error that comes sooner is not one of those.
        async with connected(url, "alice", mode="legacy", timeout_s=HOUR_S, read_timeout_seconds=HOUR_S) as client:
            await client.list_tools()
            for node in cluster.nodes:
                node.freeze()
            with anyio.fail_after(PATIENCE_S):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(kill)
                    answered.append(await client.call_tool("store", {"key": fresh(), "value": 1}))
    except* (MCPError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as errors:
        heard = flat(errors)
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(lambda: restored(cluster, service))
    expect(cut.is_set(), f"an error before the replicas were killed: {heard}")
    equal(answered, [], "an answer without a cluster")
    return f"{type(heard[0]).__name__}: {heard[0]}"


def restored(cluster: Cluster, service: Service) -> None:
    """All nodes and replicas run again."""
    for node in cluster.nodes:
        node.thaw()
    for replica in service.replicas:
        if replica.running is None:
            replica.start()
    cluster.wait_ready()


async def unknown_tool(service: Service) -> None:
    async with connected(service.url, "alice") as client:
        try:
            await client.call_tool("drop_everything", {})
        except* MCPError as errors:
            equal({error.code for error in flat(errors) if isinstance(error, MCPError)}, {INVALID_PARAMS}, "the error")
        else:
            expect(False, "an unknown tool was called")


def write_keys(directory: Path) -> tuple[Path, Path]:
    """What tokens are checked with, and what states are sealed under."""
    tokens, states = directory / "token.secret", directory / "state.key"
    tokens.write_text(SECRET + "\n")
    tokens.chmod(0o600)
    states.write_bytes(bytes(range(32)))
    states.chmod(0o600)
    return tokens, states


async def run(cluster: Cluster, directory: Path, report: Report, plant: str | None) -> None:
    tokens, states = write_keys(directory)
    ring = ["--ring", RING, "--key-file", str(states)]
    cluster.json("key", "add", *ring, "--endpoints", cluster.endpoints)
    arguments = [
        str(cluster.helve), "mcp", "--endpoints", cluster.endpoints, "--enable-writes", "--enable-delete",
        "--replicas", "3", "--legacy-sessions", *ring, "--token-secret-file", str(tokens),
        "--token-audience", AUDIENCE, "--token-issuer", ISSUER,
    ]
    service = Service("mcp", cluster, directory, lambda port: ([*arguments, "--listen", f"127.0.0.1:{port}"], {}))
    with running(service):
        await report.check(SECTION, "the SDK lists its tools, with schemas and hints", lambda: tools(service))
        await report.check(SECTION, "every tool does what it says, for its owner", lambda: every_tool(service))
        await report.check(SECTION, "an unknown tool is invalid params", lambda: unknown_tool(service))
        await report.check(SECTION, "what replaces or deletes asks first", lambda: confirmed(service))
        await report.check(SECTION, "a confirmation crosses replicas, and holds once", lambda: crosses(service))
        await report.check(SECTION, "confirmations outlive a rotation of the ring", lambda: rotates(cluster, service, states))
        await report.check(SECTION, "a state that does not hold is refused, in one way", lambda: refuses_states(service))
        await report.check(SECTION, "a client stays connected while replicas roll", lambda: stays_connected(service))
        await report.check(SECTION, "a client of an older protocol keeps its session", lambda: legacy(service))
        for way, url in (("", service.direct(0)), (" through the balancer", service.url)):
            fact = f"a client of an older protocol that is cut off{way} hears of it"
            await report.check(SECTION, fact, lambda url=url: cut_off(cluster, service, url))
        await report.check(
            SECTION, "nothing is lost while replicas and the leader are killed",
            lambda: survives(cluster, service, report, plant),
        )
