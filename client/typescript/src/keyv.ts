/** A storage adapter for Keyv 6, by the shape of its `KeyvStorageAdapter`. */

import type { Client } from "./client.js";
import { raw } from "./codec.js";
import { InvalidError } from "./errors.js";
import { decode, encode } from "./exact.js";
import type { Keys } from "./keys.js";
import { BATCH_BYTES, BATCH_MAX } from "./limits.js";
import { type Owner, SHARED } from "./owner.js";
import { pages } from "./store.js";

/** An entry of `setMany`. */
export interface KeyvEntry<V = unknown> {
  readonly key: string;
  readonly value: V;
  /** When it expires, in milliseconds since the Unix epoch; undefined: never. */
  readonly expires?: number | undefined;
}

/** Where the entries are kept. */
export interface KeyvHelveOptions {
  /** Whose records they are; all callers share them if not told otherwise. */
  readonly owner?: Owner | undefined;
  /** What their keys begin with: `keyv/` if not told. */
  readonly prefix?: string | undefined;
  /** The namespace; Keyv sets its own. */
  readonly namespace?: string | undefined;
  /** The clock by which `expires` is meant: `Date.now`, as Keyv's own. */
  readonly now?: (() => number) | undefined;
}

type Write = { readonly key: string; readonly data: Uint8Array; readonly ttl: number | "never" };

/**
 * Keeps the entries of a Keyv on a cluster: `new Keyv({ store: new KeyvHelve(client) })`.
 *
 * It follows the contract of Keyv 6: writes are given a point in time, not a time to live. Entries
 * of a namespace are apart from those of others, and of none. A key and its namespace have at most
 * 1,024 bytes together, less the prefix. Each failed call rejects, and Keyv reports it.
 */
export class KeyvHelve {
  namespace: string | undefined;
  private readonly keys: Keys<Uint8Array>;
  private readonly prefix: string;
  private readonly now: () => number;

  /** Adapters of one owner, prefix and namespace are one, whichever replica they are in. */
  constructor(
    private readonly client: Client,
    { owner = SHARED, prefix = "keyv/", namespace, now = Date.now }: KeyvHelveOptions = {},
  ) {
    this.keys = client.keys({ owner, codec: raw });
    this.prefix = prefix;
    this.namespace = namespace;
    this.now = now;
  }

  /** Says to Keyv 6 that writes take a point in time. */
  get capabilities() {
    const async = { exists: true, methodType: "async" as const };
    const methods = {
      get: async, getMany: async, has: async, hasMany: async, set: async, setMany: async,
      delete: async, deleteMany: async, clear: async, iterator: async,
      disconnect: { exists: false, methodType: "none" as const },
    };
    return { compatible: true, store: "keyvStorage" as const, methods, expires: true };
  }

  /** There are no events: no error happens outside of a call. */
  on(_event: string, _listener: (...given: any[]) => void): this {
    return this;
  }

  /** The value under a key, or undefined. */
  async get<V = any>(key: string): Promise<V | undefined> {
    const data = await this.keys.get(this.space + key);
    return data === undefined ? undefined : (decode(data) as V);
  }

  /** The values in the order asked for. */
  async getMany<V = any>(keys: readonly string[]): Promise<(V | undefined)[]> {
    return inBatches(keys, (batch) => this.fetched<V>(batch));
  }

  /** Whether there is such a key. */
  async has(key: string): Promise<boolean> {
    return this.keys.exists(this.space + key);
  }

  /** Whether there are such keys, in the order asked for. */
  async hasMany(keys: readonly string[]): Promise<boolean[]> {
    return inBatches(keys, (batch) => Promise.all(batch.map((key) => this.has(key))));
  }

  /** Stores a value until `expires`, in milliseconds since the Unix epoch; undefined: for ever. */
  async set(key: string, value: unknown, expires?: number): Promise<boolean> {
    await this.setMany([{ key, value, expires }]);
    return true;
  }

  /** Stores values, those of a batch together; of two under one key the last. */
  async setMany<V>(entries: readonly KeyvEntry<V>[]): Promise<boolean[]> {
    const writes = new Map(entries.map((entry) => [entry.key, this.write(entry)]));
    const store = async (batch: Write[]): Promise<never[]> => {
      const transaction = this.client.transaction();
      for (const { key, data, ttl } of batch) {
        // What has expired already is as if it were there no more.
        if (ttl !== "never" && ttl <= 0) transaction.deleteKey(this.keys, key);
        else transaction.putKey(this.keys, key, data, { ttl });
      }
      await transaction.commit();
      return [];
    };
    await inBatches([...writes.values()], store, ({ data }) => data.length);
    return entries.map(() => true);
  }

  /** Deletes a key; true if there was one. */
  async delete(key: string): Promise<boolean> {
    return this.keys.delete(this.space + key);
  }

  /** Deletes keys, those of a batch together; says of each whether there was one. */
  async deleteMany(keys: readonly string[]): Promise<boolean[]> {
    const existed = await inBatches([...new Set(keys)], async (batch) => {
      const transaction = this.client.transaction();
      const tickets = batch.map((key) => transaction.deleteKey(this.keys, this.space + key));
      const done = await transaction.commit();
      const isThere = tickets.map((ticket) => done.status === "committed" && done.existed(ticket));
      return batch.filter((_, at) => isThere[at]);
    });
    const found = new Set(existed);
    return keys.map((key) => found.has(key));
  }

  /** Deletes all entries of the namespace. */
  async clear(): Promise<void> {
    const space = this.space;
    for await (const page of pages((at) => this.keys.listPage({ prefix: space, ...at }))) {
      await this.deleteMany(page.items.map(({ name }) => name.slice(space.length)));
    }
  }

  /** All entries of the namespace, by key. */
  async *iterator<V = any>(): AsyncGenerator<[string, V], void, undefined> {
    const space = this.space;
    for await (const { name, value } of this.keys.scan(space)) {
      yield [name.slice(space.length), decode(value) as V];
    }
  }

  /** What the keys of the namespace begin with: no namespace's is the beginning of another's. */
  private get space(): string {
    return `${this.prefix}${encodeURIComponent(this.namespace ?? "")}/`;
  }

  private write({ key, value, expires }: KeyvEntry): Write {
    const isTime = typeof expires === "number" && Number.isFinite(expires);
    const ttl = isTime ? expires - this.now() : "never";
    return { key: this.space + key, data: encode(value), ttl };
  }

  private async fetched<V>(keys: readonly string[]): Promise<(V | undefined)[]> {
    try {
      const found = await this.keys.getMany(keys.map((key) => this.space + key));
      return found.map((record) => record && (decode(record.value) as V));
    } catch (error) {
      const isTooLarge = error instanceof InvalidError && error.reason === "TOO_LARGE";
      if (!isTooLarge || keys.length === 1) throw error;
      const middle = Math.ceil(keys.length / 2);
      const first = await this.fetched<V>(keys.slice(0, middle));
      return [...first, ...(await this.fetched<V>(keys.slice(middle)))];
    }
  }
}

/** What `work` gives for items, as many at a time as one call carries. */
async function inBatches<R, S>(
  items: readonly R[],
  work: (batch: R[]) => Promise<S[]>,
  bytesOf: (item: R) => number = () => 0,
): Promise<S[]> {
  const found: S[] = [];
  for (let at = 0; at < items.length; ) {
    const batch: R[] = [];
    let bytes = 0;
    for (const item of items.slice(at, at + BATCH_MAX)) {
      bytes += bytesOf(item);
      if (batch.length > 0 && bytes > BATCH_BYTES) break;
      batch.push(item);
    }
    found.push(...(await work(batch)));
    at += batch.length;
  }
  return found;
}
