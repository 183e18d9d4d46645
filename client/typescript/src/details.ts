/** The details of an error: `google.rpc.ErrorInfo` and `google.rpc.RetryInfo`, as protobuf. */

import { ofBase64 } from "./bytes.js";

const DOMAIN = "helve.v1";
/** Bytes of a varint of 64 bits. */
const VARINT_BYTES_MAX = 10;

/** What the cluster says of a failed call. */
export interface Details {
  /** A reason that this version may not know; undefined: it is not the cluster that speaks. */
  readonly reason: string | undefined;
  readonly metadata: ReadonlyMap<string, string>;
  /** How long the answer asks to be left alone, in milliseconds; 0: it does not ask. */
  readonly pauseMs: number;
}

const NONE: Details = { reason: undefined, metadata: new Map(), pauseMs: 0 };

/** Reads the `details` of an error of the Connect protocol. What no node sends is left aside. */
export function readDetails(given: unknown): Details {
  if (!Array.isArray(given)) return NONE;
  let found = NONE;
  for (const detail of given as unknown[]) {
    const { type, value } = (detail ?? {}) as { type?: unknown; value?: unknown };
    const data = typeof value === "string" ? ofBase64(value) : undefined;
    if (data === undefined) continue;
    try {
      if (type === "google.rpc.ErrorInfo") found = { ...found, ...errorInfo(data) };
      if (type === "google.rpc.RetryInfo") found = { ...found, pauseMs: retryDelay(data) };
    } catch (error) {
      if (!(error instanceof Malformed)) throw error;
      return NONE;
    }
  }
  return found;
}

/** Bytes that are not protobuf. It never leaves this file. */
class Malformed extends Error {}

type Field = readonly [number: number, value: Uint8Array | number];

function errorInfo(data: Uint8Array): Pick<Details, "reason" | "metadata"> {
  let [reason, domain] = ["", ""];
  const metadata = new Map<string, string>();
  for (const [number, value] of fields(data)) {
    if (number === 1) reason = text(value);
    if (number === 2) domain = text(value);
    if (number === 3) {
      const entry = new Map(fields(bytes(value)));
      metadata.set(text(entry.get(1)), text(entry.get(2)));
    }
  }
  return domain === DOMAIN ? { reason, metadata } : { reason: undefined, metadata: new Map() };
}

function retryDelay(data: Uint8Array): number {
  const parts = new Map(fields(bytes(new Map(fields(data)).get(1))));
  const [seconds, nanos] = [parts.get(1) ?? 0, parts.get(2) ?? 0];
  if (typeof seconds !== "number" || typeof nanos !== "number") throw new Malformed();
  return seconds * 1_000 + nanos / 1e6;
}

/** The fields of a message, the last of each number last. */
function fields(data: Uint8Array): Field[] {
  const found: Field[] = [];
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let count = 0; count < VARINT_BYTES_MAX; count += 1) {
      const byte = data[at];
      if (byte === undefined) break;
      at += 1;
      value += (byte & 0x7f) * 2 ** (7 * count);
      if (byte < 0x80) return value;
    }
    throw new Malformed();
  };
  while (at < data.length) {
    const tag = varint();
    const [number, kind] = [Math.floor(tag / 8), tag % 8];
    if (kind === 0) {
      found.push([number, varint()]);
      continue;
    }
    const length = kind === 2 ? varint() : kind === 1 ? 8 : kind === 5 ? 4 : NaN;
    if (!(length <= data.length - at)) throw new Malformed();
    found.push([number, data.subarray(at, at + length)]);
    at += length;
  }
  return found;
}

/** Bytes of a field; none if it is left out. */
function bytes(value: Uint8Array | number = new Uint8Array()): Uint8Array {
  if (typeof value === "number") throw new Malformed();
  return value;
}

function text(value?: Uint8Array | number): string {
  return new TextDecoder().decode(bytes(value));
}
