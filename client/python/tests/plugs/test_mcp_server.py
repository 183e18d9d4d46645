"""What servers on the official SDK keep on three nodes: request states, OAuth, caches, tasks."""

import asyncio
import contextlib
import dataclasses
import secrets
import time

import pytest

pytest.importorskip("mcp")

from mcp.server.auth.provider import AuthorizationParams, TokenError
from mcp.shared.auth import OAuthClientInformationFull
from processes import until

from helve import AmbiguousError, AsyncClient, Client, InvalidError
from helve._core import key_ring
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


@pytest.fixture
def ring(cluster, endpoints, tmp_path):
    """A ring of keys: its name, its key file, and `helve key` on it."""
    name, path = f"ring-{secrets.token_hex(4)}", tmp_path / "operator-key"
    path.touch(0o600)
    path.write_text(secrets.token_hex(32))

    def key(*arguments):
        flags = ("--ring", name, "--key-file", str(path), "--endpoints", cluster.endpoints)
        ended = cluster.run("key", *arguments, *flags, "--output", "json")
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    return name, path, key


@contextlib.contextmanager
def codecs(endpoints, ring):
    """Those of two replicas."""
    module = pytest.importorskip("helve.mcp_request_state", exc_type=ImportError)
    name, path, _ = ring
    with Client(endpoints) as one, Client(endpoints[::-1]) as other:
        made = [module.RequestStateCodec(each, name, key_file=path) for each in (one, other)]
        try:
            yield made
        finally:
            for each in made:
                each.close()


def test_a_state_opens_at_any_replica_and_is_sealed_whole(endpoints, ring):
    state = pytest.importorskip("mcp.server.request_state")
    ring[2]("add")
    with codecs(endpoints, ring) as (one, other):
        token = one.seal(b"payload")
        assert other.unseal(token) == b"payload"
        assert other.unseal(one.seal(b"")) == b""
        assert one.seal(b"payload") != token
        odd = ["", "p1.", "p1", "v1.AAAA", token + "A", token[:-1], token.upper(), f"{token}\n"]
        odd += ["p1." + "A" * 200_000, "p1.é"]
        odd += [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
                for at in range(len(token))]  # fmt: skip
        for each in odd:
            with pytest.raises(state.InvalidRequestState):
                other.unseal(each)


def test_a_rotation_refuses_no_state_of_a_replica(endpoints, ring):
    import json

    state = pytest.importorskip("mcp.server.request_state")
    key = ring[2]
    key("add")
    with codecs(endpoints, ring) as (one, other):
        old = one.seal(b"old")
        key("add")
        ids = [each["id"] for each in json.loads(key("list"))["keys"]]
        until("both to hold both keys", lambda: all(len(c._ring.keys) == 2 for c in (one, other)))
        assert {each.hex() for each in one._ring.keys} == set(ids)
        assert one.seal(b"")[:12] == old[:12], "a verifying key does not seal"
        key("activate", ids[1], "--force")
        until("one to seal under the new key", lambda: one._ring.active.id.hex() == ids[1])
        for codec in (one, other):
            assert codec.unseal(old) == b"old"
            assert codec.unseal(one.seal(b"new")) == b"new"
        key("remove", ids[0], "--force")
        until("one to forget the old key", lambda: len(one._ring.keys) == 1)
        with pytest.raises(state.InvalidRequestState, match="unknown key"):
            one.unseal(old)


def test_a_ring_that_is_not_there_or_not_ours_is_said(endpoints, ring, tmp_path):
    module = pytest.importorskip("helve.mcp_request_state", exc_type=ImportError)
    name, path, key = ring
    with Client(endpoints) as client:
        with pytest.raises(InvalidError, match="has no key"):
            module.RequestStateCodec(client, name, key_file=path)
        key("add")
        with pytest.raises(InvalidError, match="does not open"):
            module.RequestStateCodec(client, name, operator_key=bytes(range(32)))
        for arguments in ({}, {"key_file": path, "operator_key": bytes(32)}):
            with pytest.raises(InvalidError, match="one of"):
                module.RequestStateCodec(client, name, **arguments)
        with pytest.raises(InvalidError, match="no name"):
            module.RequestStateCodec(client, "No Name", key_file=path)


def test_a_key_file_is_read_as_the_nodes_read_it(tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "key"
    path.touch(0o600)
    secret = bytes(range(32))
    base64 = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    for content in (secret.hex(), secret.hex().upper(), f" {base64}=\r\n", base64, secret):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert key_ring.read_operator_key(path) == secret
    der = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
    texts = [f'"{base64}="', f"0x{secret.hex()}", secret.hex()[:60], f"{secret.hex()}0", der]
    texts += [f"{base64}==", f"{secret.hex()} {secret.hex()}", "a passphrase of 32 bytes, no more"]
    for content in [*map(str.encode, texts), bytes(32), secret + b"\n", secret[:31], bytes(5000)]:
        path.write_bytes(content)
        with pytest.raises(InvalidError, match="holds no key"):
            key_ring.read_operator_key(path)
    path.write_bytes(secret)
    path.chmod(0o604)
    with pytest.raises(InvalidError, match="chmod 600"):
        key_ring.read_operator_key(path)


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
        names = [info.name for info in (await one.keys(owner=owner).list()).items]
        assert not any(code.code in name for name in names)

    run(case)


def test_a_refresh_token_rotates_once_and_a_revoked_pair_ends(run):
    async def case(one, other, owner):
        providers = [Provider(client, owner=owner) for client in (one, other)]
        client, code = await granted(providers[0])
        first = await providers[1].exchange_authorization_code(client, code)
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
        for field in ("method", "params_key", "partition"):
            assert await stores[1].get(dataclasses.replace(key, **{field: "tools/lis"})) is None
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
        await waiting
        # Changed since it was read: no update is missed between the two.
        await stores[0].get_task("t")
        await stores[1].update_task("t", "working")
        await stores[0].wait_for_update("t")
        result = CallToolResult(content=[TextContent(type="text", text="done")])
        await stores[1].store_result("t", result)
        ends = await asyncio.gather(
            *(stores[n % 2].update_task("t", ("completed", "failed")[n % 2]) for n in range(10)),
            return_exceptions=True,
        )
        assert sum(isinstance(each, ValueError) for each in ends) == 5
        found = await stores[0].get_result("t")
        assert found.model_dump()["content"][0]["text"] == "done"
        for n in range(7):
            await stores[0].create_task(TaskMetadata(), f"{n}")
        listed, cursor, pages = [], None, 0
        while pages == 0 or cursor is not None:
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
