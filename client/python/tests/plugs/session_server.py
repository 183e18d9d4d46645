"""A FastMCP server whose sessions are on Helve: python session_server.py PORT."""

import sys

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_session
from fastmcp.server.sessions import SessionId, SessionProvider

from helve import AsyncClient
from helve.fastmcp import SessionStore


def made(client, owner="sessions"):
    mcp = FastMCP("sessions", session_state_store=SessionStore(client, owner=owner))
    mcp.add_provider(SessionProvider())

    @mcp.tool
    async def remember(session_id: SessionId, key: str, value: int) -> str:
        session = await get_session(session_id)
        await session.set(key, value)
        return "noted"

    @mcp.tool
    async def forget(session_id: SessionId, key: str) -> str:
        session = await get_session(session_id)
        await session.delete(key)
        return "forgotten"

    @mcp.tool
    async def recall(session_id: SessionId, keys: list[str]) -> list[int | None]:
        session = await get_session(session_id)
        return [await session.get(key) for key in keys]

    return mcp


if __name__ == "__main__":
    server = made(AsyncClient.from_environment(deadline=60.0))
    port = int(sys.argv[1])
    server.run("http", host="127.0.0.1", port=port, stateless_http=True, show_banner=False)
