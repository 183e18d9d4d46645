"""FastMCP on three nodes: sessions and carts of two replicas that lose nothing."""

import asyncio
import contextlib
import secrets
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastmcp")

import jwt
from fastmcp import Client, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware.caching import ResponseCachingMiddleware
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from processes import Process, free_port
from session_server import made

import helve
from helve import SHARED, AsyncClient
from helve.fastmcp import ToolErrors, caller, verifier_from_environment
from helve.key_value import HelveStore

HERE = Path(__file__).parent
CART = HERE.parents[1] / "examples" / "cart.py"
#: For a call that is made again because its replica died.
TRIES = 200


@pytest.fixture
def run(endpoints):
    """Runs a case on two servers in this process, each with a client of its own."""

    def run(case):
        async def whole():
            owner = f"s-{secrets.token_hex(8)}"
            async with contextlib.AsyncExitStack() as stack:
                servers = []
                for nodes in (endpoints, endpoints[::-1]):
                    client = await stack.enter_async_context(AsyncClient(nodes, deadline=60.0))
                    servers.append(await stack.enter_async_context(Client(made(client, owner))))
                await case(*servers)

        asyncio.run(whole())

    return run


async def recall(server, session, keys):
    answer = await server.call_tool("recall", {"session_id": session, "keys": keys})
    return answer.data


def test_of_twenty_changes_of_a_session_at_once_none_is_lost(run):
    async def case(one, other):
        session = (await one.call_tool("create_session", {})).data
        keys = [f"k{n}" for n in range(20)]
        await asyncio.gather(
            *(
                (one, other)[n % 2].call_tool(
                    "remember", {"session_id": session, "key": keys[n], "value": n}
                )
                for n in range(20)
            )
        )
        assert await recall(other, session, keys) == list(range(20))
        removed = {"session_id": session, "key": "k3"}
        added = {"session_id": session, "key": "k20", "value": 20}
        await asyncio.gather(one.call_tool("forget", removed), other.call_tool("remember", added))
        assert await recall(one, session, ["k2", "k3", "k20"]) == [2, None, 20]

    run(case)


def test_a_session_that_was_ended_stays_ended(run):
    async def case(one, other):
        session = (await one.call_tool("create_session", {})).data
        note = {"session_id": session, "key": "k", "value": 1}
        await one.call_tool("remember", note)
        await other.call_tool("end_session", {"session_id": session})
        for server in (one, other):
            with pytest.raises(ToolError, match="session"):
                await server.call_tool("remember", note)

    run(case)


@contextlib.contextmanager
def replicas(script, endpoints, directory):
    """Two replicas of a server, as processes."""
    made = []
    for number in (1, 2):
        port = free_port()
        environment = {"HELVE_ENDPOINTS": ",".join(endpoints)}
        command = [sys.executable, str(script), str(port)]
        log = directory / f"replica-{number}.log"
        made.append(Process(f"replica-{number}", command, port, log, environment))
    try:
        for replica in made:
            replica.start()
        yield made
    finally:
        for replica in made:
            if replica.running is not None:
                replica.kill()


async def call(replicas, turn, tool, arguments):
    """Calls one replica, and the other one if it is gone, as a balancer does."""
    for attempt in range(TRIES):
        replica = replicas[(turn + attempt) % 2]
        try:
            async with Client(f"http://127.0.0.1:{replica.port}/mcp") as client:
                answer = await client.call_tool(tool, arguments)
                return answer.data or answer.structured_content
        except ToolError:
            raise
        except Exception:  # Whatever the transport says of a replica that is gone.
            if attempt == TRIES - 1:
                raise
            await asyncio.sleep(0.1)
    return None


async def break_both(cluster, replica):
    """Kills the leader and a replica, and starts them again."""

    def strike():
        leader = cluster.leader()
        leader.kill()
        replica.kill()
        leader.start()
        replica.start()
        cluster.wait_ready()

    await asyncio.get_running_loop().run_in_executor(None, strike)


def test_sessions_outlive_a_killed_replica_and_a_killed_leader(cluster, endpoints, tmp_path):
    async def case(servers):
        session = await call(servers, 0, "create_session", {})

        async def remember(n):
            arguments = {"session_id": session, "key": f"k{n}", "value": n}
            await call(servers, n, "remember", arguments)

        await asyncio.gather(*(remember(n) for n in range(10)))
        striking = asyncio.ensure_future(break_both(cluster, servers[0]))
        for n in range(10, 40, 10):
            await asyncio.gather(*(remember(n + m) for m in range(10)))
        await striking
        keys = [f"k{n}" for n in range(40)]
        for turn in (0, 1):
            found = await call(servers, turn, "recall", {"session_id": session, "keys": keys})
            assert found == list(range(40))

    with replicas(HERE / "session_server.py", endpoints, tmp_path) as servers:
        asyncio.run(case(servers))


def test_carts_are_checked_out_once_though_replica_and_leader_are_killed(
    cluster, endpoints, tmp_path
):
    """`make mcp-test` has the whole flow, with the ledger of the Rust cart."""

    async def case(servers):
        async def flow(n):
            cart = (await call(servers, n, "create_cart", {"idempotency_key": f"k{n}"}))["cart_id"]
            for item in range(3):
                line = {"line_id": f"{item}", "sku": "tea", "unit_price_cents": 250}
                await call(servers, n + item, "add_item", {"cart_id": cart, **line})
            # Both replicas are asked at once, and both answer the one order.
            asked = (call(servers, turn, "checkout", {"cart_id": cart}) for turn in (0, 1))
            return cart, await asyncio.gather(*asked)

        striking = asyncio.ensure_future(break_both(cluster, servers[1]))
        flows = [await asyncio.gather(*(flow(n + m) for m in range(5))) for n in range(0, 20, 5)]
        await striking
        async with AsyncClient(endpoints) as client:
            orders = client.keys(owner=SHARED)
            for cart, told in (each for part in flows for each in part):
                order = await orders.get(f"orders/{cart}")
                assert told == [order, order]
                assert [line["line_id"] for line in order["lines"]] == ["0", "1", "2"]
                assert order["total_cents"] == 750

    with replicas(CART, endpoints, tmp_path) as servers:
        asyncio.run(case(servers))


def test_an_answer_that_one_replica_cached_another_gives(endpoints):
    calls = []

    def made_with_cache(client, owner):
        mcp = FastMCP("cached")
        store = HelveStore(client, owner=owner)
        mcp.add_middleware(ResponseCachingMiddleware(cache_storage=store))

        @mcp.tool
        async def slow(n: int) -> int:
            calls.append(n)
            return n * 2

        return mcp

    async def whole():
        owner = f"cache-{secrets.token_hex(8)}"
        async with AsyncClient(endpoints) as one, AsyncClient(endpoints[::-1]) as other:
            for client in (one, other, one):
                async with Client(made_with_cache(client, owner)) as caller:
                    assert (await caller.call_tool("slow", {"n": 21})).data == 42

    asyncio.run(whole())
    assert calls == [21]


@pytest.mark.parametrize(
    ("repeatable", "raised", "reason", "text"),
    [
        (False, helve.ToolError("CART_EMPTY", "add an item"), "CART_EMPTY", "add an item"),
        (False, helve.UnavailableError("n1 is down"), "UNAVAILABLE", "nothing was done. Try again"),
        (False, helve.ConflictError("n1"), "CONFLICT", "nothing was done. Read again"),
        (False, helve.AmbiguousError("n1 is down"), "AMBIGUOUS", "it may have been done. Read"),
        (True, helve.AmbiguousError("n1 is down"), "UNAVAILABLE", "make the same call again"),
        (True, helve.ConflictError("n1"), "UNAVAILABLE", "make the same call again"),
        (True, helve.DeniedError("n1"), "DENIED", "nothing was done. Get another"),
    ],
)
def test_errors_say_to_models_what_to_do_and_to_programs_why(repeatable, raised, reason, text):
    mcp = FastMCP("fails", middleware=[ToolErrors(repeatable=repeatable)])

    @mcp.tool
    async def fails() -> dict:
        raise raised

    @mcp.tool
    async def breaks() -> dict:
        raise ToolError("of the server's own")

    async def whole():
        async with Client(mcp) as caller:
            answer = await caller.call_tool_mcp("fails", {})
            assert answer.is_error
            assert answer.meta["helve.v1/reason"] == reason
            assert answer.content[0].text.startswith(text)
            assert "n1" not in answer.content[0].text
            assert answer.structured_content is None
            with pytest.raises(ToolError, match="of the server's own"):
                await caller.call_tool("breaks", {})

    asyncio.run(whole())


SECRET = "a secret of at least thirty-two bytes"


def environment(monkeypatch, **values):
    for name in ("SECRET", "JWKS_URI", "ISSUER", "AUDIENCE"):
        monkeypatch.delenv(f"SHOP_{name}", raising=False)
    for name, value in values.items():
        monkeypatch.setenv(f"SHOP_{name}", value)


def test_a_verifier_is_whole_or_not_made(monkeypatch):
    environment(monkeypatch)
    assert verifier_from_environment("SHOP") is None
    issued = {"ISSUER": "http://issuer.test", "AUDIENCE": "http://shop.test/mcp"}
    for values in (
        {"SECRET": SECRET},
        {"SECRET": SECRET, "ISSUER": issued["ISSUER"]},
        {"JWKS_URI": "http://issuer.test/keys", "AUDIENCE": issued["AUDIENCE"]},
        {"SECRET": SECRET, "JWKS_URI": "http://issuer.test/keys", **issued},
        issued,
    ):
        environment(monkeypatch, **values)
        with pytest.raises(ValueError, match="SHOP_SECRET or SHOP_JWKS_URI"):
            verifier_from_environment("SHOP")
    for url in ("https://issuer.test/keys", "http://127.0.0.1:8080/keys", "http://[::1]/keys"):
        environment(monkeypatch, JWKS_URI=url, **issued)
        assert verifier_from_environment("SHOP").jwks_uri == url


def test_keys_of_tokens_come_over_https_or_from_this_machine(monkeypatch):
    issued = {"ISSUER": "http://issuer.test", "AUDIENCE": "http://shop.test/mcp"}
    for url, why in (
        ("http://issuer.test/keys", "https URL"),
        ("http://10.0.0.1/keys", "https URL"),
        ("http://localhost.issuer.test/keys", "https URL"),
        ("http://127.0.0.1@issuer.test/keys", "https URL"),
        ("ftp://issuer.test/keys", "no https URL"),
        ("issuer.test/keys", "no https URL"),
        ("http://[::1/keys", "no URL"),
    ):
        environment(monkeypatch, JWKS_URI=url, **issued)
        with pytest.raises(ValueError, match=rf"SHOP_JWKS_URI.*{why}"):
            verifier_from_environment("SHOP")


def test_each_caller_is_the_subject_of_a_token_for_this_server(monkeypatch):
    whole = {"iss": "http://issuer.test", "aud": "http://shop.test/mcp", "sub": "alice"}
    environment(monkeypatch, SECRET=SECRET, ISSUER=whole["iss"], AUDIENCE=whole["aud"])
    verifier = verifier_from_environment("SHOP")

    async def said(claims, secret=SECRET):
        token = await verifier.verify_token(jwt.encode(claims, secret, "HS256"))
        if token is None:
            return "refused"
        auth_context_var.set(AuthenticatedUser(token))
        return caller(without_token=SHARED)()

    def told(*arguments):
        # In a task of its own, as a request.
        return asyncio.run(said(*arguments))

    assert told(whole) == "alice"
    assert told(whole | {"sub": "bob"}) == "bob"
    assert told(whole | {"aud": "http://other.test/mcp"}) == "refused"
    assert told(whole | {"iss": "http://other.test"}) == "refused"
    assert told(whole, SECRET[::-1]) == "refused"
    nameless = {name: value for name, value in whole.items() if name != "sub"}
    for claims in (nameless, nameless | {"sub": ""}):
        with pytest.raises(helve.DeniedError, match="names a subject"):
            told(claims)


def test_without_a_token_the_owner_is_what_the_server_says():
    assert caller(without_token=SHARED)() is SHARED
    with pytest.raises(helve.DeniedError, match="no token that names a subject"):
        caller()()
