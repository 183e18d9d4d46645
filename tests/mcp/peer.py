"""The official Python SDK as a client, and bare requests for what it would never send."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import jwt
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

MODERN = "2026-07-28"
AUDIENCE = "http://helve.test/mcp"
ISSUER = "http://issuer.test"
SECRET = "+Ieo1JR59WKhhkZ1EMU8eNNUE/Y2jbrSdqfyvahnBXE="
# How long a call is made again while replicas and nodes die.
PATIENCE_S = 60.0
PAUSE_S = 0.05
# The protocol's error for what is wrong with a request's parameters.
INVALID_PARAMS = -32602
# A client that was cut off hears of it by one of these: a dead replica's 502, or a broken connection.
BROKEN = (-32603, -32600, -32000)

_ids = itertools.count(1)


def token(subject: str, **claims: Any) -> str:
    """A bearer token that holds, unless `claims` say otherwise; None drops one."""
    said = {"sub": subject, "aud": AUDIENCE, "iss": ISSUER, "exp": int(time.time()) + 3600} | claims
    return jwt.encode({name: value for name, value in said.items() if value is not None}, SECRET, "HS256")


def headers(subject: str | None) -> dict[str, str]:
    return {} if subject is None else {"Authorization": f"Bearer {token(subject)}"}


@contextlib.asynccontextmanager
async def connected(
    url: str, subject: str | None = None, mode: str = MODERN, timeout_s: float = 30.0, **options: Any
) -> AsyncIterator[Client]:
    """A client of the SDK. After `timeout_s` it gives up by itself."""
    async with httpx2.AsyncClient(headers=headers(subject), timeout=timeout_s, trust_env=False) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None, **options) as client:
            yield client


class GaveUp(Exception):
    """No answer came in time: the call's fate is not known."""


def reason(result: CallToolResult) -> str | None:
    """Why a tool refused, for programs."""
    return (result.meta or {}).get("helve.v1/reason") if result.is_error else None


async def call(url: str, subject: str | None, tool: str, arguments: dict[str, Any], **options: Any) -> CallToolResult:
    """Calls a tool until its fate is known, each time with a fresh client: a killed replica is none of its business."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            async with connected(url, subject, **options) as client:
                result = await client.call_tool(tool, arguments)
            if reason(result) != "UNAVAILABLE":
                return result
            last: object = result.content
        except* (MCPError, httpx2.HTTPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as errors:
            broken = [error for error in flat(errors) if isinstance(error, MCPError) and error.code not in BROKEN]
            if broken:
                raise broken[0]
            last = errors
        if time.monotonic() > deadline:
            raise GaveUp(f"{tool}: {last}")
        await anyio.sleep(PAUSE_S)


def flat(error: BaseException) -> list[BaseException]:
    """The errors that a task group wraps."""
    if isinstance(error, BaseExceptionGroup):
        return [inner for outer in error.exceptions for inner in flat(outer)]
    return [error]


def structured(result: CallToolResult) -> dict[str, Any]:
    """What a tool answered."""
    if result.is_error:
        raise AssertionError(f"the tool refused: {result.content}")
    assert result.structured_content is not None
    return result.structured_content


@dataclass
class Answer:
    """The answer to a bare request."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        """Every JSON-RPC message: one, or those of a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            lines = self.body.decode().splitlines()
            data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
            return [json.loads(line) for line in data if line]
        return [json.loads(self.body)]

    @property
    def message(self) -> dict[str, Any]:
        return self.messages[-1]

    @property
    def result(self) -> dict[str, Any]:
        if "result" not in self.message:
            raise AssertionError(f"an error: {self.status} {self.message}")
        return self.message["result"]

    @property
    def error(self) -> tuple[int, str, Any]:
        """Code, message and data."""
        if "error" not in self.message:
            raise AssertionError(f"no error: {self.status} {self.message}")
        error = self.message["error"]
        return error["code"], error["message"], error.get("data")


# What a client that can do everything declares.
ABLE = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}


async def post(
    url: str,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    subject: str | None = None,
    capabilities: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    extra: dict[str, str | None] | None = None,
    id: int | None = None,
) -> Answer:
    """One request on a connection of its own. `meta` replaces the metadata; `extra` headers win, and None drops one."""
    params = dict(params or {})
    params["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "mcp-test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": ABLE if capabilities is None else capabilities,
    }
    if meta is not None:
        params["_meta"] = meta
    sent: dict[str, str | None] = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **headers(subject),
    }
    if (name := params.get("name", params.get("uri", params.get("taskId")))) is not None:
        sent["Mcp-Name"] = name
    sent |= extra or {}
    body = {"jsonrpc": "2.0", "id": next(_ids) if id is None else id, "method": method, "params": params}
    async with httpx2.AsyncClient(timeout=30.0, trust_env=False) as http:
        kept = {name: value for name, value in sent.items() if value is not None}
        response = await http.post(url, headers=kept, content=json.dumps(body))
        return Answer(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.content)


async def call_tool(url: str, tool: str, arguments: dict[str, Any] | None = None, **options: Any) -> Answer:
    """A bare tool call: `state` and `responses` are those of a further round."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
    for option, field in (("state", "requestState"), ("responses", "inputResponses")):
        if option in options:
            params[field] = options.pop(option)
    return await post(url, "tools/call", params, **options)


def accept(**content: Any) -> dict[str, Any]:
    """A form that the user filled in."""
    return {"action": "accept", "content": content}
