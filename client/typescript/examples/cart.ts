/**
 * A shopping cart as an HTTP handler of any number of replicas, with its state on Helve.
 *
 * `handler` is a `fetch` handler: `Deno.serve(handler(client))`, `Bun.serve({ fetch })`, or the
 * `fetch` of a worker. When an answer is lost, a cart is as it was, or as it was asked for.
 */

import { Client, HelveError, type HandleStore } from "helve";

type Cart = { readonly items: readonly string[] };

/** Answers requests by carts on the cluster. */
export function handler(client: Client): (request: Request) => Promise<Response> {
  return async (request) => {
    // A real shop takes the user from a session or token that it has checked.
    const owner = request.headers.get("x-user") ?? "guest";
    const carts = client.handles<Cart>("cart", { owner, idPrefix: "cart", idleTtl: 86_400_000 });
    const [, first, id] = new URL(request.url).pathname.split("/");
    try {
      if (first === "carts" && id === undefined && request.method === "POST") {
        return reply(201, { cart: await carts.mint({ items: [] }) });
      }
      if (first === "carts" && id !== undefined) return await answer(carts, id, request);
      return reply(404, { error: "no such page" });
    } catch (error) {
      if (!(error instanceof HelveError)) throw error;
      const { kind, advice } = error;
      return reply(kind === "Invalid" ? 400 : 503, { error: kind, advice });
    }
  };
}

async function answer(carts: HandleStore<Cart>, id: string, request: Request): Promise<Response> {
  if (request.method === "DELETE") {
    // Of any callers on any replicas, one gets the items.
    const found = await carts.take(id);
    if (found.status === "live") return reply(200, { ordered: found.record.value.items });
    return gone(found.status);
  }
  let found = await carts.resolve(id);
  if (request.method === "POST") {
    const { item } = (await request.json()) as { item: string };
    // No item that another replica adds at once is lost: then the update begins again.
    found = await carts.update(id, (cart) => ({ items: [...cart.items, item] }));
  }
  return found.status === "live" ? reply(200, found.record.value) : gone(found.status);
}

function gone(why: "expired" | "taken" | "unknown"): Response {
  return reply(why === "unknown" ? 404 : 410, { error: why });
}

function reply(status: number, body: object): Response {
  const headers = { "content-type": "application/json" };
  return new Response(JSON.stringify(body), { status, headers });
}
