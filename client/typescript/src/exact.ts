/**
 * JSON that comes back as it was stored, or is refused.
 *
 * `JSON.parse` reads 9007199254740993 as another number, and of two members of one name the last.
 * `JSON.stringify` writes NaN as null and leaves out functions. The rules here are those of the
 * other clients, so that what one client stores each of them reads.
 */

import { CodecError } from "./errors.js";
import { DEPTH_MAX } from "./limits.js";

/** Significant digits of a number with a fraction or an exponent: what names every double. */
const DIGITS_MAX = 17;
/** Levels that are read: a few more than are stored, as in the other clients. */
const DEPTH_READ_MAX = 127;
/** Characters of the longest integer that is a double, its sign included. */
const INTEGER_CHARS_MAX = 310;
const SHOWN_CHARS_MAX = 48;
const LEAST = -(2n ** 63n);
const GREATEST = 2n ** 64n - 1n;
const LONE_SURROGATE = /\p{Surrogate}/u;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const SPACE = /[ \t\n\r]*/y;

/** The value as JSON. Throws CodecError for what would not come back as it is. */
export function encode(value: unknown): Uint8Array {
  return new TextEncoder().encode(written(value, 1));
}

/** The value of JSON, exactly. Throws CodecError for what a parser would change. */
export function decode(data: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch (cause) {
    throw new CodecError("the stored value is not the JSON that is expected: it is no UTF-8", {
      cause,
    });
  }
  return new Parser(text).whole();
}

function written(value: unknown, depth: number): string {
  switch (typeof value) {
    case "string":
      return writtenText(value);
    case "number":
      return writtenNumber(value);
    case "boolean":
      return String(value);
    case "bigint":
      if (value >= LEAST && value <= GREATEST) return String(value);
      throw wide(String(value));
    case "object":
      break;
    default:
      throw noForm(`${typeof value} is no JSON: leave it out, or write null`);
  }
  if (value === null) return "null";
  if (depth > DEPTH_MAX) throw deep();
  if (Array.isArray(value)) {
    return `[${Array.from(value, (each) => written(each, depth + 1)).join(",")}]`;
  }
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) {
    const name = value.constructor?.name ?? "an object";
    throw noForm(`${name} would come back as another type: write plain JSON, or use a codec`);
  }
  const members: string[] = [];
  for (const [name, member] of Object.entries(value)) {
    // As in JSON.stringify: to read such a member gives undefined, before and after.
    if (member === undefined) continue;
    members.push(`${writtenText(name)}:${written(member, depth + 1)}`);
  }
  return `{${members.join(",")}}`;
}

function writtenText(text: string): string {
  if (LONE_SURROGATE.test(text)) throw noForm("a text has a lone surrogate");
  return JSON.stringify(text);
}

function writtenNumber(value: number): string {
  if (!Number.isFinite(value)) throw noForm(`${value} is no JSON`);
  if (Object.is(value, -0)) return "-0.0";
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return String(value);
  if (value >= -(2 ** 63) && value < 2 ** 64) {
    throw noForm(
      `the integer ${value} may have lost digits, since it is beyond 2^53: write it as a bigint`,
    );
  }
  // With an exponent it is a double for every reader.
  return value.toExponential();
}

class Parser {
  private at = 0;

  constructor(private readonly text: string) {}

  whole(): unknown {
    const value = this.value(1);
    this.skip();
    if (this.at < this.text.length) throw this.unexpected();
    return value;
  }

  private value(depth: number): unknown {
    this.skip();
    if (depth > DEPTH_READ_MAX + 1) throw deep();
    switch (this.text[this.at]) {
      case "{":
        return this.members(depth);
      case "[":
        return this.elements(depth);
      case '"':
        return this.string();
      case "t":
        return this.literal("true", true);
      case "f":
        return this.literal("false", false);
      case "n":
        return this.literal("null", null);
      default:
        return this.number();
    }
  }

  private members(depth: number): Record<string, unknown> {
    const members: Record<string, unknown> = {};
    this.at += 1;
    if (this.takes("}")) return members;
    do {
      this.skip();
      if (this.text[this.at] !== '"') throw this.unexpected();
      const name = this.string();
      if (Object.hasOwn(members, name)) {
        const shown = JSON.stringify(name.slice(0, SHOWN_CHARS_MAX));
        throw changed(`the name ${shown} occurs twice in one object: leave one out`);
      }
      if (!this.takes(":")) throw this.unexpected();
      const value = this.value(depth + 1);
      // An assignment to `__proto__` would set the prototype instead.
      Object.defineProperty(members, name, {
        value,
        configurable: true,
        enumerable: true,
        writable: true,
      });
    } while (this.takes(","));
    if (!this.takes("}")) throw this.unexpected();
    return members;
  }

  private elements(depth: number): unknown[] {
    const elements: unknown[] = [];
    this.at += 1;
    if (this.takes("]")) return elements;
    do elements.push(this.value(depth + 1));
    while (this.takes(","));
    if (!this.takes("]")) throw this.unexpected();
    return elements;
  }

  private string(): string {
    let end = this.at;
    do end = this.text.indexOf('"', end + 1);
    while (end > 0 && this.isEscaped(end));
    if (end < 0) throw this.unexpected();
    const raw = this.text.slice(this.at, end + 1);
    let value: string;
    try {
      value = JSON.parse(raw) as string;
    } catch {
      throw this.unexpected();
    }
    if (raw.includes("\\u") && LONE_SURROGATE.test(value)) {
      throw changed("a text has a lone surrogate");
    }
    this.at = end + 1;
    return value;
  }

  private isEscaped(at: number): boolean {
    let begin = at;
    while (this.text[begin - 1] === "\\") begin -= 1;
    return (at - begin) % 2 === 1;
  }

  private literal(text: string, value: boolean | null): boolean | null {
    if (!this.text.startsWith(text, this.at)) throw this.unexpected();
    this.at += text.length;
    return value;
  }

  private number(): number | bigint {
    NUMBER.lastIndex = this.at;
    const found = NUMBER.exec(this.text);
    if (found === null) throw this.unexpected();
    this.at = NUMBER.lastIndex;
    const [text = "", fraction, exponent] = found;
    return fraction === undefined && exponent === undefined ? integer(text) : double(text);
  }

  private takes(mark: string): boolean {
    this.skip();
    if (this.text[this.at] !== mark) return false;
    this.at += 1;
    return true;
  }

  private skip(): void {
    SPACE.lastIndex = this.at;
    SPACE.exec(this.text);
    this.at = SPACE.lastIndex;
  }

  private unexpected(): CodecError {
    const what = this.at < this.text.length ? "an unexpected character" : "its end";
    return new CodecError(
      `the stored value is not the JSON that is expected: ${what} at ${this.at}`,
    );
  }
}

/** A bigint if a number would be another integer. One beyond 64 bits is read if it is a double. */
function integer(text: string): number | bigint {
  const near = Number(text);
  if (Number.isSafeInteger(near)) return near;
  const exact = text.length > INTEGER_CHARS_MAX ? undefined : BigInt(text);
  const isHeld =
    exact !== undefined && ((exact >= LEAST && exact <= GREATEST) || exact === shortest(near));
  if (!isHeld) throw changed(tooManyDigits(text));
  return exact;
}

/** The integer that the shortest decimal form of a double is. */
function shortest(value: number): bigint | undefined {
  if (!Number.isFinite(value)) return undefined;
  const [mantissa = "", exponent = ""] = value.toExponential().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  return BigInt(whole + fraction) * 10n ** BigInt(Number(exponent) - fraction.length);
}

/** A fraction of at most 17 digits is the double that it names. */
function double(text: string): number {
  const value = Number(text);
  const [mantissa = ""] = text.split(/[eE]/);
  const digits = mantissa.replace(/[^0-9]/g, "").replace(/^0+|0+$/g, "");
  const isLost = value === 0 && digits !== "";
  if (!Number.isFinite(value) || isLost || digits.length > DIGITS_MAX) {
    throw changed(tooManyDigits(text));
  }
  return value;
}

function tooManyDigits(text: string): string {
  const shown = text.slice(0, SHOWN_CHARS_MAX);
  return `the number ${shown} has more digits than can be kept: write it as a string`;
}

function wide(text: string): CodecError {
  const shown = text.slice(0, SHOWN_CHARS_MAX);
  return noForm(`the integer ${shown} does not fit 64 bits: write it as a string`);
}

function noForm(why: string): CodecError {
  return new CodecError(`the value would not come back as it is: ${why}`);
}

function changed(why: string): CodecError {
  return new CodecError(`the stored value would not come back as it is: ${why}`);
}

function deep(): CodecError {
  return new CodecError(`arrays and objects lie more than ${DEPTH_MAX} deep within each other`);
}
