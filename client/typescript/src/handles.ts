/** The handle store: what a server keeps between calls, under ids that the cluster mints. */

import { toBase64 } from "./bytes.js";
import type { Cluster } from "./cluster.js";
import type { Codec } from "./codec.js";
import { PAGE, PAGE_MAX } from "./limits.js";
import { onWire, type Owner } from "./owner.js";
import { Pages, type PageOptions } from "./pages.js";
import {
  type Conflicted,
  infoOf,
  type Page,
  type PutOutcome,
  type Record,
  recordOf,
  type RecordInfo,
  resolved,
  type Resolved,
  stored,
  type TakeOutcome,
} from "./records.js";
import { rounds, unlessConflict } from "./steps.js";
import { type Defaults, lifetime, type Lifetime } from "./ttl.js";
import * as wire from "./wire.js";

/** What names a store of handles, and how its values are kept. */
export interface HandleSettings<T> {
  readonly store: string;
  readonly owner: Owner;
  readonly codec: Codec<T>;
  readonly idPrefix: string;
  readonly defaults: Defaults;
}

/**
 * A store of values of type `T` under opaque ids (SEP-2567 state handles).
 *
 * Every method fails as those errors that its call can meet: UnavailableError, OverloadedError,
 * InvalidError, DeniedError and ClosedError always, AmbiguousError and FullError of writes.
 */
export class HandleStore<T> {
  private readonly pages: Pages<T>;

  /** Is made by `Client.handles`. */
  constructor(
    private readonly cluster: Cluster,
    private readonly deadline: number,
    readonly settings: HandleSettings<T>,
  ) {
    this.pages = new Pages(cluster, deadline, wire.LIST, "handlesMax", settings.codec);
  }

  /** The same store for another end user; it shares nothing with this one but the client. */
  forOwner(owner: Owner): HandleStore<T> {
    return new HandleStore(this.cluster, this.deadline, { ...this.settings, owner });
  }

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
    const reply = await this.call(wire.PUT, this.putRequest(id, value, ttl));
    return stored(reply).status === "replaced";
  }

  /**
   * Writes a value if the handle's revision is `revision`; 0: if there is no such handle.
   *
   * A conflict is an outcome here, no error.
   */
  async putIf(
    id: string,
    value: T,
    revision: number,
    ttl: Lifetime = "default",
  ): Promise<PutOutcome> {
    return this.write(id, value, revision, ttl, this.until());
  }

  /** Writes a value if there is no such handle. */
  async putIfAbsent(id: string, value: T, ttl: Lifetime = "default"): Promise<PutOutcome> {
    return this.putIf(id, value, 0, ttl);
  }

  /** The value, if the handle lives. Restarts the idle time. */
  async get(id: string): Promise<T | undefined> {
    const found = await this.resolve(id);
    return found.status === "live" ? found.record.value : undefined;
  }

  /** The handle with its revision and times, or what became of it. Restarts the idle time. */
  async resolve(id: string): Promise<Resolved<Record<T>>> {
    return this.read(id, this.until());
  }

  /** Gets and deletes: of any number of callers one receives the value. */
  async take(id: string): Promise<Resolved<Record<T>>> {
    return this.taken(await this.call(wire.TAKE, this.named(id)));
  }

  /** As `take`, if the handle's revision is `revision`: nothing is taken that was not seen. */
  async takeIf(id: string, revision: number): Promise<TakeOutcome<Record<T>>> {
    const request = this.named(id, revision);
    const taking = this.call(wire.TAKE, request).then((reply) => this.taken(reply));
    return unlessConflict(taking);
  }

  /** Gives a handle a new lifetime. `"keep"` restarts only its idle time. */
  async renew(id: string, ttl: Lifetime = "default"): Promise<Resolved<RecordInfo>> {
    const reply = await this.call(wire.RENEW, this.renewRequest(id, ttl));
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
    const until = this.until();
    return rounds<Resolved<Record<T>>>(this.cluster, until, async () => {
      const found = await this.read(id, until);
      if (found.status !== "live") return { answer: found };
      const value = change(found.record.value);
      const outcome = await this.write(id, value, found.record.revision, "keep", until);
      if (outcome.status === "conflict") return { lostTo: outcome.revision };
      if (!("info" in outcome)) return { answer: outcome };
      const { info } = outcome;
      const record = { name: info.name, revision: info.revision, info, value };
      return { answer: { status: "live", record } };
    });
  }

  /** A page of the live handles under the store's owner, by id. Does not restart idle times. */
  async listPage(options: PageOptions = {}): Promise<Page<RecordInfo>> {
    return this.pages.infos(this.scope(), options);
  }

  /** As `listPage`, with the values: fewer of them where one reply cannot hold all. */
  async listValuesPage(options: PageOptions = {}): Promise<Page<Record<T>>> {
    return this.pages.values(this.scope(), options);
  }

  /** All handles without their values, page by page; each page is a view of its own. */
  list(page: number = PAGE_MAX): AsyncGenerator<RecordInfo, void, undefined> {
    return this.pages.all((options) => this.listPage(options), page);
  }

  /** All handles with their values, page by page; each page is a view of its own. */
  scan(page: number = PAGE): AsyncGenerator<Record<T>, void, undefined> {
    return this.pages.all((options) => this.listValuesPage(options), page);
  }

  /** The request of a mint, alone or in a transaction. */
  mintRequest(value: T, ttl: Lifetime): object {
    const { idPrefix } = this.settings;
    return { ...this.scope(), idPrefix, ...this.content(value, ttl) };
  }

  /** The request of a put, likewise. */
  putRequest(id: string, value: T, ttl: Lifetime, ifRevision?: number): object {
    return { ...this.named(id, ifRevision), ...this.content(value, ttl) };
  }

  /** The request of a renewal, likewise. */
  renewRequest(id: string, ttl: Lifetime, ifRevision?: number): object {
    return { ...this.named(id, ifRevision), lifetime: lifetime(ttl, this.settings.defaults) };
  }

  /** The request of a take or a deletion, likewise. */
  named(id: string, ifRevision?: number): object {
    const condition = ifRevision === undefined ? {} : { ifRevision: String(ifRevision) };
    return { ...this.scope(), id, ...condition };
  }

  private scope(): { store: string; owner: string } {
    return { store: this.settings.store, owner: onWire(this.settings.owner) };
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

  private async read(id: string, until: number): Promise<Resolved<Record<T>>> {
    const reply = await this.cluster.call(wire.GET, this.named(id), until);
    return resolved(reply.status, () => recordOf(reply, this.settings.codec));
  }

  private write(
    id: string,
    value: T,
    revision: number,
    ttl: Lifetime,
    until: number,
  ): Promise<PutOutcome | Conflicted> {
    const request = this.putRequest(id, value, ttl, revision);
    return unlessConflict(this.cluster.call(wire.PUT, request, until).then(stored));
  }

  private taken(reply: wire.StatusReply): Resolved<Record<T>> {
    return resolved(reply.status, () => recordOf(reply, this.settings.codec));
  }
}
