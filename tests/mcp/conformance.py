"""The conformance fixture server, as three replicas: the facts that MCP's suite asks for, by the SDK and by bare requests.

The names of the checks are those of the suite's scenarios for 2026-07-28, where it has one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.to_thread import run_sync
from mcp.client.subscriptions import Subscription

from checks import Report, equal, expect
from peer import INVALID_PARAMS, MODERN, Answer, accept, call_tool, connected, post
from processes import Cluster, Service, running
from state import REFUSED, write_keys

SECTION = "conformance"
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION, METHOD_NOT_FOUND = -32020, -32021, -32022, -32601
META = "io.modelcontextprotocol/"
# The ring that the replicas take their keys from.
RING = "conformance"
MRTR = "test_input_required_result_"


async def elicit(_: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """A user who fills in every form."""
    assert isinstance(params, types.ElicitRequestFormParams)
    known = {"name": "Alice", "ok": True, "color": "blue", "context": "tea"}
    return types.ElicitResult(action="accept", content={name: known[name] for name in params.requested_schema["properties"]})


async def sample(_: Any, __: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    content = types.TextContent(type="text", text="Paris.")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def list_roots(_: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///tea", name="tea")])


def able(url: str) -> Any:
    """A client that can do everything."""
    return connected(url, elicitation_callback=elicit, sampling_callback=sample, list_roots_callback=list_roots)


def text(result: types.CallToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def discover(service: Service) -> None:
    answer = await post(service.url, "server/discover")
    expect(MODERN in answer.result["supportedVersions"], answer.result)
    equal(answer.result["_meta"][META + "serverInfo"]["name"], "helve-conformance", "who it is")
    for capability in ("tools", "prompts", "resources", "completions"):
        expect(capability in answer.result["capabilities"], capability)


async def request_metadata(service: Service) -> None:
    whole = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    for missing in (None, "protocolVersion", "clientCapabilities"):
        meta = {} if missing is None else {name: value for name, value in whole.items() if name != META + missing}
        answer = await post(service.url, "server/discover", meta=meta, id=101)
        equal((answer.status, answer.error[0], answer.message["id"]), (400, INVALID_PARAMS, 101), f"without {missing}")
    equal((await post(service.url, "server/discover", meta=whole)).status, 200, "without clientInfo")


async def versions(service: Service) -> None:
    meta = {META + "protocolVersion": "v999.0.0", META + "clientCapabilities": {}}
    answer = await post(service.url, "server/discover", meta=meta, extra={"MCP-Protocol-Version": "v999.0.0"})
    equal((answer.status, answer.error[0]), (400, UNSUPPORTED_VERSION), "an unknown version")
    equal(answer.error[2], {"requested": "v999.0.0", "supported": [MODERN]}, "what it says")
    answer = await post(service.url, "server/discover", meta=meta)
    equal((answer.status, answer.error[0]), (400, HEADER_MISMATCH), "header and body of two minds")


async def standard_headers(service: Service) -> None:
    wrong = {
        "no version": ("tools/list", {"MCP-Protocol-Version": None}),
        "another version": ("tools/list", {"MCP-Protocol-Version": "2025-11-25"}),
        "no method": ("tools/list", {"Mcp-Method": None}),
        "another method": ("tools/list", {"Mcp-Method": "prompts/list"}),
        "method in capitals": ("tools/list", {"Mcp-Method": "TOOLS/LIST"}),
        "no name": ("tools/call", {"Mcp-Name": None}),
        "another name": ("tools/call", {"Mcp-Name": "test_error_handling"}),
    }
    params = {"name": "test_simple_text", "arguments": {}}
    for what, (method, extra) in wrong.items():
        answer = await post(service.url, method, params if method == "tools/call" else None, extra=extra)
        equal((answer.status, answer.error[0]), (400, HEADER_MISMATCH), what)
    lower = {"mcp-method": "tools/call", "Mcp-Method": None}
    equal((await post(service.url, "tools/call", params, extra=lower)).status, 200, "names in lower case")


async def parameter_headers(service: Service) -> None:
    async def told(value: str, header: str | None) -> Answer:
        extra = {"Mcp-Param-Region": header}
        return await call_tool(service.url, "test_header_param", {"region": value}, extra=extra)

    for value, header in (("eu", "eu"), ("Hello", "=?base64?SGVsbG8=?="), ("SGVsbG8=", "SGVsbG8="), ("=?base64?SGVs", "=?base64?SGVs")):
        expect("result" in (await told(value, header)).message, f"{value} as {header}")
    for value, header in (("eu", "us"), ("eu", None), ("Hello", "=?base64?SGVsbG8?="), ("Hello", "=?base64?SGVs!!!bG8=?=")):
        answer = await told(value, header)
        equal((answer.status, answer.error[0]), (400, HEADER_MISMATCH), f"{value} as {header}")


async def gone_methods(service: Service) -> None:
    for method in ("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "unknown/method"):
        answer = await post(service.url, method)
        equal((answer.status, answer.error[0]), (404, METHOD_NOT_FOUND), method)


async def malformed_parameters(service: Service) -> None:
    for method, params in (
        ("tasks/get", {"taskId": 1}), ("prompts/get", {"name": 1}), ("resources/read", {}), ("tools/call", {"name": 1}),
        ("completion/complete", {"ref": 1}),
    ):
        answer = await post(service.url, method, params, extra={"Mcp-Name": "n"})
        equal(answer.error[0], INVALID_PARAMS, method)


async def origins(service: Service) -> None:
    for extra, status in (
        ({"Origin": "http://evil.example"}, 403), ({"Host": "evil.example"}, 403), ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:8080"}, 200), ({"Host": "localhost"}, 200), ({}, 200),
    ):
        equal((await post(service.direct(0), "server/discover", extra=dict(extra))).status, status, extra)


async def caching(service: Service) -> None:
    read = {"uri": "test://static-text"}
    for method in ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"):
        result = (await post(service.url, method, read if method == "resources/read" else None)).result
        expect(isinstance(result.get("ttlMs"), int) and result["ttlMs"] >= 0, f"{method}: {result.get('ttlMs')}")
        expect(result.get("cacheScope") in ("public", "private"), f"{method}: {result.get('cacheScope')}")


async def contents(service: Service) -> str:
    async with able(service.url) as client:
        kinds = {
            "test_simple_text": ["text"], "test_image_content": ["image"], "test_audio_content": ["audio"],
            "test_embedded_resource": ["resource"], "test_multiple_content_types": ["text", "image", "resource"],
        }
        for tool, expected in kinds.items():
            equal([block.type for block in (await client.call_tool(tool)).content], expected, tool)
        failed = await client.call_tool("test_error_handling")
        equal((failed.is_error, text(failed)), (True, "This tool intentionally returns an error for testing"), "an error")
        read = await client.read_resource("test://template/123/data")
        expect('"id":"123"' in read.contents[0].text, read)
        blob = (await client.read_resource("test://static-binary")).contents[0]
        equal(blob.mime_type, "image/png", "an image")
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "hello", "arg2": "world"})
        equal(prompt.messages[0].content.text, "Prompt with arguments: arg1='hello', arg2='world'", "a prompt")
        for name, arguments in (
            ("test_simple_prompt", None), ("test_prompt_with_image", None),
            ("test_prompt_with_embedded_resource", {"resourceUri": "test://x"}),
        ):
            expect(bool((await client.get_prompt(name, arguments)).messages), name)
        reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
        completed = await client.complete(reference, {"name": "arg1", "value": "par"})
        equal(completed.completion.values, ["paris", "party"], "a completion")
        listed = await client.list_tools()
    schema = next(tool.input_schema for tool in listed.tools if tool.name == "json_schema_2020_12_tool")
    for keyword in ("$schema", "$defs", "allOf", "if", "then", "else", "additionalProperties"):
        expect(keyword in schema, keyword)
    return f"{len(listed.tools)} tools"


async def missing_resource(service: Service) -> None:
    uri = "test://nonexistent-resource-for-conformance-testing"
    answer = await post(service.url, "resources/read", {"uri": uri})
    equal((answer.error[0], answer.error[2]), (INVALID_PARAMS, {"uri": uri}), "an unknown resource")


async def notifications(service: Service) -> None:
    steps: list[float] = []

    async def progressed(done: float, _: float | None, __: str | None) -> None:
        steps.append(done)

    async with able(service.url) as client:
        await client.call_tool("test_tool_with_progress", progress_callback=progressed)
    equal(steps, [0.0, 50.0, 100.0], "progress")

    def logged(answer: Answer) -> int:
        return sum(message.get("method") == "notifications/message" for message in answer.messages)

    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    equal(logged(await call_tool(service.url, "test_logging_tool", meta=meta)), 0, "messages that no call asked for")
    for level, messages in (("info", 3), ("debug", 3), ("error", 0)):
        answer = await call_tool(service.url, "test_logging_tool", meta=meta | {META + "logLevel": level})
        equal(logged(answer), messages, f"messages at {level}")


async def capabilities(service: Service) -> None:
    answer = await call_tool(service.url, "test_missing_capability", capabilities={})
    equal((answer.status, answer.error[0]), (400, MISSING_CAPABILITY), "a capability that was not declared")
    equal(answer.error[2], {"requiredCapabilities": {"sampling": {}}}, "what it names")
    answer = await call_tool(service.url, MRTR + "capabilities", capabilities={"sampling": {}})
    asked = {request["method"] for request in answer.result["inputRequests"].values()}
    equal(asked, {"sampling/createMessage"}, "what a client is asked that can only sample")


async def subscriptions(service: Service) -> str:
    """A change that one replica is asked for reaches subscribers of every other."""

    async def heard(subscription: Subscription) -> str:
        async for event in subscription:
            return type(event).__name__
        return "nothing"

    for listening in range(3):
        async with able(service.direct(listening)) as client, client.listen(tools_list_changed=True) as subscription:
            equal(subscription.honored.tools_list_changed, True, "what is honored")
            for tool in ("test_trigger_prompt_change", "test_trigger_tool_change"):
                await call_tool(service.direct((listening + 1) % 3), tool)
            with anyio.fail_after(60):
                equal(await heard(subscription), "ToolsListChanged", f"what a subscriber of replica {listening} hears")
    async with able(service.url) as client, client.listen(prompts_list_changed=True) as subscription:
        await call_tool(service.url, "test_trigger_prompt_change")
        with anyio.fail_after(60):
            equal(await heard(subscription), "PromptsListChanged", "through the balancer")
    return "4 streams"


async def rounds(service: Service) -> str:
    """The SDK answers every question, each round at another replica."""
    expected = {
        "elicitation": "Hello, Alice!", "sampling": "Paris.", "list_roots": "Your roots: file:///tea",
        "request_state": "state-ok: true", "multiple_inputs": "Alice: Paris. (file:///tea)",
        "multi_round": "Alice likes blue.", "tampered_state": "state-ok: true", "capabilities": "Alice; Paris.; file:///tea",
    }
    async with able(service.url) as client:
        for tool, said in expected.items():
            equal(text(await client.call_tool(MRTR + tool)), said, tool)
        prompt = await client.get_prompt(MRTR + "prompt")
        equal(prompt.messages[0].content.text, "Use this context: tea", "a prompt that asks")
    return f"{len(expected) + 1} dialogues"


async def bad_answers(service: Service) -> None:
    """Missing and malformed answers are asked for again; answers to no question are ignored."""
    tool = MRTR + "elicitation"
    for responses in ({"wrong_key": accept(data="x")}, {"user_name": 12345}, {"user_name": {"action": "shrug"}}, None):
        answer = await call_tool(service.url, tool, responses=responses)
        equal(answer.result["resultType"], "input_required", responses)
    responses = {"user_name": accept(name="Alice"), "another": accept(baz=123), "third": 7}
    equal((await call_tool(service.url, tool, responses=responses)).result["resultType"], "complete", "more than asked")
    for method in ("tools/list", "prompts/list"):
        equal((await post(service.url, method)).result["resultType"], "complete", method)


async def begin(service: Service, replica: int, tool: str) -> str:
    answer = await call_tool(service.direct(replica), MRTR + tool)
    equal(answer.result["resultType"], "input_required", tool)
    return answer.result["requestState"]


async def crosses(service: Service) -> None:
    """Three rounds at three replicas, each killed once it has asked."""
    killed = []
    try:
        state = await begin(service, 0, "multi_round")
        await run_sync(service.replicas[0].kill)
        killed.append(service.replicas[0])
        answer = await call_tool(service.direct(1), MRTR + "multi_round", state=state, responses={"step1": accept(name="Ada")})
        await run_sync(service.replicas[1].kill)
        killed.append(service.replicas[1])
        later = answer.result["requestState"]
        expect(later != state, "a state of its own for each round")
        answer = await call_tool(service.direct(2), MRTR + "multi_round", state=later, responses={"step2": accept(color="red")})
        equal(answer.result["content"][0]["text"], "Ada likes red.", "what the third replica knows")
    finally:
        for replica in killed:
            await run_sync(replica.start)


async def tampered(service: Service) -> str:
    tool = MRTR + "tampered_state"
    state = await begin(service, 0, "tampered_state")
    other = await begin(service, 1, "request_state")
    bad = {
        "-TAMPERED": state + "-TAMPERED", "a bit": state[:-1] + ("A" if state[-1] != "A" else "B"), "cut": state[:20],
        "plain": '{"asked":"confirm"}', "another tool's": other, "empty": "", "long": state + "A" * 100_000,
    }
    for what, presented in bad.items():
        answer = await call_tool(service.direct(1), tool, state=presented, responses={"confirm": accept(ok=True)})
        equal(answer.error, REFUSED, what)
    answer = await call_tool(service.direct(2), tool, state=state, responses={"confirm": accept(ok=True)})
    equal(answer.result["content"][0]["text"], "state-ok: true", "the state itself")
    return f"{len(bad)} states"


async def many_at_once(service: Service) -> None:
    answers: list[int] = []

    async def one() -> None:
        answers.append((await post(service.url, "tools/list")).status)

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(one)
    equal(answers, [200] * 12, "streams at once")


async def legacy_methods(service: Service) -> None:
    async with httpx2.AsyncClient(trust_env=False) as http:
        for method in ("GET", "DELETE"):
            equal((await http.request(method, service.url)).status_code, 405, method)
    answer = await post(service.url, "tools/list", extra={"Mcp-Session-Id": "mine"})
    expect("mcp-session-id" not in answer.headers, "no session is minted or echoed")


SCENARIOS: list[tuple[str, Callable[[Service], Awaitable[str | None]]]] = [
    ("server-stateless: discover", discover),
    ("server-stateless: metadata of each request", request_metadata),
    ("server-stateless: versions", versions),
    ("server-stateless: methods that are gone", gone_methods),
    ("malformed parameters are no unknown method", malformed_parameters),
    ("server-stateless: capabilities that were not declared", capabilities),
    ("server-stateless: subscriptions across replicas", subscriptions),
    ("server-stateless: progress, and logs only when asked", notifications),
    ("no GET, no DELETE, no sessions", legacy_methods),
    ("http-header-validation", standard_headers),
    ("http-custom-header-server-validation", parameter_headers),
    ("dns-rebinding-protection", origins),
    ("caching", caching),
    ("server-sse-multiple-streams", many_at_once),
    ("tools, prompts, resources, completion, JSON Schema 2020-12", contents),
    ("sep-2164-resource-not-found", missing_resource),
    ("input-required-result: every dialogue, through the balancer", rounds),
    ("input-required-result: answers that are none", bad_answers),
    ("input-required-result: rounds cross replicas that die", crosses),
    ("input-required-result-tampered-state", tampered),
]


async def run(cluster: Cluster, directory: Path, report: Report, fixture: Path, plant: str | None) -> None:
    _, key = write_keys(directory)
    # Replicas of one server share a ring; one with another ring is another server.
    rings = [RING, RING, "another" if plant == "other-ring" else RING]

    def command(port: int) -> tuple[list[str], dict[str, str]]:
        environment = {"PORT": str(port), "HELVE_ENDPOINTS": cluster.endpoints, "HELVE_KEY_FILE": str(key)}
        return [str(fixture)], environment | {"HELVE_KEY_RING": rings.pop()}

    service = Service("conformance", cluster, directory, command)
    with running(service):
        for name, scenario in SCENARIOS:
            await report.check(SECTION, name, lambda scenario=scenario: scenario(service))
