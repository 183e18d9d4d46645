/**
 * JSON that comes back as it was stored, or is refused.
 *
 * `JSON.parse` reads 9007199254740993 as another number, and of two members of one name the last.
 * `JSON.stringify` writes NaN as null and leaves out functions. The rules here are those of the
 * other clients, so that what one client stores each of them reads.
 */

import { CodecError } from "./errors.js";
import { DEPTH_MAX } from "./limits.js";

/** Significant digits that tell every double from its neighbours. */
const DIGITS = 17;
/** Digits behind the first one that `toExponential` gives: more than decide how 17 are rounded. */
const EXACT_DIGITS = 100;
/** Levels that are read: a few more than are stored, as in the other clients. */
const DEPTH_READ_MAX = 127;
/** Characters of the longest integer that is a double, its sign included. */
const INTEGER_CHARS_MAX = 310;
const SHOWN_CHARS_MAX = 48;
const LEAST = -(2n ** 63n);
const GREATEST = 2n ** 64n - 1n;
const LONE_SURROGATE = /\p{Surrogate}/u;
const SCALAR = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null/y;
const DECIMAL = /^-?([0-9]+)(?:\.([0-9]+))?(?:[eE](.+))?$/;
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
    throw unexpected("it is no UTF-8", cause);
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
      if (fits(value)) return String(value);
      throw noForm(`the integer ${shown(value)} does not fit 64 bits: write it as a string`);
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
  if (fits(BigInt(value))) {
    const why = "may have lost digits, since it is beyond 2^53";
    throw noForm(`the integer ${value} ${why}: write it as a bigint`);
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
    const mark = this.text[this.at];
    if (mark === '"') return this.string();
    if (mark !== "{" && mark !== "[") return this.scalar();
    if (depth > DEPTH_READ_MAX) throw deep();
    return mark === "{" ? this.members(depth) : this.elements(depth);
  }

  private members(depth: number): object {
    const members = {};
    this.items("}", () => {
      this.skip();
      const name = this.string();
      if (Object.hasOwn(members, name)) {
        const what = `the name ${JSON.stringify(shown(name))} occurs twice in one object`;
        throw changed(`${what}: leave one out`);
      }
      if (!this.takes(":")) throw this.unexpected();
      const value = this.value(depth + 1);
      // An assignment to `__proto__` would set the prototype instead.
      const member = { value, configurable: true, enumerable: true, writable: true };
      Object.defineProperty(members, name, member);
    });
    return members;
  }

  private elements(depth: number): unknown[] {
    const elements: unknown[] = [];
    this.items("]", () => elements.push(this.value(depth + 1)));
    return elements;
  }

  /** Reads what is between brackets, each item by `item`. */
  private items(end: string, item: () => void): void {
    this.at += 1;
    if (this.takes(end)) return;
    do item();
    while (this.takes(","));
    if (!this.takes(end)) throw this.unexpected();
  }

  private string(): string {
    if (this.text[this.at] !== '"') throw this.unexpected();
    let end = this.at;
    do end = this.text.indexOf('"', end + 1);
    while (end > 0 && this.isEscaped(end));
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

  private scalar(): number | bigint | boolean | null {
    SCALAR.lastIndex = this.at;
    const [text] = SCALAR.exec(this.text) ?? [];
    if (text === undefined) throw this.unexpected();
    this.at += text.length;
    return /^[a-z]/.test(text) ? (JSON.parse(text) as boolean | null) : numberOf(text);
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
    return unexpected(`${what} at ${this.at}`);
  }
}

/**
 * A number, or a bigint where a number of that size would be refused when it is written.
 *
 * One with a fraction or an exponent is a double. An integer beyond 64 bits is read if it is
 * written as a double is.
 */
function numberOf(text: string): number | bigint {
  const near = Number(text);
  const isInteger = /^-?[0-9]+$/.test(text);
  if (isInteger && Number.isSafeInteger(near)) return near;
  if (isInteger && text.length <= INTEGER_CHARS_MAX) {
    const exact = BigInt(text);
    if (fits(exact) || namesDouble(text, near)) return exact;
  } else if (!isInteger && namesDouble(text, near)) {
    const isWide = Number.isInteger(near) && !Number.isSafeInteger(near);
    return isWide && fits(BigInt(near)) ? BigInt(near) : near;
  }
  const remedy = "write it as a string";
  throw changed(`the number ${shown(text)} is not how its double is written: ${remedy}`);
}

function fits(value: bigint): boolean {
  return value >= LEAST && value <= GREATEST;
}

/**
 * Whether a number is how a double is written: in its shortest form, or with 17 digits.
 *
 * Other numbers near a double are not that double, though they may have fewer digits: the nearest
 * double to 9007199254740993.0 is one less.
 */
function namesDouble(text: string, near: number): boolean {
  if (!Number.isFinite(near)) return false;
  const written = decimal(text);
  return written === decimal(String(near)) || written === decimal(with17Digits(near));
}

/**
 * The form with 17 digits, of two equally near the even one, as C and Python write it;
 * `toExponential(16)` has the greater one.
 */
function with17Digits(value: number): string {
  const [mantissa = "", exponent] = Math.abs(value).toExponential(EXACT_DIGITS).split("e");
  const digits = mantissa.replace(".", "");
  const [kept, rest] = [BigInt(digits.slice(0, DIGITS)), digits.slice(DIGITS)];
  // A tie has 18 digits. No other double is so near to one that it takes more than 100 to tell.
  const isUp = /^50*$/.test(rest) ? kept % 2n === 1n : rest >= "5";
  return `${isUp ? kept + 1n : kept}e${Number(exponent) - DIGITS + 1}`;
}

/** The one form of a number without its sign: its digits, and the power of ten of the last. */
function decimal(text: string): string {
  const [, whole = "", fraction = "", exponent = "0"] = DECIMAL.exec(text) ?? [];
  const digits = (whole + fraction).replace(/^0+/, "");
  // A pattern for zeros at the end takes quadratic time.
  let end = digits.length;
  while (digits[end - 1] === "0") end -= 1;
  const power = Number(exponent) - fraction.length + digits.length - end;
  return end === 0 ? "0" : `${digits.slice(0, end)}e${power}`;
}

function shown(value: string | bigint): string {
  return String(value).slice(0, SHOWN_CHARS_MAX);
}

function noForm(why: string): CodecError {
  return new CodecError(`the value would not come back as it is: ${why}`);
}

function changed(why: string): CodecError {
  return new CodecError(`the stored value would not come back as it is: ${why}`);
}

function unexpected(why: string, cause?: unknown): CodecError {
  return new CodecError(`the stored value is not the JSON that is expected: ${why}`, { cause });
}

function deep(): CodecError {
  return new CodecError(`arrays and objects lie more than ${DEPTH_MAX} deep within each other`);
}
