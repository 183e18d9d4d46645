/** Several writes as one. */

import type { Cluster } from "./cluster.js";
import type { Codec } from "./codec.js";
import { InternalError } from "./errors.js";
import type { HandleStore } from "./handles.js";
import type { Keys } from "./keys.js";
import {
  infoOf, type NotLive, notLive, type Record, recordOf, type RecordInfo,
} from "./records.js";
import type { Condition, PutOptions } from "./store.js";
import type { Lifetime } from "./ttl.js";
import * as wire from "./wire.js";

/** One write of a transaction. */
export interface Ticket<T> {
  /** Its place, from 0: what `ConflictError.operation` and `Aborted.operation` name. */
  readonly operation: number;
  readonly codec: Codec<T>;
}

/** Every operation took effect. */
export class Committed {
  readonly status = "committed";

  constructor(
    /** The log index at which all of it took effect: the revision of everything it wrote. */
    readonly revision: number,
    private readonly replies: readonly wire.OperationReply[],
  ) {}

  /** The record after the write; of a take, as it was. Undefined of deletions. */
  info(ticket: Ticket<unknown>): RecordInfo | undefined {
    const { info } = this.reply(ticket);
    return info === null || info === undefined ? undefined : infoOf(info);
  }

  /** What a take took. Throws CodecError if the codec cannot read it. */
  taken<T>(ticket: Ticket<T>): Record<T> {
    return recordOf(this.reply(ticket), ticket.codec);
  }

  /** Of a put: the record was replaced, not created. Of a deleted key: there was one. */
  existed(ticket: Ticket<unknown>): boolean {
    return this.reply(ticket).status === "WRITE_STATUS_REPLACED";
  }

  private reply({ operation }: Ticket<unknown>): wire.OperationReply {
    const reply = this.replies[operation];
    if (reply === undefined) throw new InternalError(`no reply to operation ${operation}`);
    return reply;
  }
}

/** No operation took effect, because a handle does not live. */
export class Aborted {
  readonly status = "aborted";

  constructor(
    /** The first operation that could not take effect, from 0. */
    readonly operation: number,
    /** Why not. */
    readonly reason: NotLive,
  ) {}
}

/**
 * Writes to handles and keys that take effect together, at one revision, or not at all.
 *
 * At most 128, and 4 MiB; no handle and no key in two of them. Each method notes one write, and
 * answers the ticket under which `Committed` has its reply.
 */
export class Transaction {
  private readonly operations: object[] = [];

  /** Is made by `Client.transaction`. */
  constructor(
    private readonly cluster: Cluster,
    private readonly deadline: number,
  ) {}

  /** Keeps a value under a new id: the name of the reply's info. */
  mint<T>(store: HandleStore<T>, value: T, ttl: Lifetime = "default"): Ticket<T> {
    return this.note(store, { mint: store.mintRequest(value, ttl) });
  }

  /** Writes a value under an id. A handle that expired or was taken aborts the transaction. */
  put<T>(store: HandleStore<T>, id: string, value: T, options: PutOptions = {}): Ticket<T> {
    return this.note(store, { put: store.putRequest(id, value, options) });
  }

  /** Takes a handle; `Committed.taken` has its value. One that does not live aborts. */
  take<T>(store: HandleStore<T>, id: string, condition: Condition = {}): Ticket<T> {
    return this.note(store, { take: store.named(id, condition) });
  }

  /** Gives a handle a new lifetime. One that does not live aborts the transaction. */
  renew<T>(store: HandleStore<T>, id: string, options: PutOptions = {}): Ticket<T> {
    return this.note(store, { renew: store.renewRequest(id, options) });
  }

  /** Deletes a handle. One that does not live aborts the transaction. */
  delete<T>(store: HandleStore<T>, id: string, condition: Condition = {}): Ticket<T> {
    return this.note(store, { delete: store.named(id, condition) });
  }

  /** Stores a value under a key. */
  putKey<T>(keys: Keys<T>, key: string, value: T, options: PutOptions = {}): Ticket<T> {
    return this.note(keys, { store: keys.putRequest(key, value, options) });
  }

  /** Deletes a key; it need not exist. */
  deleteKey<T>(keys: Keys<T>, key: string, condition: Condition = {}): Ticket<T> {
    return this.note(keys, { deleteKey: keys.named(key, condition) });
  }

  /**
   * Makes it so, all or nothing.
   *
   * Answers `Aborted` if a handle does not live. Throws ConflictError, which names the operation,
   * if an `ifRevision` does not hold, and those errors that every write can meet.
   */
  async commit(): Promise<Committed | Aborted> {
    const { header, committed, aborted } = await this.cluster.call({
      method: wire.TRANSACT,
      request: { operations: this.operations },
      until: this.cluster.until(this.deadline),
    });
    if (committed) return new Committed(wire.integer(header.index), committed.replies);
    if (aborted) return new Aborted(aborted.operation, notLive(aborted.status));
    throw new InternalError("a reply without its result");
  }

  private note<T>({ settings }: HandleStore<T> | Keys<T>, operation: object): Ticket<T> {
    this.operations.push(operation);
    return { operation: this.operations.length - 1, codec: settings.codec };
  }
}
