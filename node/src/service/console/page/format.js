// Numbers, sizes and times the way people read them.

const GROUPED = new Intl.NumberFormat("en");
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** A count, with separators. Integers of 64 bits come as text, and more than 2^53 are kept whole. */
export function count(number) {
  if (number === undefined || number === null || number === "") return "–";
  const text = String(number);
  return /^-?\d+$/.test(text) ? GROUPED.format(BigInt(text)) : text;
}

/** Bytes in the largest unit of which there is one. */
export function bytes(number) {
  if (number === undefined || number === null) return "–";
  let size = Number(number);
  let unit = 0;
  while (size >= 1024 && unit + 1 < UNITS.length) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return `${size.toFixed(digits)} ${UNITS[unit]}`;
}

/** A time, in the reader's zone, to the second. */
export function time(ms) {
  const number = Number(ms);
  if (!number) return "–";
  const at = new Date(number);
  const two = (part) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

const SPANS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

/** Milliseconds in at most two units. */
export function span(ms) {
  const left = Math.max(0, Number(ms));
  const first = SPANS.findIndex(([, size]) => left >= size);
  if (first < 0) return `${Math.round(left)} ms`;
  const [unit, size] = SPANS[first];
  const head = `${Math.floor(left / size)} ${unit}`;
  const next = SPANS[first + 1];
  const rest = next ? Math.floor((left % size) / next[1]) : 0;
  return rest > 0 ? `${head} ${rest} ${next[0]}` : head;
}

/** How long until a time, by the cluster's clock. */
export function until(ms, clockMs) {
  const left = Number(ms) - Number(clockMs);
  return left > 0 ? `in ${span(left)}` : "now";
}

/** A word of the contract, such as HANDLE_STATUS_LIVE, without its beginning. */
export const word = (name, beginning) =>
  String(name || "").replace(beginning, "").toLowerCase().replaceAll("_", " ");

/** Deeper levels are indented no further, so that what is shown stays in proportion to what is stored. */
const INDENTED_LEVELS = 32;

/** JSON with other white space between its tokens. Each token stays as it is stored: a number with all its digits, a name that comes twice. */
export function indented(json) {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) || [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENTED_LEVELS))}`;
  const shown = tokens.map((token, at) => {
    switch (token) {
      case "{":
      case "[":
        depth += 1;
        return "}]".includes(tokens[at + 1]) ? token : token + line();
      case "}":
      case "]":
        depth -= 1;
        return "{[".includes(tokens[at - 1]) ? token : line() + token;
      case ",": return token + line();
      case ":": return `${token} `;
      default: return token;
    }
  });
  return shown.join("");
}

const SHOWN_BYTES = 64 * 1024;

/** A value in base64 as people read it: its kind and its text, at most 64 KiB of it. */
export function value(base64) {
  const raw = atob(base64 || "");
  const all = Uint8Array.from(raw, (char) => char.charCodeAt(0));
  const shown = all.subarray(0, SHOWN_BYTES);
  const more = all.length > shown.length ? `… ${bytes(all.length - shown.length)} more` : "";
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(shown, { stream: more !== "" });
    if (/[\u0000-\u0008\u000e-\u001f]/.test(text)) throw new TypeError("control characters");
    if (more === "") {
      try {
        JSON.parse(text);
        return { kind: "JSON", text: indented(text) };
      } catch {
        // Text, then.
      }
    }
    return { kind: "text", text: text + more };
  } catch {
    const head = Array.from(shown.subarray(0, 1024), (byte) => byte.toString(16).padStart(2, "0"));
    const lines = [];
    for (let at = 0; at < head.length; at += 16) lines.push(head.slice(at, at + 16).join(" "));
    const left = all.length - head.length;
    return { kind: "bytes", text: lines.join("\n") + (left > 0 ? `\n… ${bytes(left)} more` : "") };
  }
}
