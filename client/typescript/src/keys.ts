/** Values under keys of the caller's choosing. */

import { toBase64 } from "./bytes.js";
import type { Cluster } from "./cluster.js";
import type { Codec } from "./codec.js";
import { InternalError } from "./errors.js";
import { PAGE, PAGE_MAX } from "./limits.js";
import { onWire, type Owner } from "./owner.js";
import { Pages, type PageOptions } from "./pages.js";
import {
  type Page,
  type Record,
  recordOf,
  type RecordInfo,
  stored,
  type StoreOutcome,
  type Written,
} from "./records.js";
import { rounds, unlessConflict } from "./steps.js";
import { type Defaults, lifetime, type Lifetime } from "./ttl.js";
import * as wire from "./wire.js";

/** Whose keys, and how their values are kept. */
export interface KeySettings<T> {
  readonly owner: Owner;
  readonly codec: Codec<T>;
  readonly defaults: Defaults;
}

/** Which keys a page has. */
export interface KeyPageOptions extends PageOptions {
  /** Only keys that begin with these characters. */
  readonly prefix?: string | undefined;
}

/**
 * Values of type `T` under keys of 1 to 1,024 bytes of UTF-8 without NUL.
 *
 * `/` has no special meaning. A key has a revision, which every write changes: what is written with
 * a revision as condition overwrites nothing that was not read.
 */
export class Keys<T> {
  private readonly pages: Pages<T>;

  /** Is made by `Client.keys`. */
  constructor(
    private readonly cluster: Cluster,
    private readonly deadline: number,
    readonly settings: KeySettings<T>,
  ) {
    this.pages = new Pages(cluster, deadline, wire.LIST_KEYS, "keysMax", settings.codec);
  }

  /** The keys of another end user; they share nothing with these but the client. */
  forOwner(owner: Owner): Keys<T> {
    return new Keys(this.cluster, this.deadline, { ...this.settings, owner });
  }

  /** The value, if there is such a key. Restarts the idle time. */
  async get(key: string): Promise<T | undefined> {
    return (await this.getRecord(key))?.value;
  }

  /** The value with its revision and times, if there is such a key. Restarts the idle time. */
  async getRecord(key: string): Promise<Record<T> | undefined> {
    return this.read(key, this.until());
  }

  /** Stores a value, and answers the revision and times that it got. */
  async put(key: string, value: T, ttl: Lifetime = "default"): Promise<RecordInfo> {
    const reply = await this.call(wire.STORE, this.storeRequest(key, value, ttl));
    return written(reply).info;
  }

  /**
   * Stores a value if the key's revision is `revision`; 0: if there is no such key.
   *
   * A conflict is an outcome here, no error.
   */
  async putIf(
    key: string,
    value: T,
    revision: number,
    ttl: Lifetime = "default",
  ): Promise<StoreOutcome> {
    return this.write(key, value, revision, ttl, this.until());
  }

  /** Stores a value if there is no such key. */
  async putIfAbsent(key: string, value: T, ttl: Lifetime = "default"): Promise<StoreOutcome> {
    return this.putIf(key, value, 0, ttl);
  }

  /** Stores all, or none: at most 128 keys, and 4 MiB in all. */
  async putMany(
    items: Iterable<readonly [key: string, value: T]>,
    ttl: Lifetime = "default",
  ): Promise<void> {
    const owner = onWire(this.settings.owner);
    const written = Array.from(items, ([key, value]) => ({ key, ...this.content(value, ttl) }));
    await this.call(wire.BATCH_STORE, { owner, items: written });
  }

  /** The records in the order asked for, all from one view. At most 128. */
  async getMany(keys: readonly string[]): Promise<(Record<T> | undefined)[]> {
    const owner = onWire(this.settings.owner);
    const reply = await this.call(wire.BATCH_RETRIEVE, { owner, keys });
    return reply.keys.map(({ record }) => this.record(record));
  }

  /** Whether there is such a key. Does not restart the idle time. */
  async exists(key: string): Promise<boolean> {
    return (await this.call(wire.EXISTS, this.named(key))).exists;
  }

  /** Deletes a key; true if there was one. */
  async delete(key: string): Promise<boolean> {
    return (await this.call(wire.DELETE_KEY, this.named(key))).existed;
  }

  /** Deletes a key if its revision is `revision`. False: it is another, or there is none. */
  async deleteIf(key: string, revision: number): Promise<boolean> {
    return this.remove(key, revision, this.until());
  }

  /**
   * Gets and deletes: of any number of callers one receives the value; undefined: there is no such
   * key. Throws ConflictError if others wrote first until the deadline ended.
   */
  async take(key: string): Promise<Record<T> | undefined> {
    const until = this.until();
    return rounds<Record<T> | undefined>(this.cluster, until, async () => {
      const found = await this.read(key, until);
      const isDone = found === undefined || (await this.remove(key, found.revision, until));
      return isDone ? { answer: found } : { lostTo: found.revision };
    });
  }

  /**
   * Changes a value, and loses no other caller's change.
   *
   * Reads, calls `change` with what is there or undefined, writes if no other write came between,
   * or begins again. A key that exists keeps its lifetime; a new one gets that of the options.
   * `change` may be called several times: it must do nothing but compute. What it throws is thrown,
   * and then nothing is written. Throws ConflictError if others wrote first until the deadline
   * ended.
   */
  async update(key: string, change: (value: T | undefined) => T): Promise<Record<T>> {
    const until = this.until();
    return rounds<Record<T>>(this.cluster, until, async () => {
      const found = await this.read(key, until);
      const value = change(found?.value);
      const ttl = found === undefined ? "default" : "keep";
      const outcome = await this.write(key, value, found?.revision ?? 0, ttl, until);
      if (outcome.status === "conflict") return { lostTo: outcome.revision };
      const { info } = outcome;
      return { answer: { name: info.name, revision: info.revision, info, value } };
    });
  }

  /** A page of the keys, in the order of their bytes, without values. */
  async listPage({ prefix = "", ...options }: KeyPageOptions = {}): Promise<Page<RecordInfo>> {
    return this.pages.infos({ owner: onWire(this.settings.owner), prefix }, options);
  }

  /** As `listPage`, with the values: fewer of them where one reply cannot hold all. */
  async listValuesPage({ prefix = "", ...options }: KeyPageOptions = {}): Promise<Page<Record<T>>> {
    return this.pages.values({ owner: onWire(this.settings.owner), prefix }, options);
  }

  /** All keys without their values, page by page; each page is a view of its own. */
  list(prefix = "", page: number = PAGE_MAX): AsyncGenerator<RecordInfo, void, undefined> {
    return this.pages.all((options) => this.listPage({ prefix, ...options }), page);
  }

  /** All keys with their values, page by page; each page is a view of its own. */
  scan(prefix = "", page: number = PAGE): AsyncGenerator<Record<T>, void, undefined> {
    return this.pages.all((options) => this.listValuesPage({ prefix, ...options }), page);
  }

  /** The request of a put, alone or in a transaction. */
  storeRequest(key: string, value: T, ttl: Lifetime, ifRevision?: number): object {
    return { ...this.named(key, ifRevision), ...this.content(value, ttl) };
  }

  /** The request of a deletion, likewise. */
  named(key: string, ifRevision?: number): object {
    const condition = ifRevision === undefined ? {} : { ifRevision: String(ifRevision) };
    return { owner: onWire(this.settings.owner), key, ...condition };
  }

  private content(value: T, ttl: Lifetime): object {
    const { codec, defaults } = this.settings;
    return { value: toBase64(codec.encode(value)), lifetime: lifetime(ttl, defaults) };
  }

  private until(): number {
    return this.cluster.until(this.deadline);
  }

  private call<R extends wire.Reply>(method: wire.Method<R>, request: object): Promise<R> {
    return this.cluster.call(method, request, this.until());
  }

  private record(found: wire.Valued | null | undefined): Record<T> | undefined {
    if (found === null || found === undefined) return undefined;
    return recordOf(found, this.settings.codec);
  }

  private async read(key: string, until: number): Promise<Record<T> | undefined> {
    const { record } = await this.cluster.call(wire.RETRIEVE, this.named(key), until);
    return this.record(record);
  }

  private write(
    key: string,
    value: T,
    revision: number,
    ttl: Lifetime,
    until: number,
  ): Promise<StoreOutcome> {
    const request = this.storeRequest(key, value, ttl, revision);
    return unlessConflict(this.cluster.call(wire.STORE, request, until).then(written));
  }

  private async remove(key: string, revision: number, until: number): Promise<boolean> {
    const removing = this.cluster.call(wire.DELETE_KEY, this.named(key, revision), until);
    const done = await unlessConflict(removing);
    return !("status" in done) && done.existed;
  }
}

function written(reply: wire.StatusReply): Written {
  const outcome = stored(reply);
  if ("info" in outcome) return outcome;
  throw new InternalError("a write status that no key has");
}
