// JSON that comes back as it was stored, or is refused.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CodecError } from "../dist/index.js";
import { decode, encode } from "../dist/exact.js";

const text = (value) => new TextDecoder().decode(encode(value));
const read = (json) => decode(new TextEncoder().encode(json));

test("an integer beyond 2^53 is a bigint, read and written", () => {
  assert.strictEqual(read("9007199254740991"), 9007199254740991);
  assert.strictEqual(read("-9007199254740992"), -9007199254740992n);
  assert.strictEqual(read("9007199254740993"), 9007199254740993n);
  assert.strictEqual(text(9007199254740993n), "9007199254740993");
  assert.strictEqual(text(18446744073709551615n), "18446744073709551615");
  assert.deepStrictEqual(read('{"id":9007199254740993}'), { id: 9007199254740993n });
});

test("a number that may have lost digits is refused", () => {
  for (const value of [2 ** 53, -(2 ** 53), 9007199254740993, 1e18, -(2 ** 63), 18446744073709549568]) {
    assert.throws(() => encode({ id: value }), /write it as a bigint/, String(value));
  }
  for (const value of [2n ** 64n, -(2n ** 63n) - 1n]) {
    assert.throws(() => encode(value), /64 bits: write it as a string/);
  }
});

test("a whole double from 2^53 up to 2^64 is read as a bigint", () => {
  for (const [json, value] of [
    ["9007199254740992.0", 9007199254740992n],
    ["1e18", 10n ** 18n],
    ["-1.2345678901234566e17", -BigInt(1.2345678901234566e17)],
    ["-9.2233720368547758e18", -(2n ** 63n)],
  ]) {
    assert.strictEqual(read(json), value);
    assert.strictEqual(text(value), String(value));
    assert.strictEqual(Number(value), Number(json));
  }
  assert.strictEqual(read("1.8446744073709552e19"), 2 ** 64);
  assert.strictEqual(read("9007199254740991.0"), 2 ** 53 - 1);
});

test("a double is kept in its two forms, and nothing else near it", () => {
  let seed = 11;
  const draw = () => (seed = (seed * 48_271) % 2_147_483_647);
  const view = new DataView(new ArrayBuffer(8));
  // Those that end in a tie are below.
  const isTie = (value) => /\.\d{16}50*e/.test(value.toExponential(60));
  for (let round = 0; round < 4_000; round += 1) {
    view.setUint32(0, draw() * 2 + (round % 2));
    view.setUint32(4, draw() * 2 + (draw() % 2));
    const value = view.getFloat64(0);
    if (!Number.isFinite(value) || isTie(value)) continue;
    const long = value.toExponential(16);
    for (const json of [String(value), value.toExponential(), long]) {
      assert.equal(Number(read(json)), value, json);
    }
    const [digits, exponent] = long.split("e");
    for (const last of "0123456789") {
      const other = `${digits.slice(0, -1)}${last}e${exponent}`;
      const near = Number(other);
      if (isTie(near)) continue;
      const short = near.toExponential().replace(/(?:\.(\d+))?e/, (_, rest = "") => `.${rest.padEnd(16, "0")}e`);
      if ([near.toExponential(16), short].includes(other)) assert.equal(Number(read(other)), near);
      else assert.throws(() => read(other), CodecError, other);
    }
  }
  // Of 17 digits that end in a tie the even one counts, as in C and Python.
  for (const [even, odd] of [
    ["9.0000076293945312", "9.0000076293945313"],
    ["-9.0000228881835938", "-9.0000228881835937"],
  ]) {
    assert.equal(read(even), Number(odd));
    assert.throws(() => read(odd), CodecError);
  }
});

test("numbers of any length are read in linear time", () => {
  const zeros = "0".repeat(1 << 20);
  assert.equal(read(`1.${zeros}`), 1);
  assert.equal(read(`0.${zeros}1e${zeros.length + 1}`), 1);
  assert.ok(Object.is(read("-0e999999999999999999999"), -0));
  for (const json of [
    `1.${zeros}1`, `1${zeros}`, `1${zeros}.5`, "1e999999999999999999999", "1e-999999999999999999999",
  ]) {
    assert.throws(() => read(json), CodecError);
  }
});

test("a double that is no integer of 64 bits is written with an exponent", () => {
  assert.strictEqual(text(2 ** 64), "1.8446744073709552e+19");
  assert.strictEqual(text(1e20), "1e+20");
  assert.strictEqual(read(text(1e20)), 1e20);
  assert.ok(Object.is(read(text(-0)), -0));
});

test("what JSON would drop or change is refused", () => {
  class Cart {}
  const refused = [
    NaN, Infinity, () => 1, Symbol("s"), [undefined], [, 1], new Date(0), new Map(),
    new Set(), new Uint8Array(1), new Cart(), "\ud800", { "\udc00": 1 }, /x/, new Error("e"),
  ];
  for (const value of refused) {
    assert.throws(() => encode({ value }), CodecError, value.constructor?.name);
  }
  assert.throws(() => encode(undefined), /undefined is no JSON/);
  const itself = [];
  itself.push(itself);
  assert.throws(() => encode(itself), /more than 100 deep/);
});

test("a member that is undefined is left out", () => {
  assert.strictEqual(text({ a: undefined, b: [null] }), '{"b":[null]}');
});

test("a member named __proto__ is a member", () => {
  const value = read('{"__proto__":{"admin":true},"a":1}');
  assert.deepStrictEqual(Object.keys(value), ["__proto__", "a"]);
  assert.strictEqual(value.admin, undefined);
  assert.strictEqual(Object.getPrototypeOf(value), Object.prototype);
  assert.strictEqual(text(value), '{"__proto__":{"admin":true},"a":1}');
});

test("texts come back as they are, whatever is in them", () => {
  for (const value of ["", '"\\', "\\\\", "\u2028\u0000\n", "\ud83d\ude00", "</script>", "\ufeff", "é".repeat(9)]) {
    assert.strictEqual(read(text(value)), value);
    assert.deepStrictEqual(read(text({ [value]: value })), { [value]: value });
  }
});

test("what is no JSON is refused, with the place", () => {
  const broken = [
    "[1,]", '{"a":1,}', "01", "1.", ".5", "+1", "-", "tru", "nul", '"\n"', '"\\x"', '"', "{1:2}",
    '{"a" 1}', "[1 2]", "[", "]", "\u00a01", "1e", "'a'", "undefined", "\ufeff1",
  ];
  for (const json of broken) assert.throws(() => read(json), CodecError, json);
  assert.throws(() => read("[1,x]"), /an unexpected character at 3/);
  assert.throws(() => decode(Uint8Array.of(0x22, 0xff, 0x22)), /no UTF-8/);
});

test("JSON is read as the platform reads it, wherever both do", () => {
  let seed = 7;
  const draw = (below) => (seed = (seed * 48_271) % 2_147_483_647) % below;
  const make = (depth) => {
    const kind = draw(depth > 4 ? 5 : 7);
    if (kind === 0) return draw(1000) - 500;
    if (kind === 1) return draw(1_000_000_000) / (1 + draw(997));
    if (kind === 2) return String.fromCodePoint(...Array.from({ length: draw(6) }, () => draw(0xd7ff)));
    if (kind === 3) return [true, false, null][draw(3)];
    if (kind === 4) return 10 ** -draw(300);
    if (kind === 5) return Array.from({ length: draw(5) }, () => make(depth + 1));
    return Object.fromEntries(Array.from({ length: draw(5) }, () => [`k${draw(99)}`, make(depth + 1)]));
  };
  for (let round = 0; round < 2_000; round += 1) {
    const value = make(0);
    const spaced = JSON.stringify(value, null, draw(3));
    assert.deepStrictEqual(read(spaced), JSON.parse(spaced));
    assert.deepStrictEqual(JSON.parse(text(value)), JSON.parse(JSON.stringify(value)));
  }
});
