// Bytes that others stored or a node sent, made up from seeds: read exactly, or refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CodecError } from "../dist/index.js";
import { decode, encode } from "../dist/exact.js";

const CASES = Number(process.env.HELVE_CASES ?? 10_000);
const PIECES = [
  "{", "}", "[", "]", ",", ":", '"a"', '"__proto__"', '"\\u0061"', '"\\ud800"', '"\\"', '"', "\\", " ", "\n", "0", "-0", "-",
  "1.5", "1e400", "4e-400", "9007199254740993", "18446744073709551616", "1e16", "null", "true", "nul", "\u00e9", "\u0000",
];

/** Numbers from 0 up to 1, the same ones for the same seed (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A text of JSON, though not always one that comes back as it is. */
function json(next, depth) {
  const pick = (all) => all[Math.floor(next() * all.length)];
  const several = (item) => Array.from({ length: Math.floor(next() * 4) }, item).join(",");
  const kind = depth > 3 ? 0 : Math.floor(next() * 4);
  if (kind === 1) return `[${several(() => json(next, depth + 1))}]`;
  if (kind === 2) return `{${several(() => `${pick(['"a"', '"b"', '"__proto__"', '"\\u0061"'])}:${json(next, depth + 1)}`)}}`;
  return pick(['"a"', '"\\n\\u00e9"', "null", "true", "0", "-1", "1.5", "1e3", "9007199254740993", "1e400", '"\\ud800"']);
}

/** What a text is read as; `undefined` if it is refused. */
function read(bytes) {
  try {
    return { value: decode(bytes) };
  } catch (error) {
    assert.ok(error instanceof CodecError, String(error?.stack));
    return undefined;
  }
}

function made(seed) {
  const next = random(seed);
  const encoder = new TextEncoder();
  const kind = Math.floor(next() * 3);
  if (kind === 0) return encoder.encode(json(next, 0));
  const length = Math.floor(next() * 12);
  if (kind === 1) return Uint8Array.from({ length }, () => next() * 256);
  return encoder.encode(Array.from({ length }, () => PIECES[Math.floor(next() * PIECES.length)]).join(""));
}

test("bytes that a client makes up are read as JSON is, or refused", () => {
  let held = 0;
  for (let seed = 0; seed < CASES; seed += 1) {
    const bytes = made(seed);
    const found = read(bytes);
    if (found === undefined) continue;
    held += 1;
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    assert.doesNotThrow(() => JSON.parse(text), `seed ${seed}: ${text}`);
    const again = read(encode(found.value));
    assert.deepStrictEqual(again, found, `seed ${seed}: ${text}`);
    const plain = JSON.stringify(found.value, (_, value) => (typeof value === "bigint" ? Number(value) : value));
    assert.strictEqual(plain, JSON.stringify(JSON.parse(text)), `seed ${seed}: ${text}`);
  }
  assert.ok(held > CASES / 10, `${held} of ${CASES} were read`);
});
