/**
 * How values become bytes, and bytes become values again.
 *
 * A store keeps bytes alone, and does not know what wrote them: all that use a store of one name
 * must use one codec, clients in other languages included.
 */

import { decode, encode } from "./exact.js";

/** How values of one type are kept. Both methods throw CodecError for what they cannot do. */
export interface Codec<T> {
  /** The bytes that a value is kept as: at most 1 MiB. */
  encode(value: T): Uint8Array;
  /** The value that is kept as these bytes. */
  decode(data: Uint8Array): T;
}

/**
 * Values as JSON (RFC 8259): what a store does if not told otherwise.
 *
 * A value comes back as it was stored, or is refused. A stored integer beyond 2^53 is read as a
 * bigint, and is written as one. The type is what the caller says: it is not checked.
 */
export function json<T>(): Codec<T> {
  return { encode, decode: (data) => decode(data) as T };
}

/** Bytes as they are. */
export const raw: Codec<Uint8Array> = { encode: (value) => value, decode: (data) => data };
