"""What servers on the official SDK keep on three nodes: OAuth, caches, tasks."""

import asyncio
import dataclasses
import secrets
import time

import pytest

pytest.importorskip("mcp")

from mcp.server.auth.provider import AuthorizationParams, TokenError
from mcp.shared.auth import OAuthClientInformationFull

from helve import AmbiguousError, AsyncClient
from helve.mcp_oauth import HelveOAuthProvider

REDIRECT = "http://127.0.0.1:1/callback"


@pytest.fixture
def run(endpoints):
    """Runs a case on clients of two replicas, under an owner of its own."""

    def run(case):
        async def whole():
            async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
                await case(one, other, f"mcp-{secrets.token_hex(8)}")

        asyncio.run(whole())

    return run


class Provider(HelveOAuthProvider):
    """Grants every scope that is requested."""

    async def authorize(self, client, params):
        return await self.issue_code(client, params)


async def granted(provider):
    """A client, and a code that it was granted."""
    client = OAuthClientInformationFull(client_id="c", redirect_uris=[REDIRECT])
    await provider.register_client(client)
    params = AuthorizationParams(
        state="s",
        scopes=["read"],
        code_challenge="challenge",
        redirect_uri=REDIRECT,
        redirect_uri_provided_explicitly=True,
    )
    target = await provider.authorize(client, params)
    assert target.startswith(f"{REDIRECT}?code=")
    code = target.split("code=")[1].split("&")[0]
    return client, await provider.load_authorization_code(client, code)


def test_a_code_is_exchanged_once_at_any_replica(run):
    async def case(one, other, owner):
        providers = [Provider(client, owner=owner) for client in (one, other)]
        client, code = await granted(providers[0])
        assert (code.scopes, code.code_challenge) == (["read"], "challenge")
        assert (await providers[1].get_client("c")).client_id == "c"
        stranger = OAuthClientInformationFull(client_id="d", redirect_uris=[REDIRECT])
        assert await providers[1].load_authorization_code(stranger, code.code) is None
        answers = await asyncio.gather(
            *(providers[n % 2].exchange_authorization_code(client, code) for n in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, TokenError) for each in answers) == 9
        (tokens,) = [each for each in answers if not isinstance(each, TokenError)]
        access = await providers[1].load_access_token(tokens.access_token)
        assert (access.client_id, access.scopes, access.token) == (
            "c",
            ["read"],
            tokens.access_token,
        )
        # A second use may be a thief's: the tokens that the code gave end.
        assert await providers[1].load_authorization_code(client, code.code) is None
        assert await providers[0].load_access_token(tokens.access_token) is None
        assert await providers[0].load_refresh_token(client, tokens.refresh_token) is None
        # A reader of the cluster learns no secret.
        kept = [repr(record) for record in (await one.keys(owner=owner).list_values()).items]
        told = (code.code, tokens.access_token, tokens.refresh_token)
        assert not any(secret in record for secret in told for record in kept)

    run(case)


def test_a_refresh_token_rotates_once_and_a_revoked_pair_ends(run):
    async def case(one, other, owner):
        providers = [Provider(client, owner=owner) for client in (one, other)]
        client, code = await granted(providers[0])
        first = await providers[1].exchange_authorization_code(client, code)
        stranger = OAuthClientInformationFull(client_id="d", redirect_uris=[REDIRECT])
        assert await providers[0].load_refresh_token(stranger, first.refresh_token) is None
        refresh = await providers[0].load_refresh_token(client, first.refresh_token)
        answers = await asyncio.gather(
            *(
                providers[n % 2].exchange_refresh_token(client, refresh, ["read"])
                for n in range(10)
            ),
            return_exceptions=True,
        )
        (second,) = [each for each in answers if not isinstance(each, TokenError)]
        assert await providers[1].load_access_token(first.access_token) is None
        assert await providers[1].load_refresh_token(client, first.refresh_token) is None
        access = await providers[1].load_access_token(second.access_token)
        await providers[1].revoke_token(access)
        await providers[0].revoke_token(access)
        assert await providers[0].load_access_token(second.access_token) is None
        assert await providers[0].load_refresh_token(client, second.refresh_token) is None

    run(case)


async def lifetimes(client, owner, prefix):
    """For how many seconds the records live, from their last write on."""
    found = (await client.keys(owner=owner).list(prefix)).items
    return [(info.expires_at_ms - info.updated_at_ms) / 1000 for info in found]


def test_codes_and_tokens_end_with_their_lifetimes(run):
    async def case(one, _, owner):
        made = {"code_ttl": 11, "access_ttl": 12, "refresh_ttl": 13}
        provider = Provider(one, owner=owner, **made)
        client, code = await granted(provider)
        assert await lifetimes(one, owner, "oauth-server/codes/") == [11]
        tokens = await provider.exchange_authorization_code(client, code)
        assert await lifetimes(one, owner, "oauth-server/access/") == [12]
        assert await lifetimes(one, owner, "oauth-server/refresh/") == [13]
        # What a code that comes again must end is known for as long as there may be any of it.
        assert await lifetimes(one, owner, "oauth-server/codes/") == [13]
        access = await provider.load_access_token(tokens.access_token)
        refresh = await provider.load_refresh_token(client, tokens.refresh_token)
        await provider.exchange_refresh_token(client, refresh, ["read"])
        assert await lifetimes(one, owner, "oauth-server/refresh/") == [13]
        assert tokens.expires_in == 12
        # What the SDK compares with its clock ends with the record.
        ends = {code.expires_at: 11, access.expires_at: 12, refresh.expires_at: 13}
        for end, lives in ends.items():
            assert end <= time.time() + lives

    run(case)


def test_an_exchange_whose_answer_is_lost_is_decided_by_what_is_kept(run):
    async def case(one, other, owner):
        provider, rival = (Provider(client, owner=owner) for client in (one, other))
        client, code = await granted(provider)
        transaction = one.transaction

        async def exchanged(how):
            def losing():
                made = transaction()
                commit = made.commit

                async def lose():
                    await how(commit)
                    raise AmbiguousError("lost")

                made.commit = lose
                return made

            one.transaction = losing
            try:
                return await provider.exchange_authorization_code(client, code)
            finally:
                one.transaction = transaction

        async def is_still_under_way(_):
            pass

        async def takes_effect(commit):
            await commit()

        async def is_overtaken(_):
            await rival.exchange_authorization_code(client, code)

        with pytest.raises(AmbiguousError):
            await exchanged(is_still_under_way)
        tokens = await exchanged(takes_effect)
        assert await rival.load_access_token(tokens.access_token) is not None
        client, code = await granted(provider)
        with pytest.raises(TokenError):
            await exchanged(is_overtaken)

    run(case)


def test_a_response_that_one_replica_cached_another_has(run):
    caching = pytest.importorskip("mcp.client.caching")
    import mcp_types

    from helve.mcp_cache import HelveResponseCacheStore

    async def case(one, other, owner):
        stores = [HelveResponseCacheStore(client, owner=owner) for client in (one, other)]
        tool = mcp_types.Tool(name="t", input_schema={"type": "object"}, description="d")
        value = mcp_types.ListToolsResult(tools=[tool], ttl_ms=5, cache_scope="public")
        entry = caching.CacheEntry(value, "public", time.time() + 60)
        key = caching.CacheKey("tools/list", "", "alice")
        assert await stores[0].get(key) is None
        await stores[0].set(key, entry)
        assert await stores[1].get(key) == entry
        (lives,) = await lifetimes(one, owner, "responses/")
        assert 0 < lives <= 60, "the cluster removes it when it is stale"
        for field in ("method", "params_key", "partition"):
            assert await stores[1].get(dataclasses.replace(key, **{field: "tools/lis"})) is None
        joined_alike = caching.CacheKey("ools/list", "", "alicet")
        assert await stores[1].get(joined_alike) is None
        for ends in (None, time.time() - 1):
            await stores[0].set(key, entry)
            await stores[1].set(key, caching.CacheEntry(value, "public", ends))
            assert await stores[0].get(key) is None
        for n in range(3):
            await stores[0].set(caching.CacheKey("tools/list", "", f"{n}"), entry)
        await stores[1].clear()
        assert (await one.keys(owner=owner).list()).items == ()

    run(case)


def test_the_client_of_the_sdk_serves_what_another_replica_fetched(run):
    caching = pytest.importorskip("mcp.client.caching")
    from mcp import Client as McpClient
    from mcp.server import MCPServer
    from mcp.server.caching import CacheHint

    from helve.mcp_cache import HelveResponseCacheStore

    async def case(one, other, owner):
        answers = []
        for client in (one, other):
            hints = {"tools/list": CacheHint(ttl_ms=60_000)}
            server = MCPServer("served", cache_hints=hints)
            name = f"tool{len(answers)}"
            server.add_tool(lambda: "", name=name, description="d")
            config = caching.CacheConfig(
                store=HelveResponseCacheStore(client, owner=owner),
                partition="alice",
                target_id="served",
            )
            async with McpClient(server, cache=config) as caller:
                found = await caller.list_tools()
                answers.append([tool.name for tool in found.tools])
        assert answers == [["tool0"], ["tool0"]]

    run(case)


def test_tasks_of_the_sdk_are_one_at_all_replicas(run):
    pytest.importorskip("mcp.shared.experimental.tasks.store")
    from mcp.types import CallToolResult, TaskMetadata, TextContent

    from helve.mcp_tasks import HelveTaskStore

    async def case(one, other, owner):
        stores = [HelveTaskStore(client, owner=owner, page_size=3) for client in (one, other)]
        made = await stores[0].create_task(TaskMetadata(ttl=60_000), "t")
        with pytest.raises(ValueError, match="exists"):
            await stores[1].create_task(TaskMetadata(), "t")
        assert await stores[1].get_task("t") == made
        waiting = asyncio.ensure_future(stores[0].wait_for_update("t"))
        await stores[1].update_task("t", "input_required", "more")
        await asyncio.wait_for(waiting, 60)
        # Changed since it was read: no update is missed between the two.
        await stores[0].get_task("t")
        await stores[1].update_task("t", "working")
        await asyncio.wait_for(stores[0].wait_for_update("t"), 60)
        result = CallToolResult(content=[TextContent(type="text", text="done")])
        await stores[1].store_result("t", result)
        ends = await asyncio.gather(
            *(stores[n % 2].update_task("t", ("completed", "failed")[n % 2]) for n in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, ValueError) for each in ends) == 5
        found = await stores[0].get_result("t")
        assert found.model_dump()["content"][0]["text"] == "done"
        assert await lifetimes(one, owner, "mcp-tasks/") == [60]
        brief = HelveTaskStore(one, owner=f"{owner}-brief", default_ttl=30)
        await brief.create_task(TaskMetadata(), "t")
        assert await lifetimes(one, f"{owner}-brief", "mcp-tasks/") == [30]
        for n in range(7):
            await stores[0].create_task(TaskMetadata(), f"{n}")
        listed, cursor, pages = [], None, 0
        while pages == 0 or (cursor is not None and pages < 9):
            tasks, cursor = await stores[1].list_tasks(cursor)
            listed += [task.taskId for task in tasks]
            pages += 1
        assert (sorted(listed), pages) == ([*"0123456", "t"], 3)
        assert await stores[0].delete_task("t")
        assert not await stores[1].delete_task("t")
        for gone in (stores[1].wait_for_update, stores[1].update_task):
            with pytest.raises(ValueError, match="not found"):
                await gone("t")
        assert await stores[1].get_result("t") is None

    run(case)
