/** What reads and writes answer. */

import { ofBase64 } from "./bytes.js";
import type { Codec } from "./codec.js";
import { CodecError, InternalError } from "./errors.js";
import * as wire from "./wire.js";

/** What is known of a handle or key, apart from its value. */
export interface RecordInfo {
  /** The handle's id, or the key. */
  readonly name: string;
  /** The end user whose record it is; empty where all callers share it. */
  readonly owner: string;
  /** The log index of the last change of value: compare operand and fencing token. */
  readonly revision: number;
  /** Times in milliseconds since the Unix epoch, on the cluster's clock. */
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
  /** The absolute deadline; undefined: none. */
  readonly expiresAtMs: number | undefined;
  /** The idle time; undefined: none. */
  readonly idleTtlMs: number | undefined;
  /** When the record expires unless it is renewed; undefined: no idle time. */
  readonly idleDeadlineMs: number | undefined;
  /** Size of the value, in bytes. */
  readonly valueBytes: number;
}

/** A handle or a key, with its value. */
export interface Record<T> {
  /** The handle's id, or the key. */
  readonly name: string;
  /** The operand of `putIf` and the like. */
  readonly revision: number;
  readonly info: RecordInfo;
  readonly value: T;
}

/**
 * Why a handle does not live. To all but its owner it is unknown, by construction.
 *
 * - `"expired"`: its lifetime ended, less than a day ago.
 * - `"taken"`: its value was taken, less than a day ago.
 * - `"unknown"`: never minted, deleted, long gone, or another owner's.
 */
export type NotLive = "expired" | "taken" | "unknown";

/** What became of a handle; of a take, live means that this call took it. */
export type Resolved<R> =
  | { readonly status: "live"; readonly record: R }
  | { readonly status: NotLive };

/** What a write did to a record. */
export type Written = { readonly status: "created" | "replaced"; readonly info: RecordInfo };

/** The revision is another one, and nothing was written; 0: there is no such record. */
export type Conflicted = { readonly status: "conflict"; readonly revision: number };

/** What a conditional put of a key did. */
export type StoreOutcome = Written | Conflicted;
/** What a conditional put of a handle did. A handle that expired or was taken is not written. */
export type PutOutcome = StoreOutcome | { readonly status: "expired" | "taken" };
/** What a put did whose condition held, if it had one. */
export type SettledOutcome<O extends PutOutcome> = Exclude<O, Conflicted>;
/** What a conditional take of a handle did. */
export type TakeOutcome<R> = Resolved<R> | Conflicted;

/** A page of a list, all of it from one view. The next page is of a newer one. */
export interface Page<R> {
  /** The log index of the view: every change up to it is seen, none after it. */
  readonly revision: number;
  /** The cluster's clock of the view, in milliseconds since the Unix epoch. */
  readonly clockMs: number;
  /** What is listed, by name in the order of the bytes. */
  readonly items: readonly R[];
  /** The name behind which the next page begins; undefined if nothing follows. */
  readonly next: string | undefined;
}

/** What a reply says of a record. Throws InternalError if it says nothing. */
export function infoOf(info: wire.Info | null | undefined): RecordInfo {
  if (info === null || info === undefined) throw new InternalError("a reply without its info");
  // A deadline may lie beyond 2^53 ms, which is in the year 287,396: there it is rounded.
  const time = (text: string | null | undefined): number | undefined =>
    text === null || text === undefined ? undefined : Number(text);
  return {
    name: info.name,
    owner: info.owner,
    revision: wire.integer(info.revision),
    createdAtMs: wire.integer(info.createdAtMs),
    updatedAtMs: wire.integer(info.updatedAtMs),
    expiresAtMs: time(info.expiresAtMs),
    idleTtlMs: time(info.idleTtlMs),
    idleDeadlineMs: time(info.idleDeadlineMs),
    valueBytes: wire.integer(info.valueBytes),
  };
}

/** A record. Throws CodecError, which names it, if the codec cannot read its value. */
export function recordOf<T>(found: wire.Valued, codec: Codec<T>): Record<T> {
  const info = infoOf(found.info);
  const data = ofBase64(found.value ?? "");
  if (data === undefined) throw new InternalError("a reply whose value is no base64");
  let value: T;
  try {
    value = codec.decode(data);
  } catch (cause) {
    if (!(cause instanceof CodecError)) throw cause;
    throw new CodecError(`record ${JSON.stringify(info.name)}: ${cause.message}`, { cause });
  }
  return withValue(info, value);
}

/** A record of what is known of it, and its value. */
export function withValue<T>(info: RecordInfo, value: T): Record<T> {
  return { name: info.name, revision: info.revision, info, value };
}

/** Which of these words a status is, as "taken" of HANDLE_STATUS_TAKEN. Throws InternalError. */
function wordOf<W extends string>(status: string, prefix: string, words: readonly W[]): W {
  const found = words.find((word) => status === prefix + word.toUpperCase());
  if (found !== undefined) return found;
  throw new InternalError(`a status that this version does not know: ${status}`);
}

/** Why a handle does not live. */
export function notLive(status: string): NotLive {
  return wordOf(status, "HANDLE_STATUS_", ["expired", "taken", "unknown"]);
}

/** What became of a handle; `live` reads the record of one that lives. */
export function resolved<R>(status: string, live: () => R): Resolved<R> {
  if (status !== "HANDLE_STATUS_LIVE") return { status: notLive(status) };
  return { status: "live", record: live() };
}

/** What a reply to a put of a key says that it did. */
export function written({ status, info }: wire.StatusReply): Written {
  return { status: wordOf(status, "WRITE_STATUS_", ["created", "replaced"]), info: infoOf(info) };
}

/** What a reply to a put of a handle says that it did. */
export function stored(reply: wire.StatusReply): SettledOutcome<PutOutcome> {
  if (reply.status === "WRITE_STATUS_EXPIRED") return { status: "expired" };
  return reply.status === "WRITE_STATUS_TAKEN" ? { status: "taken" } : written(reply);
}

/** A page of what a reply holds; `item` reads each. */
export function pageOf<R>(reply: wire.ListReply, item: (found: wire.Valued) => R): Page<R> {
  const found = reply.handles ?? reply.records ?? [];
  const follows = reply.resumeToken !== undefined && reply.resumeToken !== "";
  return {
    revision: wire.integer(reply.header.index),
    clockMs: wire.integer(reply.header.clockMs),
    items: found.map(item),
    next: follows ? found[found.length - 1]?.info?.name : undefined,
  };
}
