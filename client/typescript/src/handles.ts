/** The handle store: what a server keeps between calls, under ids that the cluster mints. */

import { PAGE, PAGE_MAX } from "./limits.js";
import {
  infoOf, type PutOutcome, type Record, recordOf, type RecordInfo, resolved, type Resolved, stored,
  type TakeOutcome,
} from "./records.js";
import { unlessConflict } from "./steps.js";
import {
  items, type PageOptions, type PutOptions, type Settings, type Shape, Store,
} from "./store.js";
import { lifetime, type Lifetime } from "./ttl.js";
import * as wire from "./wire.js";

/** What names a store of handles, and how its values are kept. */
export interface HandleSettings<T> extends Settings<T> {
  readonly store: string;
  readonly idPrefix: string;
}

const HANDLES: Shape<PutOutcome> = {
  name: "id",
  pageMax: "handlesMax",
  list: wire.LIST,
  put: wire.PUT,
  outcome: stored,
};

/**
 * A store of values of type `T` under opaque ids (SEP-2567 state handles).
 *
 * Every method fails as those errors that its call can meet: UnavailableError, OverloadedError,
 * InvalidError, DeniedError and ClosedError always, AmbiguousError and FullError of writes.
 */
export class HandleStore<T> extends Store<T, HandleSettings<T>, PageOptions, PutOutcome> {
  protected readonly shape = HANDLES;

  /** Keeps a value under a new id: `prefix-` and 26 characters of base32, 128 random bits. */
  async mint(value: T, ttl: Lifetime = "default"): Promise<string> {
    return (await this.mintRecord(value, ttl)).name;
  }

  /** As `mint`, but answers all that is known of the new handle, its revision included. */
  async mintRecord(value: T, ttl: Lifetime = "default"): Promise<RecordInfo> {
    return infoOf((await this.call(wire.MINT, this.mintRequest(value, ttl))).info);
  }

  /**
   * Writes a value under an id of the caller's choosing.
   *
   * True if the handle existed and was replaced; false if it was created, and also if it has
   * expired or was taken and therefore nothing was written: `putIf` tells these apart.
   */
  async put(id: string, value: T, ttl: Lifetime = "default"): Promise<boolean> {
    const reply = await this.call(wire.PUT, this.putRequest(id, value, { ttl }));
    return stored(reply).status === "replaced";
  }

  /** The handle with its revision and times, or what became of it. Restarts the idle time. */
  async resolve(id: string): Promise<Resolved<Record<T>>> {
    return this.read(id);
  }

  /** Gets and deletes: of any number of callers one receives the value. */
  async take(id: string): Promise<Resolved<Record<T>>> {
    return this.found(await this.call(wire.TAKE, this.named(id)));
  }

  /** As `take`, if the handle's revision is `revision`: nothing is taken that was not seen. */
  async takeIf(id: string, revision: number): Promise<TakeOutcome<Record<T>>> {
    const taking = this.call(wire.TAKE, this.named(id, { ifRevision: revision }));
    return unlessConflict(taking.then((reply) => this.found(reply)));
  }

  /** Gives a handle a new lifetime. `"keep"` restarts only its idle time. */
  async renew(id: string, ttl: Lifetime = "default"): Promise<Resolved<RecordInfo>> {
    const reply = await this.call(wire.RENEW, this.renewRequest(id, { ttl }));
    return resolved(reply.status, () => infoOf(reply.info));
  }

  /** Deletes a handle; true if it lived. */
  async delete(id: string): Promise<boolean> {
    return (await this.call(wire.DELETE, this.named(id))).status === "HANDLE_STATUS_LIVE";
  }

  /** How many of the store's handles live, under its owner. */
  async count(): Promise<number> {
    return wire.integer((await this.call(wire.COUNT, this.scope())).live);
  }

  /**
   * Changes a value, and loses no other caller's change.
   *
   * Reads, calls `change`, writes if no other write came between, else begins again; keeps the
   * lifetime. `change` may be called several times: it must do nothing but compute. What it throws
   * is thrown, and then nothing is written. Answers the handle as written, or why there is none.
   * Throws ConflictError if others wrote first until the deadline ended.
   */
  async update(id: string, change: (value: T) => T): Promise<Resolved<Record<T>>> {
    return this.updated(id, false, (value) => change(value as T));
  }

  /** All handles without their values, page by page; each page is a view of its own. */
  list(page: number = PAGE_MAX): AsyncGenerator<RecordInfo, void, undefined> {
    return items((options) => this.listPage(options), page);
  }

  /** All handles with their values, page by page; each page is a view of its own. */
  scan(page: number = PAGE): AsyncGenerator<Record<T>, void, undefined> {
    return items((options) => this.listValuesPage(options), page);
  }

  /** The request of a mint, alone or in a transaction. */
  mintRequest(value: T, ttl: Lifetime): object {
    const { idPrefix } = this.settings;
    return { ...this.scope(), idPrefix, ...this.content(value, ttl) };
  }

  /** The request of a renewal, likewise. */
  renewRequest(id: string, { ttl = "default", ...condition }: PutOptions): object {
    return { ...this.named(id, condition), lifetime: lifetime(ttl, this.settings.defaults) };
  }

  protected override scope(): object {
    return { store: this.settings.store, ...super.scope() };
  }

  protected async read(id: string, until?: number): Promise<Resolved<Record<T>>> {
    return this.found(await this.call(wire.GET, this.named(id), until));
  }

  private found(reply: wire.StatusReply): Resolved<Record<T>> {
    return resolved(reply.status, () => recordOf(reply, this.settings.codec));
  }
}
