"""What FastMCP keeps beside sessions, on three nodes: events, OAuth clients, cached responses."""

import asyncio
import secrets
import time

import pytest

pytest.importorskip("fastmcp")

import mcp_types
from fastmcp.client.caching import KeyValueResponseCacheStore
from fastmcp.server.auth import OAuthProxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
from fastmcp.server.session_scoped_event_store import SessionScopedEventStore
from mcp.client.caching import CacheEntry, CacheKey
from mcp.shared.auth import OAuthClientInformationFull
from test_mcp import message, number_of

from helve import AsyncClient
from helve.key_value import HelveStore
from helve.mcp import EventStore


@pytest.fixture
def run(endpoints):
    """Runs a case on clients of two replicas, under an owner of its own."""

    def run(case):
        async def whole():
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                await case(one, other, f"fastmcp-{secrets.token_hex(8)}")

        asyncio.run(whole())

    return run


def test_no_event_of_a_session_is_lost_and_none_leaks(run):
    async def case(one, other, owner):
        stores = [EventStore(client, owner=owner) for client in (one, other)]
        mine = [SessionScopedEventStore(store, "mine") for store in stores]
        theirs = SessionScopedEventStore(stores[1], "theirs")
        first = await mine[0].store_event("1", None)
        await theirs.store_event("1", message(99))
        await asyncio.gather(*(mine[n % 2].store_event("1", message(n)) for n in range(40)))
        found = []

        async def send(event):
            found.append(number_of(event))

        assert await mine[1].replay_events_after(first, send) == "1"
        assert sorted(found) == list(range(40))
        assert await theirs.replay_events_after(first, send) is None
        assert len(found) == 40

    run(case)


def proxy(client, owner):
    return OAuthProxy(
        upstream_authorization_endpoint="https://idp.test/authorize",
        upstream_token_endpoint="https://idp.test/token",
        upstream_client_id="upstream",
        upstream_client_secret="s" * 32,
        token_verifier=StaticTokenVerifier(tokens={}),
        base_url="https://mcp.test",
        client_storage=HelveStore(client, owner=owner),
        jwt_signing_key="k" * 32,
    )


def test_a_client_that_one_proxy_registered_another_knows(run):
    async def case(one, other, owner):
        info = OAuthClientInformationFull(
            client_id="c",
            client_secret="secret",
            redirect_uris=["http://127.0.0.1:1/callback"],
        )
        await proxy(one, owner).register_client(info)
        found = await proxy(other, owner).get_client("c")
        assert found.client_id == "c"
        assert [str(uri) for uri in found.redirect_uris] == ["http://127.0.0.1:1/callback"]
        assert await proxy(other, f"{owner}-2").get_client("c") is None

    run(case)


def test_a_response_that_one_client_cached_another_has(run):
    async def case(one, other, owner):
        stores = [
            KeyValueResponseCacheStore(HelveStore(client, owner=owner)) for client in (one, other)
        ]
        value = mcp_types.ListToolsResult(tools=[], ttl_ms=60_000)
        entry = CacheEntry(value, "private", time.time() + 60)
        key = CacheKey("tools/list", "", "alice")
        await stores[0].set(key, entry)
        assert (await stores[1].get(key)).value == value
        await stores[1].clear()
        assert await stores[0].get(key) is None

    run(case)
