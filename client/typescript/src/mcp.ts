/** An event store for servers on the MCP TypeScript SDK, by the shape of its `EventStore`. */

import { toHex } from "./bytes.js";
import type { Client } from "./client.js";
import { HelveError, refused } from "./errors.js";
import { entropy } from "./identity.js";
import type { Keys } from "./keys.js";
import { type Owner, SHARED } from "./owner.js";
import type { Record } from "./records.js";
import { pages } from "./store.js";

/** What is kept of an event: as the Python client keeps it, so that both may serve a stream. */
interface Kept {
  readonly stream: string;
  /** Null: an event that primes a stream, and is not sent again. */
  readonly message: unknown;
}

/** Where events are kept, and for how long. */
export interface EventStoreOptions {
  /** Whose records the events are; all callers share them if not told otherwise. */
  readonly owner?: Owner | undefined;
  /** What the keys of events begin with: `events/` if not told. */
  readonly prefix?: string | undefined;
  /** How long an event lives, in milliseconds: an hour if not told. */
  readonly ttl?: number | undefined;
  /** Events that a stream keeps: 1,000 if not told. A few more may be there for a while. */
  readonly maxEventsPerStream?: number | undefined;
}

/**
 * Keeps the events of streams, so that clients that reconnect get what they missed.
 *
 * It loses no event, however many replicas write to one stream: each event is a record of its own,
 * and the order of the stream is that in which the cluster wrote them. An event whose answer is
 * lost is written once. A client may reconnect to another replica.
 *
 * The SDK names a stream by its request alone, so sessions that share a store share streams. Give
 * each session a store of its own by `scoped`. Ids of events hold 128 random bits, and tell nothing
 * to a client that was not sent them.
 */
export class EventStore {
  private readonly keys: Keys<Kept>;
  private readonly stored = new Map<string, number>();

  /** Stores of one owner and prefix are one. Throws InvalidError for a bound below 1. */
  constructor(
    private readonly client: Client,
    private readonly options: EventStoreOptions = {},
  ) {
    const { owner = SHARED, ttl = 3_600_000 } = options;
    this.keys = client.keys({ owner, defaultTtl: ttl });
    if (!(this.eventsMax >= 1)) {
      throw refused("BAD_REQUEST", "maxEventsPerStream must be at least 1");
    }
  }

  /** The same store for the streams of one session. */
  async scoped(session: string): Promise<EventStore> {
    const prefix = `${this.prefix}${await digest(session)}/`;
    return new EventStore(this.client, { ...this.options, prefix });
  }

  /** Keeps an event, and answers its id. An empty message primes a stream. */
  async storeEvent(streamId: string, message: object): Promise<string> {
    const [stream, number] = [await digest(streamId), toHex(entropy(16))];
    const isPrime = Object.keys(message).length === 0;
    const kept = { stream: streamId, message: isPrime ? null : message };
    await this.keys.put(`${this.prefix}${stream}/${number}`, kept);
    await this.trim(stream);
    return `${stream}.${number}`;
  }

  /** The stream of an event; undefined if there is no such event any more. */
  async getStreamIdForEventId(eventId: string): Promise<string | undefined> {
    return (await this.find(eventId))?.value.stream;
  }

  /**
   * Sends the events of a stream that follow one of them, in order, and answers the stream.
   *
   * Events that are stored meanwhile are left for the next time. Throws InvalidError if there is no
   * such event any more: what followed it may be gone, too.
   */
  async replayEventsAfter<M extends object = any>(
    lastEventId: string,
    { send }: { send: (eventId: string, message: M) => Promise<void> },
  ): Promise<string> {
    const last = await this.find(lastEventId);
    if (last === undefined) {
      throw refused("BAD_REQUEST", "there is no such event any more: begin a new stream");
    }
    const space = last.name.slice(0, last.name.lastIndexOf("/") + 1);
    const events = await this.following(space, last.revision);
    for (const { name, value } of events) {
      if (value.message === null) continue;
      await send(name.slice(this.prefix.length).replace("/", "."), value.message as M);
    }
    return last.value.stream;
  }

  private get prefix(): string {
    return this.options.prefix ?? "events/";
  }

  private get eventsMax(): number {
    return this.options.maxEventsPerStream ?? 1_000;
  }

  private async find(eventId: string): Promise<Record<Kept> | undefined> {
    if (!/^[0-9a-f]{32}\.[0-9a-f]{32}$/.test(eventId)) return undefined;
    return this.keys.getRecord(this.prefix + eventId.replace(".", "/"));
  }

  /**
   * The events behind a revision, in order.
   *
   * A later page is of a newer view, and may hold an event that follows one which an earlier page
   * missed. So the view of the first page bounds all: else the missed one would never be sent.
   */
  private async following(space: string, revision: number): Promise<Record<Kept>[]> {
    const found: Record<Kept>[] = [];
    let bound: number | undefined;
    for await (const page of pages((at) => this.keys.listValuesPage({ prefix: space, ...at }))) {
      const until = (bound ??= page.revision);
      found.push(
        ...page.items.filter((each) => each.revision > revision && each.revision <= until),
      );
    }
    return found.sort((one, other) => one.revision - other.revision);
  }

  /** Deletes what is beyond the bound, each time an eighth of it was stored here. */
  private async trim(stream: string): Promise<void> {
    const count = (this.stored.get(stream) ?? 0) + 1;
    // Streams end without a word.
    if (this.stored.size > 10_000) this.stored.clear();
    this.stored.set(stream, count);
    if (count % Math.max(Math.floor(this.eventsMax / 8), 1) !== 0) return;
    try {
      const kept = [];
      for await (const info of this.keys.list(`${this.prefix}${stream}/`)) kept.push(info);
      kept.sort((one, other) => one.revision - other.revision);
      for (const { name } of kept.slice(0, -this.eventsMax)) await this.keys.delete(name);
    } catch (error) {
      // The event is stored, and its id must reach the caller. What is left over expires, or is
      // deleted the next time.
      if (!(error instanceof HelveError)) throw error;
    }
  }
}

/** A part of a key, of 32 characters, that any text can be. */
async function digest(text: string): Promise<string> {
  const data = new TextEncoder().encode(text);
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", data))).slice(0, 32);
}
