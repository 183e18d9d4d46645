// What the compiler must accept, and what it must refuse. Nothing here is run.

import {
  type Claimed, Client, digestOf, type EarlierLease, type Page, type Record, type Resolved, SHARED,
} from "helve";
import { KeyvHelve } from "helve/keyv";
import { EventStore } from "helve/mcp";

interface Cart {
  readonly items: string[];
}

export async function typed(client: Client): Promise<void> {
  const carts = client.handles<Cart>("cart", { owner: SHARED });
  const id: string = await carts.mint({ items: ["tea"] });
  // @ts-expect-error: another value.
  await carts.mint({ item: "tea" });
  // @ts-expect-error: an owner is said.
  client.handles<Cart>("cart", {});
  const found: Resolved<Record<Cart>> = await carts.take(id);
  // @ts-expect-error: only what lives has a record.
  void found.record;
  const page: Page<Record<Cart>> = await carts.listValuesPage({ limit: 10 });
  void page.items.map(({ value }) => value.items.length);
  const tx = client.transaction();
  const taken = tx.take(carts, id);
  const done = await tx.commit();
  if (done.status === "committed") void done.taken(taken).value.items;
  else void done.operation;
}

export async function claimed(client: Client): Promise<Cart> {
  const orders = client.claims<Cart>("order", { owner: SHARED, lease: 30_000 });
  const digest: Uint8Array = await digestOf({ order: 17 });
  const found: Claimed<Cart> = await orders.claim("order-17", digest);
  // @ts-expect-error: only a fresh claim has a lease.
  void found.lease;
  if (found.status === "done") return found.result;
  if (found.status === "fresh") {
    const earlier: EarlierLease | undefined = found.lease.earlier;
    void earlier?.mayHaveHappened;
    // @ts-expect-error: another result.
    await found.lease.finish({ item: "tea" });
    await found.lease.abandon({ neverHappened: true });
  }
  // @ts-expect-error: a digest is said.
  await orders.once("order-17", () => ({ items: [] }));
  // @ts-expect-error: another result.
  await orders.once("order-17", digest, () => ({ item: "tea" }));
  return orders.once("order-17", digest, () => ({ items: [] }), { recover: async () => ({ items: [] }) });
}

/** The `EventStore` of the MCP TypeScript SDK, as its versions 1 and 2 declare it. */
interface SdkEventStore {
  storeEvent(streamId: string, message: JsonRpcMessage): Promise<string>;
  getStreamIdForEventId?(eventId: string): Promise<string | undefined>;
  replayEventsAfter(
    lastEventId: string,
    { send }: { send: (eventId: string, message: JsonRpcMessage) => Promise<void> },
  ): Promise<string>;
}
type JsonRpcMessage = { jsonrpc: "2.0"; id?: string | number; method?: string };

/** The `KeyvStorageAdapter` of Keyv 6, but for its events. */
interface KeyvStorageAdapter {
  namespace?: string | undefined;
  capabilities?: { compatible: boolean; store: "mapLike" | "keyvStorage" | "asyncMap" | "none"; expires?: boolean };
  get<V>(key: string): Promise<{ value?: V; expires?: number | undefined } | string | undefined>;
  set(key: string, value: unknown, expires?: number): Promise<boolean>;
  setMany<V>(values: { key: string; value: V; expires?: number }[]): Promise<boolean[] | undefined>;
  delete(key: string): Promise<boolean>;
  clear(): Promise<void>;
  has(key: string): Promise<boolean>;
  hasMany(keys: string[]): Promise<boolean[]>;
  getMany<V>(keys: string[]): Promise<({ value?: V } | string | undefined)[]>;
  deleteMany(keys: string[]): Promise<boolean[]>;
  iterator?<V>(): AsyncGenerator<(string | Awaited<V> | undefined)[], void>;
  on(event: string, listener: (...given: any[]) => void): unknown;
}

export function shaped(client: Client): [SdkEventStore, KeyvStorageAdapter] {
  return [new EventStore(client), new KeyvHelve(client)];
}
