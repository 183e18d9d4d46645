/** How long a record lives, as a caller says it. */

import { type HelveError, refused } from "./errors.js";
import type * as wire from "./wire.js";

/**
 * A time in milliseconds, on the cluster's clock, or one of:
 *
 * - `"default"`: what the store's options say: their `defaultTtl`, without one for ever.
 * - `"never"`: no deadline. An idle time of the options still ends the record.
 * - `"keep"`: the deadline and the idle time that the record has; the idle time starts again.
 */
export type Lifetime = number | "default" | "never" | "keep";

/** What a store's options say of lifetimes, in milliseconds. */
export interface Defaults {
  /** What `"default"` is; without it: for ever. */
  readonly defaultTtl?: number | undefined;
  /** Records that are neither read nor written for this long expire. */
  readonly idleTtl?: number | undefined;
}

/** What goes to the cluster. Throws InvalidError (BAD_LIFETIME). */
export function lifetime(ttl: Lifetime, { defaultTtl, idleTtl }: Defaults): wire.Lifetime {
  if (ttl === "keep") return { keep: {} };
  const span = ttl === "default" ? defaultTtl : ttl;
  const idle = idleTtl === undefined ? {} : { idleTtlMs: millis(idleTtl) };
  if (span === undefined || span === "never") return { never: {}, ...idle };
  return { afterMs: millis(span), ...idle };
}

/** Whole milliseconds, rounded up, so that a record never dies early. */
export function millis(span: unknown): string {
  if (typeof span !== "number" || Number.isNaN(span)) {
    throw bad(`${String(span)} is no lifetime: give milliseconds, or a name of one`);
  }
  if (span <= 0) {
    throw bad('a lifetime of zero: use "default" or "never", or delete the record');
  }
  const ms = Math.ceil(span);
  if (!Number.isSafeInteger(ms)) throw bad(`a lifetime of ${span} milliseconds: use "never"`);
  return String(ms);
}

function bad(message: string): HelveError {
  return refused("BAD_LIFETIME", message);
}
