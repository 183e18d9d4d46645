"""The cart server, driven by the official SDK while its replicas and nodes are killed: what clients were told is what is there."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import jwt
from anyio.to_thread import run_sync

from checks import Report, equal, expect
from faults import working
from peer import AUDIENCE, ISSUER, MODERN, SECRET, Answer, call, call_tool, connected, flat, post, reason, structured, token
from processes import Cluster, Process, Service, free_port, running, until

SECTION = "cart"
SUBJECTS = ("alice", "bob")
WORKERS = 4
LINES = 3
# Of a cart that never was.
UNKNOWN = "cart-AAAAAAAAAAAAAAAAAAAAAAAAAA"


@dataclass
class Ledger:
    """What the server acknowledged, by subject and cart."""

    subjects: tuple[str, str]
    open: dict[str, dict[str, dict[str, int]]] = field(init=False)
    orders: dict[str, dict[str, dict[str, int]]] = field(init=False)
    abandoned: dict[str, set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.open = {subject: {} for subject in self.subjects}
        self.orders = {subject: {} for subject in self.subjects}
        self.abandoned = {subject: set() for subject in self.subjects}


def quantities(lines: list[dict[str, Any]]) -> dict[str, int]:
    """Lines by id. That none is there twice is part of the promise."""
    found = {line["line_id"]: line["quantity"] for line in lines}
    equal(len(found), len(lines), "lines with ids of their own")
    return found


async def flow(url: str, number: int, ledger: Ledger) -> None:
    """Fills a cart, and leaves it, orders it or gives it up."""
    subject = ledger.subjects[number % 2]
    created = await call(url, subject, "create_cart", {"idempotency_key": str(uuid.uuid4())})
    cart = structured(created)["cart_id"]
    lines = ledger.open[subject].setdefault(cart, {})
    for line in range(LINES):
        item = {
            "cart_id": cart, "line_id": f"line-{line}", "sku": "tea", "quantity": number + line + 1,
            "unit_price_cents": 250,
        }
        structured(await call(url, subject, "add_item", item))
        lines[item["line_id"]] = item["quantity"]
    match number % 3:
        case 1:
            order = structured(await call(url, subject, "checkout", {"cart_id": cart}))
            equal(quantities(order["lines"]), lines, f"the order of {cart}")
            ledger.orders[subject][cart] = ledger.open[subject].pop(cart)
        case 2:
            structured(await call(url, subject, "abandon_cart", {"cart_id": cart}))
            ledger.abandoned[subject].add(cart)
            del ledger.open[subject][cart]


async def compare(url: str, cluster: Cluster, ledger: Ledger) -> None:
    """Reads everything back: through the balancer as a client, and from each node past every MCP server."""
    for subject in ledger.subjects:
        listed = structured(await call(url, subject, "list_carts", {}))
        equal(listed["open"], len(ledger.open[subject]), f"open carts of {subject}")
        for cart, lines in ledger.open[subject].items():
            viewed = structured(await call(url, subject, "view_cart", {"cart_id": cart}))
            equal(quantities(viewed["lines"]), lines, f"{cart} through the balancer")
        for cart in ledger.orders[subject]:
            equal(reason(await call(url, subject, "view_cart", {"cart_id": cart})), "CHECKED_OUT", cart)
        for cart in ledger.abandoned[subject]:
            equal(reason(await call(url, subject, "view_cart", {"cart_id": cart})), "ABANDONED", cart)
        for port in cluster.clients:
            node = ["--endpoints", f"127.0.0.1:{port}", "--owner", subject, "--values"]
            carts = cluster.json("handle", "list", "--store", "cart", *node)["records"]
            found = {record["name"]: quantities(record["value"]["lines"]) for record in carts}
            equal(found, ledger.open[subject], f"open carts of {subject} on the node at {port}")
            orders = cluster.json("state", "list", "orders/", *node)["records"]
            found = {record["value"]["cart_id"]: quantities(record["value"]["lines"]) for record in orders}
            equal(found, ledger.orders[subject], f"orders of {subject} on the node at {port}")


async def survives(
    cluster: Cluster, service: Service, report: Report, plant: str | None, subjects: tuple[str, str] = SUBJECTS
) -> str:
    ledger = Ledger(subjects)

    async def work(number: int) -> None:
        await flow(service.url, number, ledger)

    flows = await working(cluster, service, report, WORKERS, work)
    report.count("cart flows", flows)
    if plant in ("lost-order", "lost-python-order"):
        subject, orders = next((subject, orders) for subject, orders in ledger.orders.items() if orders)
        lost = f"orders/{next(iter(orders))}"
        equal(cluster.run("state", "delete", lost, "--owner", subject, "--endpoints", cluster.endpoints).returncode, 0, lost)
    await compare(service.url, cluster, ledger)
    return f"{flows} flows"


def like_an_unknown_one(answer: Answer, cart: str) -> tuple[int, dict[str, str], bytes]:
    """An answer about a cart without its id, and without the time."""
    expect(cart.encode() in answer.body, f"an answer about {cart}: {answer}")
    headers = {name: value for name, value in answer.headers.items() if name != "date"}
    return answer.status, headers, answer.body.replace(cart.encode(), b"CART")


async def foreign(service: Service) -> None:
    created = structured(await call(service.url, "alice", "create_cart", {}))
    mine = created["cart_id"]
    item = {"line_id": "a", "sku": "tea", "unit_price_cents": 1}
    for tool, more in (("view_cart", {}), ("add_item", item), ("checkout", {}), ("abandon_cart", {})):
        told = [
            like_an_unknown_one(await call_tool(service.url, tool, {"cart_id": cart, **more}, subject="bob", id=7), cart)
            for cart in (mine, UNKNOWN)
        ]
        equal(told[0], told[1], tool)
    equal(structured(await call(service.url, "alice", "view_cart", {"cart_id": mine}))["lines"], [], "what alice has")
    structured(await call(service.url, "alice", "abandon_cart", {"cart_id": mine}))


async def unauthenticated(service: Service) -> None:
    bad = {
        "no token": None,
        "garbage": "Bearer garbage",
        "another key": "Bearer " + jwt.encode({"sub": "alice", "aud": AUDIENCE, "iss": ISSUER, "exp": 2**33}, "x" * 40, "HS256"),
        "algorithm none": "Bearer " + jwt.encode({"sub": "alice", "aud": AUDIENCE, "iss": ISSUER, "exp": 2**33}, None, "none"),
        "expired": f"Bearer {token('alice', exp=1)}",
        "endless": f"Bearer {token('alice', exp=None)}",
        "another audience": f"Bearer {token('alice', aud='http://other.test')}",
        "another issuer": f"Bearer {token('alice', iss='http://other.test')}",
        "no subject": f"Bearer {token('alice', sub=None)}",
    }
    for what, authorization in bad.items():
        answer = await post(service.url, "tools/list", extra={"Authorization": authorization})
        equal(answer.status, 401, what)
        expect("www-authenticate" in answer.headers, what)
    equal((await post(service.url, "tools/list", subject="alice")).status, 200, "a token that holds")


async def metadata(service: Service) -> None:
    refused = await post(service.url, "tools/list")
    expect("resource_metadata=" in refused.headers["www-authenticate"], refused.headers)
    async with httpx2.AsyncClient(trust_env=False) as http:
        found = await http.get(service.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp"))
    equal(found.json()["resource"], AUDIENCE, "the resource")
    equal(found.json()["authorization_servers"], [ISSUER], "the authorization servers")


async def legacy(service: Service) -> str:
    """A client with a session fills and orders a cart while the replicas that hold copies of its session are killed."""
    async with connected(service.url, "carol", mode="legacy") as client:
        version = client.protocol_version
        cart = structured(await client.call_tool("create_cart", {}))["cart_id"]
        for number, replica in enumerate(service.replicas):
            await run_sync(replica.kill)
            item = {"cart_id": cart, "line_id": f"{number}", "sku": "tea", "quantity": number + 1, "unit_price_cents": 250}
            structured(await client.call_tool("add_item", item))
            await run_sync(replica.start)
        order = structured(await client.call_tool("checkout", {"cart_id": cart}))
    equal(quantities(order["lines"]), {"0": 1, "1": 2, "2": 3}, "what was ordered")
    return version


async def too_old(url: str) -> None:
    try:
        async with connected(url, "alice", mode="legacy"):
            pass
    except* Exception as errors:  # Which error it is, is the SDK's business: that it is one, is ours.
        expect(bool(flat(errors)), "an error")
    else:
        expect(False, "a client without 2026-07-28 was let in")


async def negotiated(service: Service) -> str:
    async with connected(service.url, "alice", mode="auto") as client:
        equal(client.protocol_version, MODERN, "the version that discovery finds")
        tools = await client.list_tools()
        names = {tool.name for tool in tools.tools}
        expect({"create_cart", "checkout", "list_carts"} <= names, names)
        return f"{len(names)} tools"


async def idle(cluster: Cluster, directory: Path, arguments: list[str]) -> None:
    """On a server of its own, which serves no older clients."""
    port = free_port()
    command = [*arguments, "--store", "idle", "--idle-ttl", "500ms", "--listen", f"127.0.0.1:{port}"]
    server = Process("cart-idle", command, port, directory / "cart-idle.log")
    url = f"http://127.0.0.1:{port}/mcp"
    server.start()
    try:
        await too_old(url)
        cart = structured(await call(url, "alice", "create_cart", {}))["cart_id"]
        # A look at the cart would keep it: the list does not.
        listing = ("handle", "list", "--store", "idle", "--owner", "alice", "--endpoints", cluster.endpoints)
        until("the cart to expire", lambda: not cluster.json(*listing)["records"])
        equal(reason(await call(url, "alice", "view_cart", {"cart_id": cart})), "EXPIRED", "what its owner hears")
        equal(reason(await call(url, "bob", "view_cart", {"cart_id": cart})), "UNKNOWN", "what others hear")
    finally:
        server.kill()


async def run(cluster: Cluster, directory: Path, report: Report, plant: str | None) -> None:
    secret = directory / "token.secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    arguments = [
        str(cluster.helve), "cart", "--endpoints", cluster.endpoints, "--token-secret-file", str(secret),
        "--token-audience", AUDIENCE, "--token-issuer", ISSUER, "--authorization-server", ISSUER,
    ]
    service = Service(
        "cart", cluster, directory,
        lambda port: ([*arguments, "--legacy-sessions", "--listen", f"127.0.0.1:{port}"], {}),
    )
    with running(service):
        await report.check(SECTION, "the SDK discovers it and lists its tools", lambda: negotiated(service))
        await report.check(SECTION, "a client of an older protocol orders while replicas are killed", lambda: legacy(service))
        await report.check(SECTION, "a token that does not hold is answered 401", lambda: unauthenticated(service))
        await report.check(SECTION, "who is refused learns where to get a token", lambda: metadata(service))
        await report.check(SECTION, "a foreign cart answers byte for byte like an unknown one", lambda: foreign(service))
        await report.check(
            SECTION, "nothing is lost or doubled while replicas and the leader are killed",
            lambda: survives(cluster, service, report, plant),
        )
        await report.check(
            SECTION, "an idle cart expires; no older client without --legacy-sessions",
            lambda: idle(cluster, directory, arguments),
        )
