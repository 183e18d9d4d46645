/** What stores of handles and of keys have in common. */

import { toBase64 } from "./bytes.js";
import type { Cluster } from "./cluster.js";
import type { Codec } from "./codec.js";
import { InvalidError } from "./errors.js";
import { PAGE, PAGE_MAX } from "./limits.js";
import { onWire, type Owner } from "./owner.js";
import {
  infoOf, type Page, pageOf, type PutOutcome, type Record, recordOf, type RecordInfo, type Resolved,
  type SettledOutcome, withValue,
} from "./records.js";
import { rounds, unlessConflict } from "./steps.js";
import { type Defaults, lifetime, type Lifetime } from "./ttl.js";
import type * as wire from "./wire.js";

/** A condition of a write. */
export interface Condition {
  /** The write holds only if the record's revision is this one; 0: if there is no such record. */
  readonly ifRevision?: number | undefined;
}

/** A condition and a lifetime of a write. */
export interface PutOptions extends Condition {
  readonly ttl?: Lifetime | undefined;
}

/** Which records a page has. */
export interface PageOptions {
  /** Begins behind this name; it need not exist. */
  readonly after?: string | undefined;
  /** At most this many; 100 if not told, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** Whose records they are, and how their values are kept. */
export interface Settings<T> {
  readonly owner: Owner;
  readonly codec: Codec<T>;
  readonly defaults: Defaults;
}

/** What the calls of a store are on the wire. */
export interface Shape<O extends PutOutcome> {
  /** The field of requests that names a record. */
  readonly name: "id" | "key";
  /** The field of requests that bounds a page. */
  readonly pageMax: "handlesMax" | "keysMax";
  readonly list: wire.Method<wire.ListReply>;
  readonly put: wire.Method<wire.StatusReply>;
  /** What a reply to a put says that it did. */
  readonly outcome: (reply: wire.StatusReply) => SettledOutcome<O>;
}

/** A store of values of type `T`: `S` its settings, `P` what selects a page, `O` what puts do. */
export abstract class Store<
  T, S extends Settings<T>, P extends PageOptions, O extends PutOutcome,
> {
  protected abstract readonly shape: Shape<O>;

  /** Is made by a method of `Client`. */
  constructor(
    protected readonly cluster: Cluster,
    private readonly deadline: number,
    readonly settings: S,
  ) {}

  /** The same store for another end user; it shares nothing with this one but the client. */
  forOwner(owner: Owner): this {
    const other = Object.create(Object.getPrototypeOf(this) as object) as this;
    return Object.assign(other, this, { settings: { ...this.settings, owner } });
  }

  /** The value, if there is such a record. Restarts the idle time. */
  async get(name: string): Promise<T | undefined> {
    const found = await this.read(name);
    return found.status === "live" ? found.record.value : undefined;
  }

  /**
   * Writes a value if the record's revision is `revision`; 0: if there is no such record.
   *
   * A conflict is an outcome here, no error.
   */
  async putIf(name: string, value: T, revision: number, ttl: Lifetime = "default"): Promise<O> {
    return this.write(name, value, { ifRevision: revision, ttl });
  }

  /** Writes a value if there is no such record. */
  async putIfAbsent(name: string, value: T, ttl: Lifetime = "default"): Promise<O> {
    return this.putIf(name, value, 0, ttl);
  }

  /** A page of the live records of the owner, by name, without values. Restarts no idle time. */
  async listPage(options?: P): Promise<Page<RecordInfo>> {
    return this.page(options, false, (found) => infoOf(found.info));
  }

  /** As `listPage`, with the values: fewer of them where one reply cannot hold all. */
  async listValuesPage(options?: P): Promise<Page<Record<T>>> {
    return this.page(options, true, (found) => recordOf(found, this.settings.codec));
  }

  /** The request of a put, alone or in a transaction. */
  putRequest(name: string, value: T, { ttl = "default", ifRevision }: PutOptions = {}): object {
    return { ...this.named(name, { ifRevision }), ...this.content(value, ttl) };
  }

  /** The request of a take or a deletion, likewise. */
  named(name: string, { ifRevision }: Condition = {}): object {
    return { ...this.scope(), [this.shape.name]: name, ifRevision: ifRevision?.toString() };
  }

  /** What the requests of all calls say. */
  protected scope(): object {
    return { owner: onWire(this.settings.owner) };
  }

  /** The value and the lifetime of a write. */
  protected content(value: T, ttl: Lifetime): object {
    const { codec, defaults } = this.settings;
    return { value: toBase64(codec.encode(value)), lifetime: lifetime(ttl, defaults) };
  }

  protected until(): number {
    return this.cluster.until(this.deadline);
  }

  protected call<R extends wire.Reply>(
    method: wire.Method<R>,
    request: object,
    until: number = this.until(),
  ): Promise<R> {
    return this.cluster.call({ method, request, until });
  }

  /** The record, or what became of it. */
  protected abstract read(name: string, until?: number): Promise<Resolved<Record<T>>>;

  /**
   * Reads, calls `change`, and writes, until no other write came between. A record that does not
   * live is created if `creates` says so; else the answer is what became of it.
   */
  protected async updated(
    name: string,
    creates: boolean,
    change: (value: T | undefined) => T,
  ): Promise<Resolved<Record<T>>> {
    const until = this.until();
    return rounds<Resolved<Record<T>>>(this.cluster, until, async () => {
      const found = await this.read(name, until);
      const isLive = found.status === "live";
      if (!isLive && !creates) return { answer: found };
      const { value: before, revision } = isLive ? found.record : { value: undefined, revision: 0 };
      const value = change(before);
      const options: PutOptions = { ifRevision: revision, ttl: isLive ? "keep" : "default" };
      const outcome: PutOutcome = await this.write(name, value, options, until);
      if (outcome.status === "conflict") return { lostTo: outcome.revision };
      if (!("info" in outcome)) return { answer: outcome };
      return { answer: { status: "live", record: withValue(outcome.info, value) } };
    });
  }

  private write(name: string, value: T, options: PutOptions, until?: number): Promise<O> {
    const { put, outcome } = this.shape;
    const written = this.call(put, this.putRequest(name, value, options), until).then(outcome);
    return unlessConflict(written) as Promise<O>;
  }

  private async page<R>(
    { after = "", limit = PAGE, ...filter }: PageOptions = {},
    withValues: boolean,
    item: (found: wire.Valued) => R,
  ): Promise<Page<R>> {
    const { list, pageMax } = this.shape;
    const until = this.until();
    let count = Math.min(Math.max(Math.floor(limit), 1), PAGE_MAX);
    for (;;) {
      const request = { ...this.scope(), ...filter, withValues, after, [pageMax]: String(count) };
      try {
        return pageOf(await this.call(list, request, until), item);
      } catch (error) {
        const isTooLarge = error instanceof InvalidError && error.reason === "TOO_LARGE";
        if (!isTooLarge || !withValues || count === 1) throw error;
        count = Math.ceil(count / 4);
      }
    }
  }
}

/** All pages, one after the other; `page` gets one. */
export async function* pages<P extends Page<unknown>>(
  page: (options: PageOptions) => Promise<P>,
  limit: number = PAGE_MAX,
): AsyncGenerator<P, void, undefined> {
  let after: string | undefined;
  do {
    const found: P = await page({ after, limit });
    yield found;
    after = found.next;
  } while (after !== undefined);
}

/** The items of all pages. */
export async function* items<R>(
  page: (options: PageOptions) => Promise<Page<R>>,
  limit: number,
): AsyncGenerator<R, void, undefined> {
  for await (const found of pages(page, limit)) yield* found.items;
}
