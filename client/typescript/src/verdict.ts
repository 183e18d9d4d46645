/** What a failed try says of the call. */

import { type Details, readDetails } from "./details.js";
import {
  DeniedError, type HelveError, InternalError, InvalidError, isReason, OverloadedError, type Reason,
  refused, UnavailableError,
} from "./errors.js";
import { repeatsWrites } from "./runtime.js";
import { parsed } from "./wire.js";

/**
 * What is certain after a failed try.
 *
 * - `refused`: the cluster refused the call itself, so trying again changes nothing.
 * - `barred`: something between refused it. This try had no effect; earlier ones may have had one.
 * - `not_done`: this try had no effect; another one may.
 * - `unknown`: this try may have had an effect.
 */
export type Effect = "refused" | "barred" | "not_done" | "unknown";

/**
 * What a failed try says of its node, or of a proxy before it.
 *
 * - `sound`: it answered.
 * - `suspect`: it did not, or is about to stop.
 * - `behind`: a proxy answered in its place, for now.
 * - `useless`: what is at its address will not answer this call, however often it is tried.
 */
export type Health = "sound" | "suspect" | "behind" | "useless";

/** What a failed try says of the call and of its node. */
export interface Verdict {
  readonly effect: Effect;
  readonly error: HelveError;
  readonly health: Health;
  /** The pause that the answer asks for, in milliseconds; 0: none. */
  readonly pauseMs: number;
}

/** An answer that is no success. */
export interface Answer {
  readonly status: number;
  readonly body: string;
  readonly headers: Pick<Headers, "get">;
  /** When it came, by the time of day, in milliseconds since the Unix epoch. */
  readonly nowMs: number;
}

/** The codes of the Connect protocol. */
const CODES = new Set([
  "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists",
  "permission_denied", "resource_exhausted", "failed_precondition", "aborted", "out_of_range",
  "unimplemented", "internal", "unavailable", "data_loss", "unauthenticated",
]);

/** What a fetch was about that found no connection, and its codes in Node and in Bun. */
const CONNECTING = [
  "connect", "getaddrinfo", "UND_ERR_CONNECT_TIMEOUT", "ECONNREFUSED", "ConnectionRefused",
];

/** Causes of a fetch whose certificate did not convince, or whose server speaks no TLS. */
const MISTRUSTED = new RegExp(
  "^(CERT_\\w+|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_\\w+|" +
    "ERR_TLS_CERT_ALTNAME_INVALID|ERR_SSL_WRONG_VERSION_NUMBER)$|invalid peer certificate|" +
    "\\(Connect\\): received corrupt message",
);

/**
 * How Envoy says that no server took a call: its circuit breaker is open, it got no connection, or
 * the server refused the stream (RFC 9113, section 8.7). Once it has retried, it says "retried and
 * the latest reset reason" instead: an earlier try of its own may have arrived.
 */
const UNTAKEN = new RegExp(
  "before headers\\. reset reason: (overflow|connection failure|local connection failure|" +
    "remote connection failure|connection timeout|remote refused stream reset)",
  "i",
);
/** How something between passes on that its own connection broke: the call may have arrived. */
const RESETS = new RegExp(
  "rst_stream|goaway|enhance_your_calm|stream terminated|too_many_pings|disconnect/reset|" +
    "connection reset",
  "i",
);
/** Names of HTTP 413, of which the request is too large. */
const REQUEST_SIZES = /payload too|request entity too large|content too large|request too large/i;
/** Of a message that is too large: the request, or the reply. */
const SIZES = /too large|larger than max|size limit/i;
/** Of a limit of the rate of calls. */
const RATES = /rate_limited|rate limited|ratelimited/i;

/** Statuses of HTTP that ask for credentials. */
const DENIALS = [401, 403, 407, 511];
const MESSAGE_CHARS_MAX = 300;
const CAUSES_MAX = 4;

function verdict(
  effect: Effect, error: HelveError, health: Health = "sound", pauseMs = 0,
): Verdict {
  return { effect, error, health, pauseMs };
}

/** The verdict on a try without any answer. */
export function silence(address: string): Verdict {
  const message = `${address} did not answer in time. See \`helve status\``;
  return verdict("unknown", new UnavailableError(message, { address }), "suspect");
}

/** The verdict on a fetch that threw; `repeats`: whether it may have sent the call twice. */
export function ofThrown(address: string, thrown: unknown, repeats = repeatsWrites()): Verdict {
  const unsent = repeats ? "unknown" : "not_done";
  const causes = causesOf(thrown);
  const why = causes.map(({ message }) => message).filter(Boolean).at(-1) ?? String(thrown);
  const down = (message: string) => new UnavailableError(message, { address, cause: thrown });
  if (causes.some(({ code, message }) => MISTRUSTED.test(code || message))) {
    const error = `cannot agree on TLS with ${address}: ${why}. Does the runtime trust its CA?`;
    // Nor will there be a connection as long as both sides are set up as they are.
    return verdict(unsent, down(error), "useless");
  }
  if (causes.some(isOfConnecting)) {
    const remedy = "Is the node running? Try `helve status`";
    return verdict(unsent, down(`cannot connect to ${address}: ${why}. ${remedy}`), "suspect");
  }
  return verdict("unknown", down(`the connection to ${address} broke: ${why}`), "suspect");
}

type Cause = { readonly [field in "code" | "message" | "syscall"]: string };

/** An error and its causes; of several at once the first, which are alike. */
function causesOf(thrown: unknown): Cause[] {
  const found: Cause[] = [];
  const text = (field: unknown) => (typeof field === "string" ? shortened(field) : "");
  let next = thrown as { cause?: unknown; errors?: unknown[] } & Partial<Cause>;
  while (next !== undefined && next !== null && found.length < CAUSES_MAX) {
    const { code, message, syscall, cause, errors } = next;
    found.push({ code: text(code), message: text(message), syscall: text(syscall) });
    next = (cause ?? errors?.[0]) as typeof next;
  }
  return found;
}

/**
 * Whether there was no connection to send anything on.
 *
 * Bun's EPROTO is left out: its message names the handshake of TLS, but Bun 1.4 says the same if
 * TLS breaks behind a request that was sent.
 */
function isOfConnecting({ code, message, syscall }: Cause): boolean {
  // Deno names the step in the message alone.
  return [code, syscall].some((each) => CONNECTING.includes(each)) ||
    message.includes("client error (Connect)");
}

/** The verdict on an answer that is no success; `hasValues`: see `takes`. */
export function ofAnswer(address: string, answer: Answer, hasValues: boolean): Verdict {
  const { status, body } = answer;
  const error = connectError(body);
  if (error === undefined) {
    // No node took the call, or its connection to one broke. Envoy begins both alike.
    const isOfReset = RESETS.test(body) && !UNTAKEN.test(body);
    if (status === 503 && isOfReset) return ofCode(address, "unavailable", body);
    return ofHttp(address, answer);
  }
  const { code, message, details } = error;
  if (details.reason !== undefined) {
    // One that is not known is of a newer version, which may say by it that the call was executed.
    return isReason(details.reason)
      ? ofReason(details.reason, message, details)
      : ofCode(address, code, message);
  }
  if (code === "deadline_exceeded") return silence(address);
  return ofWords(address, answer, error, hasValues) ?? ofCode(address, code, message);
}

interface ConnectError {
  readonly code: string;
  readonly message: string;
  readonly details: Details;
}

/** What a body says, if it is an error of the Connect protocol. */
function connectError(body: string): ConnectError | undefined {
  const { code, message, details } = (parsed(body) ?? {}) as Record<string, unknown>;
  if (typeof code !== "string" || !CODES.has(code)) return undefined;
  return {
    code,
    message: typeof message === "string" ? message : "",
    details: readDetails(details),
  };
}

/** The verdict that goes with the cluster's own reason. */
function ofReason(reason: Reason, message: string, { metadata, pauseMs }: Details): Verdict {
  const [revision, operation] = [whole(metadata.get("revision")), whole(metadata.get("operation"))];
  const error = refused(reason, message, { revision, operation });
  switch (reason) {
    case "OVERLOADED":
      return verdict("not_done", error, "sound", pauseMs || whole(metadata.get("retry_after_ms")));
    case "NO_LEADER":
      return verdict("not_done", error, "sound", pauseMs);
    case "AMBIGUOUS":
    case "KEY_MISSING":
      // Of a mutation it may have been done; its outcome is kept, and another node may open it.
      return verdict("unknown", error);
    case "STOPPING":
    case "AUDIT_FAILING":
      // A node says it only of what it never proposed.
      return verdict("not_done", error, "suspect");
    default:
      return verdict("refused", error);
  }
}

/** The number that a text is; 0 if it is none. */
function whole(text: string | null | undefined): number {
  return /^[0-9]{1,16}$/.test(text ?? "") ? Number(text) : 0;
}

/** What a proxy's own answer says: it answers without asking a node, but for what says so. */
function ofHttp(address: string, answer: Answer): Verdict {
  const { status } = answer;
  const answered = `${address}: a proxy between, or another server, answered with HTTP ${status}`;
  const pauseMs = askedPause(answer);
  if (DENIALS.includes(status)) {
    const message = `${answered}: give it the credentials, or reach the nodes without it`;
    return verdict("barred", new DeniedError(message, { address }));
  }
  if (status === 413) {
    const message = `${answered}: write less at once, or raise its limit to 12 MiB`;
    return tooLarge(address, message, false);
  }
  if (status === 429) {
    const message = `${answered}: call less often, or raise its limit`;
    return verdict("not_done", new OverloadedError(message, { address }), "behind", pauseMs);
  }
  const down = new UnavailableError(`${answered}. Look at its log`, { address });
  if ([408, 425, 503].includes(status)) return verdict("not_done", down, "behind", pauseMs);
  const isRefusal = status >= 300 && status <= 499;
  if (isRefusal || [501, 505, 506, 508, 510].includes(status)) {
    return verdict("not_done", down, "useless", pauseMs);
  }
  return verdict("unknown", down, status >= 500 && status <= 599 ? "behind" : "useless");
}

/** A date as HTTP writes it. */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** How long an answer asks to be left alone by `Retry-After`, in milliseconds: seconds or a date. */
function askedPause({ headers, nowMs }: Pick<Answer, "headers" | "nowMs">): number {
  const text = headers.get("retry-after")?.trim() ?? "";
  const until = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(until) ? whole(text) * 1_000 : Math.max(until - nowMs, 0);
}

/**
 * What something between says that speaks the nodes' protocol, whose codes alone do not tell what
 * it did. Undefined: the code tells.
 */
function ofWords(
  address: string,
  answer: Answer,
  { code, message, details }: ConnectError,
  hasValues: boolean,
): Verdict | undefined {
  const { status, headers } = answer;
  const words = said(address, code, message);
  const pauseMs = details.pauseMs || askedPause(answer);
  // Before the resets: Envoy begins both alike.
  if (code === "unavailable" && UNTAKEN.test(message)) {
    return verdict("not_done", new UnavailableError(words, { address }), "behind", pauseMs);
  }
  if (RESETS.test(message)) return undefined;
  if (status === 413) return ofHttp(address, answer);
  if (code === "unknown" || code === "out_of_range" || code === "resource_exhausted") {
    if (REQUEST_SIZES.test(message)) return tooLarge(address, words, false);
    if (SIZES.test(message)) return tooLarge(address, words, hasValues);
  }
  const isMarked = headers.get("x-envoy-ratelimited") === "true" || RATES.test(message);
  if (code === "resource_exhausted" || (code === "unavailable" && isMarked)) {
    // What limits the rate of calls says so instead of passing a call on.
    return verdict("not_done", new OverloadedError(words, { address }), "behind", pauseMs);
  }
  if (code === "unavailable" && /no healthy upstream/i.test(message)) {
    return verdict("not_done", new UnavailableError(words, { address }), "behind", pauseMs);
  }
  // The protocol writes `unavailable` as 503: beside words, that says no more than the code.
  const isTold = status === 429 || (status === 503 && message === "");
  return isTold || DENIALS.includes(status) ? ofHttp(address, answer) : undefined;
}

const NO_SUCH_CALL =
  "what answers there does not know this call. Give the port on which a node serves clients, " +
  "and if this is one, upgrade its node: it is of an older version";

function said(address: string, code: string, message: string): string {
  return `${address}: ${code}${message === "" ? "" : `: ${shortened(message)}`}`;
}

function shortened(message: string): string {
  return message.slice(0, MESSAGE_CHARS_MAX);
}

/** Without a reason it is the word of the HTTP layer, or of something between. */
function ofCode(address: string, code: string, message: string): Verdict {
  const [shown, facts] = [said(address, code, message), { address }];
  switch (code) {
    case "unauthenticated":
    case "permission_denied":
      return verdict("barred", new DeniedError(shown, facts));
    case "invalid_argument":
    case "out_of_range":
      return verdict("barred", new InvalidError(shown, facts));
    case "unimplemented":
      return verdict(
        "not_done", new InternalError(`${shown}: ${NO_SUCH_CALL}`, facts), "useless",
      );
    default:
      return verdict("unknown", new UnavailableError(shown, facts), "suspect");
  }
}

/** The verdict on a message over a limit of size; with `hasValues` it may be the reply. */
export function tooLarge(address: string, message: string, hasValues: boolean): Verdict {
  const error = refused("TOO_LARGE", message, { address });
  return hasValues ? verdict("unknown", error, "useless") : verdict("barred", error);
}

/** Whether every retry is given this refusal alike, so that it holds for earlier tries too. */
export function isOutcome(error: HelveError): boolean {
  const { kind, reason } = error;
  return reason !== undefined && (kind === "Conflict" || kind === "Invalid" || reason === "QUOTA");
}
