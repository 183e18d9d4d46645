/** What claims answer, and what they are about. */

import { toBase64 } from "./bytes.js";
import { encode } from "./exact.js";
import { refused } from "./errors.js";
import type { Lease } from "./claims.js";
import * as wire from "./wire.js";

/** Bytes of a digest. */
export const DIGEST_BYTES_MAX = 64;

/**
 * How a lease ended.
 *
 * - `"expired"`: by itself: its holder may have carried the side effect out, or not.
 * - `"abandoned"`: its holder abandoned it: it says that it did not carry the side effect out.
 * - `"finished"`: it was finished, and its result is forgotten: the side effect was carried out.
 */
export type LeaseEnd = "expired" | "abandoned" | "finished";

/** A lease of the same key that ended before. */
export interface EarlierLease {
  readonly end: LeaseEnd;
  /** Its number: what the side effect touches may know whether it saw it. */
  readonly fence: number;
  /** When it ended, in milliseconds since the Unix epoch on the cluster's clock. */
  readonly endedAtMs: number;
  /** Whether the side effect may have happened under it, or under one before it. */
  readonly mayHaveHappened: boolean;
}

/** Another caller has the lease. Ask again later: then it is done, or the key is free. */
export interface InFlight {
  readonly status: "inFlight";
  /** The number of that lease. */
  readonly fence: number;
  /** When the lease ends, in milliseconds since the Unix epoch on the cluster's clock. */
  readonly untilMs: number;
  /** How long the lease lasted on when the cluster answered, in milliseconds. */
  readonly leftMs: number;
  /** What its holder told. */
  readonly note: string;
}

/**
 * What a claim came to.
 *
 * - `"fresh"`: the caller has the lease. It carries the side effect out, and then finishes.
 *   `lease.earlier` says whether an earlier holder may have carried it out too.
 * - `"inFlight"`: another caller has the lease.
 * - `"done"`: the side effect was carried out, and this is its result. `untilMs` is when the result
 *   is forgotten, in milliseconds on the cluster's clock; undefined: never.
 * - `"otherDigest"`: the key is in flight or done for another digest, and so for another request.
 */
export type Claimed<T> =
  | { readonly status: "fresh"; readonly lease: Lease<T> }
  | InFlight
  | { readonly status: "done"; readonly result: T; readonly untilMs: number | undefined }
  | { readonly status: "otherDigest" };

const ENDS: { readonly [end: string]: LeaseEnd } = {
  LEASE_END_ABANDONED: "abandoned",
  LEASE_END_FINISHED: "finished",
};

/** What a fresh claim is told of the leases before. */
export function earlierOf(earlier: wire.EarlierLease | null | undefined): EarlierLease | undefined {
  if (earlier === null || earlier === undefined) return undefined;
  // An end that this version does not know rules nothing out either.
  const end = ENDS[earlier.end] ?? "expired";
  return {
    end,
    fence: wire.integer(earlier.fence),
    endedAtMs: Number(earlier.endedAtMs),
    mayHaveHappened: end !== "abandoned",
  };
}

/**
 * The digest of a request that has a JSON form: the same for the same request.
 *
 * It is the SHA-256 of the JSON with members in the order of their names, without spaces, and with
 * fractions as ECMAScript writes them. Clients in other languages make the same digest of the same
 * value. Rejects with CodecError what has no exact JSON form, as values of a store: NaN and
 * infinities among them.
 */
export async function digestOf(request: unknown): Promise<Uint8Array> {
  encode(request);
  const text = new TextEncoder().encode(ordered(request));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", text));
}

/** A value that `encode` takes, as JSON with members in the order of their names. */
function ordered(value: unknown): string {
  if (Array.isArray(value)) return `[${Array.from(value, ordered).join(",")}]`;
  // `encode` writes some doubles otherwise, for readers that tell them from integers.
  if (typeof value === "number") return String(value);
  if (typeof value !== "object" || value === null) return new TextDecoder().decode(encode(value));
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  members.sort(([one], [other]) => compared(one, other));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${ordered(member)}`).join(",")}}`;
}

/** By code points, as other languages compare: UTF-16 has another order beyond U+FFFF. */
function compared(one: string, other: string): number {
  const [left, right] = [Array.from(one), Array.from(other)];
  const length = Math.min(left.length, right.length);
  for (let at = 0; at < length; at += 1) {
    const difference = codeAt(left, at) - codeAt(right, at);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}

function codeAt(characters: readonly string[], at: number): number {
  return characters[at]?.codePointAt(0) ?? 0;
}

/** The digest as requests have it. Throws InvalidError (BAD_REQUEST). */
export function checkedDigest(digest: unknown): string {
  let why: string | undefined;
  if (!(digest instanceof Uint8Array)) why = `it is of type ${typeof digest}, not a Uint8Array`;
  else if (digest.length < 1 || digest.length > DIGEST_BYTES_MAX) {
    why = `it has ${digest.length} bytes, not 1 to ${DIGEST_BYTES_MAX}`;
  } else return toBase64(digest);
  const remedy = "Give a hash of the request, as of digestOf";
  throw refused("BAD_REQUEST", `the digest cannot be used: ${why}. ${remedy}`);
}
