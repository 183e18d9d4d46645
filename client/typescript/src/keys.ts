/** Values under keys of the caller's choosing. */

import { PAGE, PAGE_MAX } from "./limits.js";
import {
  type Record, recordOf, type RecordInfo, type Resolved, type StoreOutcome, written,
} from "./records.js";
import { rounds, unlessConflict } from "./steps.js";
import { items, type PageOptions, type Settings, type Shape, Store } from "./store.js";
import type { Lifetime } from "./ttl.js";
import * as wire from "./wire.js";

/** Which keys a page has. */
export interface KeyPageOptions extends PageOptions {
  /** Only keys that begin with these characters. */
  readonly prefix?: string | undefined;
}

const KEYS: Shape<StoreOutcome> = {
  name: "key",
  pageMax: "keysMax",
  list: wire.LIST_KEYS,
  put: wire.STORE,
  outcome: written,
};

/**
 * Values of type `T` under keys of 1 to 1,024 bytes of UTF-8 without NUL.
 *
 * `/` has no special meaning. A key has a revision, which every write changes: what is written with
 * a revision as condition overwrites nothing that was not read. Lists go by the bytes of the keys.
 */
export class Keys<T> extends Store<T, Settings<T>, KeyPageOptions, StoreOutcome> {
  protected readonly shape = KEYS;

  /** The value with its revision and times, if there is such a key. Restarts the idle time. */
  async getRecord(key: string): Promise<Record<T> | undefined> {
    return recordIn(await this.read(key));
  }

  /** Stores a value, and answers the revision and times that it got. */
  async put(key: string, value: T, ttl: Lifetime = "default"): Promise<RecordInfo> {
    return written(await this.call(wire.STORE, this.putRequest(key, value, { ttl }))).info;
  }

  /** Stores all, or none: at most 128 keys, and 4 MiB in all. */
  async putMany(
    items: Iterable<readonly [key: string, value: T]>,
    ttl: Lifetime = "default",
  ): Promise<void> {
    const stored = Array.from(items, ([key, value]) => ({ key, ...this.content(value, ttl) }));
    await this.call(wire.BATCH_STORE, { ...this.scope(), items: stored });
  }

  /** The records in the order asked for, all from one view. At most 128. */
  async getMany(keys: readonly string[]): Promise<(Record<T> | undefined)[]> {
    const reply = await this.call(wire.BATCH_RETRIEVE, { ...this.scope(), keys });
    return reply.keys.map(({ record }) => recordIn(this.found(record)));
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
    return this.remove(key, revision);
  }

  /**
   * Gets and deletes: of any number of callers one receives the value; undefined: there is no such
   * key. Throws ConflictError if others wrote first until the deadline ended.
   */
  async take(key: string): Promise<Record<T> | undefined> {
    const until = this.until();
    return rounds<Record<T> | undefined>(this.cluster, until, async () => {
      const found = recordIn(await this.read(key, until));
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
    // A key that does not live is created, so that there always is a record.
    return recordIn(await this.updated(key, true, change)) as Record<T>;
  }

  /** All keys without their values, page by page; each page is a view of its own. */
  list(prefix = "", page: number = PAGE_MAX): AsyncGenerator<RecordInfo, void, undefined> {
    return items((options) => this.listPage({ prefix, ...options }), page);
  }

  /** All keys with their values, page by page; each page is a view of its own. */
  scan(prefix = "", page: number = PAGE): AsyncGenerator<Record<T>, void, undefined> {
    return items((options) => this.listValuesPage({ prefix, ...options }), page);
  }

  protected async read(key: string, until?: number): Promise<Resolved<Record<T>>> {
    return this.found((await this.call(wire.RETRIEVE, this.named(key), until)).record);
  }

  private async remove(key: string, revision: number, until?: number): Promise<boolean> {
    const request = this.named(key, { ifRevision: revision });
    const done = await unlessConflict(this.call(wire.DELETE_KEY, request, until));
    return !("status" in done) && done.existed;
  }

  private found(record: wire.Valued | null | undefined): Resolved<Record<T>> {
    if (record === null || record === undefined) return { status: "unknown" };
    return { status: "live", record: recordOf(record, this.settings.codec) };
  }
}

function recordIn<T>(found: Resolved<Record<T>>): Record<T> | undefined {
  return found.status === "live" ? found.record : undefined;
}
