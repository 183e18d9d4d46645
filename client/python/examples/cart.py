"""A shopping cart as a FastMCP server of any number of replicas: `python cart.py PORT`.

HELVE_ENDPOINTS names the cluster; CART_SECRET, CART_ISSUER and CART_AUDIENCE give each caller carts
of their own, by bearer token. When an answer is lost, any call may be made again as it was.
"""

import hashlib
import os
import sys
from contextlib import suppress

from fastmcp import FastMCP
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token

from helve import SHARED, AsyncClient, Committed, ConflictError, Live, NotLive, ToolError
from helve.fastmcp import ToolErrors

client = AsyncClient.from_environment()
signer = {name: os.environ.get(f"CART_{name.upper()}") for name in ("issuer", "audience")}
secret = os.environ.get("CART_SECRET")
auth = JWTVerifier(public_key=secret, algorithm="HS256", **signer) if secret else None
mcp = FastMCP("cart", auth=auth, middleware=[ToolErrors(repeatable=True)])


def mine():
    """The caller's carts and orders; without tokens all callers are one."""
    token = get_access_token()
    owner = token.claims["sub"] if token else SHARED
    carts = client.handles("cart", owner=owner, idle_ttl=24 * 3600)
    return carts, client.keys(owner=owner)


def view(cart_id: str, lines: list) -> dict:
    """What a caller is shown of a cart, and what its order is."""
    total = sum(line["quantity"] * line["unit_price_cents"] for line in lines)
    return {"cart_id": cart_id, "lines": lines, "total_cents": total}


async def shown(cart_id: str, found) -> dict:
    """What is shown of a cart that lives; else the error says what became of it."""
    if isinstance(found, Live):
        return view(cart_id, found.record.value["lines"])
    reason = found.name
    if found is NotLive.TAKEN:
        is_order = await mine()[1].exists(f"orders/{cart_id}")
        reason = "CHECKED_OUT" if is_order else "ABANDONED"
    raise ToolError(reason, f"{cart_id} is {reason}: view its order by checkout, or create a cart")


@mcp.tool
async def create_cart(idempotency_key: str | None = None) -> dict:
    """Create a cart, and answer its cart_id. The same idempotency_key answers the same cart."""
    key = idempotency_key or os.urandom(16).hex()
    cart_id = f"cart-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    await mine()[0].put_if_absent(cart_id, {"lines": []})
    return await view_cart(cart_id)


@mcp.tool
async def add_item(
    cart_id: str, line_id: str, sku: str, unit_price_cents: int, quantity: int = 1
) -> dict:
    """Add a line under an id of your choosing, and answer the cart."""
    line = {"line_id": line_id, "sku": sku, "quantity": quantity}
    line["unit_price_cents"] = unit_price_cents

    def add(cart: dict) -> dict:
        held = [each for each in cart["lines"] if each["line_id"] == line_id]
        if held and held != [line]:
            raise ToolError("LINE_MISMATCH", f"{line_id} names another line: use a new line_id")
        return cart if held else {"lines": [*cart["lines"], line]}

    return await shown(cart_id, await mine()[0].update(cart_id, add))


@mcp.tool
async def view_cart(cart_id: str) -> dict:
    """Show a cart's lines and total."""
    return await shown(cart_id, await mine()[0].resolve(cart_id))


@mcp.tool
async def checkout(cart_id: str) -> dict:
    """Turn a cart into an order, once, and answer the order. Again, it answers the same order."""
    carts, keys = mine()
    while True:
        found = await carts.resolve(cart_id)
        if found is NotLive.TAKEN and (order := await keys.get(f"orders/{cart_id}")):
            return order
        order = await shown(cart_id, found)
        if not order["lines"]:
            raise ToolError("CART_EMPTY", "the cart is empty: add an item first")
        both = client.transaction()
        both.take(carts, cart_id, if_revision=found.record.revision)
        both.put_key(keys, f"orders/{cart_id}", order, if_revision=0)
        with suppress(ConflictError):  # Changed or taken since it was read: look again.
            if isinstance(await both.commit(), Committed):
                return order


@mcp.tool
async def abandon_cart(cart_id: str) -> dict:
    """Give a cart up, with all that is in it."""
    carts, keys = mine()
    found = await carts.take(cart_id)
    if found is not NotLive.TAKEN or await keys.exists(f"orders/{cart_id}"):
        await shown(cart_id, found)
    return {"cart_id": cart_id}


@mcp.tool
async def list_carts() -> dict:
    """List open carts: at most 100, and how many there are in all."""
    carts, _ = mine()
    page = await carts.list_values_page(None, 100)
    listed = [view(record.name, record.value["lines"]) for record in page.items]
    return {"carts": listed, "open": await carts.count()}


if __name__ == "__main__":
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, show_banner=False)
