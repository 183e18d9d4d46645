"""The tasks extension (SEP-2663) on three replicas of the conformance fixture, whose tasks live in the cluster.

The first checks are the suite's nine task scenarios; then replicas and the leader are killed under running tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2

from checks import Report, equal, expect
from conformance import HEADER_MISMATCH, METHOD_NOT_FOUND, META, MISSING_CAPABILITY
from faults import working
from peer import INVALID_PARAMS, MODERN, PATIENCE_S, PAUSE_S, Answer, accept, call_tool, post
from processes import Cluster, Service, running
from state import write_keys

SECTION = "tasks"
EXTENSION = META + "tasks"
# What a client declares that can handle tasks and answer questions.
DECLARED = {"elicitation": {"form": {}}, "sampling": {}, "extensions": {EXTENSION: {}}}
ENDED = ("completed", "failed", "cancelled")
ISO_8601 = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$")
WORKERS = 8


async def call(url: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return (await call_tool(url, tool, arguments, **({"capabilities": DECLARED} | options))).result


async def ask(url: str, method: str, params: dict[str, Any], **options: Any) -> Answer:
    return await post(url, method, params, **({"capabilities": DECLARED} | options))


async def get(url: str, task: str) -> dict[str, Any]:
    return (await ask(url, "tasks/get", {"taskId": task})).result


async def until(url: str, task: str, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
    """The task, once this holds of it or it has ended. A replica or node that is being killed is asked again."""
    last: object = None
    with anyio.move_on_after(PATIENCE_S):
        while True:
            try:
                answer = await ask(url, "tasks/get", {"taskId": task})
                last = answer.message if answer.status == 200 else (answer.status, answer.body[:200])
                if answer.status == 200 and "result" in answer.message:
                    found = answer.result
                    if holds(found) or found["status"] in ENDED:
                        return found
                elif answer.status == 200 or answer.status == 400:
                    error = answer.message.get("error", {})
                    expect(error.get("code") != INVALID_PARAMS, f"the task is gone: {error}")
            except httpx2.HTTPError as error:
                last = error
            await anyio.sleep(PAUSE_S)
    raise AssertionError(f"waited for {what}: {last}")


async def ended(url: str, task: str) -> dict[str, Any]:
    return await until(url, task, lambda _: False, "the task's end")


async def asks(url: str, task: str, questions: int = 1) -> list[str]:
    """The keys of the task's open questions."""
    found = await until(url, task, lambda task: len(task.get("inputRequests", {})) >= questions, f"{questions} questions")
    equal(found["status"], "input_required", "a task that asks")
    for request in found["inputRequests"].values():
        equal(request["method"], "elicitation/create", "what it asks")
    return list(found["inputRequests"])


async def cancel(url: str, task: str) -> None:
    acknowledged(await ask(url, "tasks/cancel", {"taskId": task}))


def acknowledged(answer: Answer) -> None:
    result = answer.result
    equal(result["resultType"], "complete", "an acknowledgement")
    kept = {"taskId", "status", "result", "error", "inputRequests"} & result.keys()
    equal(kept, set(), "what an acknowledgement must not hold")


async def created(url: str, tool: str, arguments: dict[str, Any] | None = None) -> str:
    result = await call(url, tool, arguments)
    equal(result["resultType"], "task", f"{tool} {arguments}")
    for absent in ("task", "result", "error", "inputRequests", "requestState", "ttl", "pollInterval"):
        expect(absent not in result, f"{absent} in {result}")
    for stamp in ("createdAt", "lastUpdatedAt"):
        expect(ISO_8601.match(result[stamp]) is not None, f"{stamp}: {result[stamp]}")
    for duration in ("ttlMs", "pollIntervalMs"):
        expect(isinstance(result[duration], int) and result[duration] > 0, f"{duration}: {result[duration]}")
    return result["taskId"]


async def capability(service: Service) -> None:
    capabilities = (await post(service.url, "server/discover")).result["capabilities"]
    expect(EXTENSION in capabilities.get("extensions", {}) and "tasks" not in capabilities, capabilities)
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        params = {"taskId": "gate-test"} | ({"inputResponses": {}} if method == "tasks/update" else {})
        equal((await ask(service.url, method, params, capabilities={})).error[0], MISSING_CAPABILITY, method)
    result = await call(service.url, "slow_compute", {"seconds": 0, "label": "none"}, capabilities={})
    equal((result["resultType"], "taskId" in result, bool(result["content"])), ("complete", False, True), "no task")
    await cancel(service.url, await created(service.url, "slow_compute", {"seconds": 60}))


async def required(service: Service) -> None:
    answer = await call_tool(service.url, "failing_job", capabilities={})
    equal(answer.error[0], MISSING_CAPABILITY, "a tool that answers by tasks alone")
    equal(answer.error[2], {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}, "what it names")


async def lifecycle(service: Service) -> None:
    url = service.url
    greeted = await call(url, "greet", {"name": "World"})
    equal((greeted["resultType"], greeted["content"][0]["text"]), ("complete", "Hello, World!"), "without a task")
    task = await created(url, "slow_compute", {"seconds": 2, "label": "lifecycle"})
    working_now = await get(url, task)
    equal((working_now["taskId"], working_now["status"]), (task, "working"), "while it works")
    done = await ended(url, task)
    equal((done["status"], bool(done["result"]["content"])), ("completed", True), "when it is done")
    expect("io.modelcontextprotocol/related-task" not in done["result"].get("_meta", {}), done)
    failed = await ended(url, await created(url, "failing_job"))
    equal((failed["status"], failed["result"]["isError"]), ("completed", True), "an error of the tool")
    broken = await ended(url, await created(url, "protocol_error_job"))
    equal((broken["status"], "result" in broken), ("failed", False), "an error of the protocol")
    equal((type(broken["error"]["code"]), type(broken["error"]["message"])), (int, str), "its form")
    task = await created(url, "slow_compute", {"seconds": 60})
    await cancel(url, task)
    equal((await ended(url, task))["status"], "cancelled", "once it is cancelled")
    await cancel(url, task)


async def dispatch(service: Service) -> None:
    url = service.url
    for method in ("tasks/result", "tasks/list"):
        equal((await ask(url, method, {"taskId": "gone"})).error[0], METHOD_NOT_FOUND, method)
    params = {"name": "greet", "arguments": {"name": "rt"}, "task": {"ttl": 1000, "pollInterval": 100}}
    equal((await ask(url, "tools/call", params)).result["resultType"], "complete", "the old task parameter")
    task = await created(url, "failing_job")
    equal((await ended(url, task))["resultType"], "complete", "tasks/get")
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        params = {"taskId": "task-conformance-nonexistent"} | ({"inputResponses": {}} if method == "tasks/update" else {})
        equal((await ask(url, method, params)).error[0], INVALID_PARAMS, f"{method} of an unknown task")
    # The task is there at once, at every replica.
    task = await created(url, "slow_compute", {"seconds": 60})
    for replica in range(3):
        equal((await get(service.direct(replica), task))["taskId"], task, f"replica {replica}")
    await cancel(url, task)


async def headers(service: Service) -> None:
    url = service.url
    task = await created(url, "slow_compute", {"seconds": 60})
    for method, params in (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})):
        wrong = await ask(url, method, {"taskId": task} | params, extra={"Mcp-Name": "another-task"})
        equal((wrong.status, wrong.error[0]), (400, HEADER_MISMATCH), f"{method} with another name")
    wrong = await call_tool(url, "greet", {"name": "x"}, extra={"Mcp-Method": "tasks/get"})
    equal((wrong.status, wrong.error[0]), (400, HEADER_MISMATCH), "another method")
    equal((await get(url, task))["status"], "working", "what was refused did nothing")
    await cancel(url, task)


async def input_rounds(service: Service) -> None:
    url = service.url
    task = await created(url, "confirm_delete", {"filename": "x"})
    [key] = await asks(url, task)
    acknowledged(await ask(url, "tasks/update", {"taskId": task, "inputResponses": {"unknown-key": {"ignored": True}}}))
    equal(await asks(url, task), [key], "after an answer to no question")
    acknowledged(await ask(url, "tasks/update", {"taskId": task, "inputResponses": {key: accept(confirm=True)}}))
    equal((await ended(url, task))["status"], "completed", "once it is answered")
    task = await created(url, "multi_input")
    first, second = await asks(url, task, 2)
    acknowledged(await ask(url, "tasks/update", {"taskId": task, "inputResponses": {first: accept(name="a", confirm=True)}}))
    equal(await asks(url, task), [second], "the question that is left")
    acknowledged(await ask(url, "tasks/update", {"taskId": task, "inputResponses": {second: accept(name="b", confirm=True)}}))
    equal((await ended(url, task))["status"], "completed", "once both are answered")


async def composition(service: Service) -> None:
    url = service.url
    first = await call(url, "test_tool_with_task")
    equal((first["resultType"], "taskId" in first), ("input_required", False), "the first round")
    [key] = first["inputRequests"]
    options = {"responses": {key: accept(name="Alice")}}
    if "requestState" in first:
        options["state"] = first["requestState"]
    second = await call(url, "test_tool_with_task", **options)
    equal((second["resultType"], "requestState" in second), ("task", False), "the second round")
    done = await ended(url, second["taskId"])
    expect("Alice" in done["result"]["content"][0]["text"], done)


async def status_notifications(service: Service) -> str:
    """Each status of a task reaches a subscriber of another replica."""
    task = await created(service.direct(0), "confirm_delete", {"filename": "x"})
    body = {
        "jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
        "params": {
            "_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": DECLARED},
            "notifications": {"taskIds": [task, "unknown-task"]},
        },
    }
    sent = {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen",
    }
    heard: list[str] = []
    acknowledged_ids: list[object] = []
    async with httpx2.AsyncClient(timeout=PATIENCE_S, trust_env=False) as http:
        async with http.stream("POST", service.direct(1), headers=sent, content=json.dumps(body)) as stream:
            equal(stream.status_code, 200, "the stream")
            async for line in stream.aiter_lines():
                if not line.startswith("data:") or not (text := line.removeprefix("data:").strip()):
                    continue
                message = json.loads(text)
                if message.get("method") == "notifications/subscriptions/acknowledged":
                    acknowledged_ids.append(message["params"]["notifications"].get("taskIds"))
                if message.get("method") != "notifications/tasks":
                    continue
                params = message["params"]
                equal(params["taskId"], task, "whose status")
                heard.append(params["status"])
                if params["status"] == "input_required":
                    answers = {key: accept(confirm=True) for key in params["inputRequests"]}
                    await ask(service.direct(2), "tasks/update", {"taskId": task, "inputResponses": answers})
                if params["status"] in ENDED:
                    expect(bool(params["result"]["content"]), params)
                    break
    equal(acknowledged_ids, [[task, "unknown-task"]], "which tasks are acknowledged")
    equal(heard[-1], "completed", "the last status")
    expect("input_required" in heard, heard)
    return " ".join(heard)


SCENARIOS: list[tuple[str, Callable[[Service], Awaitable[str | None]]]] = [
    ("tasks-capability-negotiation", capability),
    ("tasks-required-task-error", required),
    ("tasks-lifecycle, tasks-wire-fields, tasks-request-state-removal", lifecycle),
    ("tasks-dispatch-and-envelope", dispatch),
    ("tasks-request-headers", headers),
    ("tasks-mrtr-input", input_rounds),
    ("tasks-mrtr-composition", composition),
    ("tasks-status-notifications", status_notifications),
]


async def survives(service: Service, replica: int) -> str:
    """The replica that runs a task is killed; another goes on, with the answer that came meanwhile."""
    task = await created(service.direct(replica), "confirm_delete", {"filename": "x"})
    slow = await created(service.direct(replica), "slow_compute", {"seconds": 3, "label": "kept"})
    [key] = await asks(service.direct(replica), task)
    await anyio.to_thread.run_sync(service.replicas[replica].kill)
    try:
        other = service.direct((replica + 1) % 3)
        acknowledged(await ask(other, "tasks/update", {"taskId": task, "inputResponses": {key: accept(confirm=True)}}))
        equal((await ended(other, task))["status"], "completed", "the question's task")
        done = await ended(other, slow)
        equal(done["status"], "completed", "the long task")
        expect("in run 1" not in done["result"]["content"][0]["text"], done)
        return done["result"]["content"][0]["text"]
    finally:
        await anyio.to_thread.run_sync(service.replicas[replica].start)


async def work(cluster: Cluster, service: Service, report: Report) -> str:
    """Tasks are created and answered while each replica and the leader are killed: every one that was created ends as it should."""
    counts = {"tasks": 0, "creations that failed": 0}

    async def one(number: int) -> None:
        tool = "confirm_delete" if number % 2 else "slow_compute"
        try:
            answer = await call_tool(service.url, tool, {"seconds": 1, "label": str(number)}, capabilities=DECLARED)
        except httpx2.HTTPError:
            answer = None
        if answer is None or answer.status != 200 or "result" not in answer.message:
            # Whether it was created is not known: its id never arrived.
            counts["creations that failed"] += 1
            await anyio.sleep(PAUSE_S)
            return
        task = answer.result["taskId"]
        counts["tasks"] += 1
        if tool == "confirm_delete":
            [key] = await asks(service.url, task)
            await answered(service.url, task, key)
        done = await ended(service.url, task)
        equal(done["status"], "completed", done)
        text = done["result"]["content"][0]["text"]
        expect(text == "confirmed: true" or text.startswith(f"computed {number} in run "), text)

    await working(cluster, service, report, WORKERS, one)
    expect(counts["tasks"] > 0, counts)
    return ", ".join(f"{number} {what}" for what, number in counts.items())


async def answered(url: str, task: str, key: str) -> None:
    """Answers until the answer is acknowledged, or is seen to have arrived."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                answer = await ask(url, "tasks/update", {"taskId": task, "inputResponses": {key: accept(confirm=True)}})
                if answer.status == 200 and "result" in answer.message:
                    return
            except httpx2.HTTPError:
                pass
            await anyio.sleep(PAUSE_S)


async def run(cluster: Cluster, directory: Path, report: Report, fixture: Path, plant: str | None) -> None:
    _, key = write_keys(directory)
    # A replica that keeps tasks in its own memory cannot share them.
    endpoints = [cluster.endpoints] * 3

    def command(port: int) -> tuple[list[str], dict[str, str]]:
        environment = {"PORT": str(port), "HELVE_ENDPOINTS": endpoints.pop(), "HELVE_KEY_FILE": str(key)}
        if plant == "tasks-in-memory":
            del environment["HELVE_ENDPOINTS"]
        return [str(fixture)], environment | {"HELVE_KEY_RING": "tasks"}

    service = Service(SECTION, cluster, directory, command)
    with running(service):
        for name, scenario in SCENARIOS:
            await report.check(SECTION, name, lambda scenario=scenario: scenario(service))
        for replica in range(3):
            await report.check(SECTION, f"replica {replica + 1} dies under its tasks", lambda r=replica: survives(service, r))
        await report.check(SECTION, "every replica and the leader die under running tasks", lambda: work(cluster, service, report))
