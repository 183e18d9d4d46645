"""A shopping cart as a FastMCP server of any number of replicas, whose carts are on Helve.

Run it as often as you like, behind any balancer: `python cart.py PORT`, with HELVE_ENDPOINTS and,
to give each caller carts of their own by bearer token, CART_SECRET, CART_ISSUER and CART_AUDIENCE.
It has the tools of `helve cart`. Each may be called again with the same arguments when an answer
is lost: a cart is created once, a line added once, and a cart checked out once.
"""

import base64
import functools
import os
import sys
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.tools import ToolResult

from helve import SHARED, AsyncClient, Committed, ConflictError, HelveError, Live, NotLive

DAY = 24 * 3600
ROUNDS = 20
#: Both keep JSON, and the carts and orders of `helve cart` are the same.
client = AsyncClient.from_environment()
all_carts = client.handles("cart", owner=SHARED, id_prefix="cart", idle_ttl=DAY)
all_keys = client.keys(owner=SHARED)

auth = None
if secret := os.environ.get("CART_SECRET"):
    issuer, audience = os.environ.get("CART_ISSUER"), os.environ.get("CART_AUDIENCE")
    auth = JWTVerifier(public_key=secret, algorithm="HS256", issuer=issuer, audience=audience)
mcp: FastMCP[Any] = FastMCP("cart", auth=auth)


def mine() -> tuple[Any, Any]:
    """The caller's carts and keys; without tokens all callers are one."""
    token = get_access_token()
    owner = token.claims["sub"] if token else SHARED
    return all_carts.for_owner(owner), all_keys.for_owner(owner)


def view(cart_id: str, cart: dict[str, Any]) -> dict[str, Any]:
    """What a caller is shown of a cart, and what its order is."""
    total = sum(line["quantity"] * line["unit_price_cents"] for line in cart["lines"])
    return {"cart_id": cart_id, "lines": cart["lines"], "total_cents": total}


def done(answer: dict[str, Any]) -> ToolResult:
    """The answer of a tool that did what was asked."""
    return ToolResult(structured_content=answer)


def refused(reason: str, text: str) -> ToolResult:
    """Says to the model what to do, and to programs why."""
    return ToolResult(content=text, meta={"helve.v1/reason": reason}, is_error=True)


def failed(error: HelveError) -> ToolResult:
    """Every tool may be called again, so what may have been done is not told apart."""
    if error.kind in ("Ambiguous", "Unavailable", "Overloaded", "Conflict"):
        return refused("UNAVAILABLE", "the store cannot answer now: make the same call again")
    return refused("REFUSED", "the store refused: tell the operator")


async def gone(keys: Any, cart_id: str, why: NotLive) -> ToolResult:
    """Says what became of a cart that is none any more."""
    if why is NotLive.EXPIRED:
        return refused("EXPIRED", f"cart {cart_id} has expired: create another")
    if why is NotLive.UNKNOWN:
        return refused("UNKNOWN", f"cart {cart_id} is unknown: check the id, or create a cart")
    if await keys.exists(f"orders/{cart_id}"):
        return refused("CHECKED_OUT", f"cart {cart_id} was checked out: call checkout to see it")
    return refused("ABANDONED", f"cart {cart_id} was abandoned: create another")


def tool(function: Any) -> Any:
    """A tool that says what to do when the store fails."""

    @functools.wraps(function)
    async def guarded(**arguments: Any) -> ToolResult:
        try:
            return await function(**arguments)  # type: ignore[no-any-return]
        except HelveError as error:
            return failed(error)

    mcp.tool(guarded)
    return function


@tool
async def create_cart(idempotency_key: str | None = None) -> ToolResult:
    """Create a cart, and answer its cart_id. The same idempotency_key answers the same cart."""
    carts, keys = mine()
    empty: dict[str, Any] = {"lines": []}
    if idempotency_key is None:
        return done(view(await carts.mint(empty), empty))
    key = f"creates/cart/{idempotency_key}"
    cart_id = f"cart-{base64.b32encode(os.urandom(16)).decode().rstrip('=')}"
    create = client.transaction()
    create.put(carts, cart_id, empty, if_revision=0)
    create.put_key(keys, key, cart_id, DAY, if_revision=0)
    try:
        await create.commit()
    except ConflictError:
        return await view_cart(await keys.get(key))
    return done(view(cart_id, empty))


@tool
async def add_item(
    cart_id: str, line_id: str, sku: str, unit_price_cents: int, quantity: int = 1
) -> ToolResult:
    """Add a line under an id of your choosing, and answer the cart."""
    carts, keys = mine()
    line = {"line_id": line_id, "sku": sku, "quantity": quantity}
    line["unit_price_cents"] = unit_price_cents

    def add(cart: dict[str, Any]) -> dict[str, Any]:
        held = [each for each in cart["lines"] if each["line_id"] == line_id]
        if held and held != [line]:
            raise LookupError
        return cart if held else {"lines": [*cart["lines"], line]}

    try:
        found = await carts.update(cart_id, add)
    except LookupError:
        return refused("LINE_MISMATCH", f"{line_id} names another line: use a new line_id")
    if isinstance(found, Live):
        return done(view(cart_id, found.record.value))
    return await gone(keys, cart_id, found)


@tool
async def view_cart(cart_id: str) -> ToolResult:
    """Show a cart's lines and total."""
    carts, keys = mine()
    found = await carts.resolve(cart_id)
    if isinstance(found, Live):
        return done(view(cart_id, found.record.value))
    return await gone(keys, cart_id, found)


@tool
async def checkout(cart_id: str) -> ToolResult:
    """Turn a cart into an order, once, and answer the order. Again, it answers the same order."""
    carts, keys = mine()
    for _ in range(ROUNDS):
        found = await carts.resolve(cart_id)
        if not isinstance(found, Live):
            order = await keys.get(f"orders/{cart_id}")
            return await gone(keys, cart_id, found) if order is None else done(order)
        order = view(cart_id, found.record.value)
        if not order["lines"]:
            return refused("CART_EMPTY", "the cart is empty: add an item first")
        checkout = client.transaction()
        checkout.take(carts, cart_id, if_revision=found.record.revision)
        checkout.put_key(keys, f"orders/{cart_id}", order, if_revision=0)
        try:
            if isinstance(await checkout.commit(), Committed):
                return done(order)
        except ConflictError:
            # It was changed, taken or expired since it was read: look again.
            continue
    return refused("UNAVAILABLE", "others change this cart all the time: make the same call again")


@tool
async def abandon_cart(cart_id: str) -> ToolResult:
    """Give a cart up, with all that is in it."""
    carts, keys = mine()
    found = await carts.take(cart_id)
    if isinstance(found, Live):
        return done({"cart_id": cart_id})
    answer = await gone(keys, cart_id, found)
    is_again = answer.meta == {"helve.v1/reason": "ABANDONED"}
    return done({"cart_id": cart_id}) if is_again else answer


@tool
async def list_carts() -> ToolResult:
    """List open carts: at most 100, and how many there are in all."""
    carts, _ = mine()
    page = await carts.list_values_page(None, 100)
    listed = [view(record.name, record.value) for record in page.items]
    return done({"carts": listed, "open": await carts.count()})


if __name__ == "__main__":
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, show_banner=False)
