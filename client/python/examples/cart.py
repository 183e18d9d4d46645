"""A shopping cart as a FastMCP server of any number of replicas: `python cart.py PORT`.

HELVE_ENDPOINTS names the cluster; CART_SECRET, CART_ISSUER and CART_AUDIENCE give each caller carts
of their own, by bearer token. When an answer is lost, any call may be made again as it was.
"""

import sys

from fastmcp import FastMCP

from helve import SHARED, AsyncClient, AsyncTransaction, NotLive, Record, ToolError, live
from helve.fastmcp import ToolErrors, caller, verifier_from_environment

auth, owner = verifier_from_environment("CART"), caller(without_token=SHARED)
mcp = FastMCP("cart", auth=auth, middleware=[ToolErrors(repeatable=True)])
client = AsyncClient.from_environment()
carts = client.handles("cart", owner=owner, id_prefix="cart", idle_ttl=24 * 3600)
orders = client.keys(owner=owner)


def view(cart: Record) -> dict:
    """What a caller is shown of a cart, and what its order is."""
    total = sum(line["quantity"] * line["unit_price_cents"] for line in cart.value["lines"])
    return {"cart_id": cart.name, **cart.value, "total_cents": total}


async def shown(cart_id: str, found) -> dict:
    """What is shown of a cart that lives; else the error says what became of it."""
    if found is NotLive.TAKEN:
        reason = "CHECKED_OUT" if await orders.exists(f"orders/{cart_id}") else "ABANDONED"
        raise ToolError(reason, f"{cart_id} is {reason}: checkout shows an order; or create a cart")
    return view(live(cart_id, found))


@mcp.tool
async def create_cart(idempotency_key: str | None = None) -> dict:
    """Create a cart, and answer its cart_id. The same idempotency_key answers the same cart."""
    return await view_cart(await carts.mint_once(idempotency_key, {"lines": []}))


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

    return await shown(cart_id, await carts.update(cart_id, add))


@mcp.tool
async def view_cart(cart_id: str) -> dict:
    """Show a cart's lines and total."""
    return await shown(cart_id, await carts.resolve(cart_id))


@mcp.tool
async def checkout(cart_id: str) -> dict:
    """Turn a cart into an order, once, and answer the order. Again, it answers the same order."""

    async def order(both: AsyncTransaction) -> dict:
        found = await carts.resolve(cart_id)
        if found is NotLive.TAKEN and (placed := await orders.get(f"orders/{cart_id}")):
            return placed
        cart = await shown(cart_id, found)
        if not cart["lines"]:
            raise ToolError("CART_EMPTY", "the cart is empty: add an item first")
        both.take(carts, cart_id, if_revision=found.record.revision)
        both.put_key(orders, f"orders/{cart_id}", cart, if_revision=0)
        return cart

    return await client.transact(order)


@mcp.tool
async def abandon_cart(cart_id: str) -> dict:
    """Give a cart up, with all that is in it."""
    found = await carts.take(cart_id)
    if found is not NotLive.TAKEN or await orders.exists(f"orders/{cart_id}"):
        await shown(cart_id, found)
    return {"cart_id": cart_id}


@mcp.tool
async def list_carts() -> dict:
    """List open carts: at most 100, and how many there are in all."""
    page = await carts.list_values_page(None, 100)
    return {"carts": [view(cart) for cart in page.items], "open": await carts.count()}


if __name__ == "__main__":
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[1]), stateless_http=True, show_banner=False)
