"""A server of the official SDK with one tool that asks, to compare with: `python sdk_server.py PORT`."""

from __future__ import annotations

import sys

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

server = MCPServer("sdk-peer", request_state_security=RequestStateSecurity(keys=[bytes(range(32))]))


def question() -> InputRequiredResult:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    ask = ElicitRequest(params=ElicitRequestFormParams(message="Please confirm", requested_schema=schema))
    return InputRequiredResult(input_requests={"confirm": ask}, request_state='{"asked":"confirm"}')


async def confirm(context: Context) -> str | InputRequiredResult:
    """Asks, and takes an answer only together with the state of its question."""
    if context.request_state == '{"asked":"confirm"}' and "confirm" in (context.input_responses or {}):
        return "state-ok: true"
    return question()


for name in ("test_input_required_result_tampered_state", "test_input_required_result_request_state"):
    server.add_tool(confirm, name=name, description="Asks the user, and keeps state.")

if __name__ == "__main__":
    app = server.streamable_http_app(stateless_http=True, json_response=True)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
