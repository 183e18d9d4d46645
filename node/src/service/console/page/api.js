// The calls of the console. The token is in this tab alone, and goes out in one header; no cookie and no address holds it.

const KEPT = "helve.console.token";
const API = "api/";
const PATIENCE_MS = 15_000;
/** The node sends a part of a watch at least every 5 s. A connection that is silent for longer is dead. */
const SILENCE_MS = 20_000;

let token = sessionStorage.getItem(KEPT) || "";
/** Ends the calls of this token when another one takes its place. */
let session = new AbortController();

/** Thrown by a call that its caller gave up, or whose session is over: there is nothing to show. */
export class Ended extends Error {}

/** Why a call did not work: what the node says, its code and its reason. */
export class Problem extends Error {
  constructor(message, { status = 0, code = "", reason = "", retryMs = 0 } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.reason = reason;
    this.retryMs = retryMs;
  }
}

/** Keeps a token for this tab; empty: forgets it. The calls of the token before end. */
export function setToken(text) {
  session.abort();
  session = new AbortController();
  token = text;
  if (text === "") sessionStorage.removeItem(KEPT);
  else sessionStorage.setItem(KEPT, text);
}

/** Whether there is a token. */
export const hasToken = () => token !== "";

function headers(more) {
  return token === "" ? more : { ...more, Authorization: `Bearer ${token}` };
}

/** The problem that an error in JSON tells. */
export function told(error, status = 0, retryAfter = null) {
  const details = error?.details || [];
  const info = details.find((detail) => detail.type === "google.rpc.ErrorInfo");
  return new Problem(error?.message || "the node gave no reason", {
    status,
    code: error?.code || "",
    reason: info?.debug?.reason || "",
    retryMs: Number(retryAfter || 0) * 1000,
  });
}

/** What ends a call of this session: the session's end, or the caller's signal. */
const ending = (signal) => AbortSignal.any(signal ? [session.signal, signal] : [session.signal]);

/** Ends the session if the problem is that its token is not valid. */
function checkToken(problem) {
  if (problem.status === 401 || problem.reason === "UNAUTHENTICATED") dispatchEvent(new Event("helve:unauthenticated"));
}

async function sent(path, options, signal) {
  const patience = AbortSignal.timeout(PATIENCE_MS);
  const end = ending(signal);
  let answer = null;
  let text = "";
  try {
    answer = await fetch(API + path, {
      ...options, signal: AbortSignal.any([end, patience]), cache: "no-store", credentials: "omit",
      redirect: "error", referrerPolicy: "no-referrer",
    });
    text = await answer.text();
  } catch {
    if (end.aborted) throw new Ended();
    const cut = answer === null ? "it cannot be reached" : "its answer broke off";
    const why = patience.aborted ? "it did not answer within 15 s" : cut;
    throw new Problem(`The node whose console this is does not answer: ${why}. Check that it runs, or open the console of another node.`);
  }
  // An answer that has arrived is not aborted any more.
  if (end.aborted) throw new Ended();
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Said below.
  }
  if (!answer.ok) {
    const problem = told(body, answer.status, answer.headers.get("Retry-After"));
    checkToken(problem);
    throw end.aborted ? new Ended() : problem;
  }
  if (body === null) throw new Problem("The answer is no JSON: something between this page and the node answers for it.");
  return body;
}

/** Reads what is not a call of the contract: `whoami`, `nodes`, `stores`. */
export const read = (path, signal) => sent(path, { headers: headers({}) }, signal);

/** Makes a call of the contract, such as `HandleService/Get`. */
export const call = (name, request, signal) => sent(`helve.v1.${name}`, {
  method: "POST",
  headers: headers({ "Content-Type": "application/json", "Connect-Timeout-Ms": "10000" }),
  body: JSON.stringify(request),
}, signal);

/** Parts of an answer in lines of JSON. `heard` is called for each line. */
async function* parts(answer, heard) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      heard();
      const part = JSON.parse(line);
      if (part.error) throw told(part.error);
      yield part.result;
    }
  }
}

/** Follows a watch: yields each part. Throws the problem that ends it; one is that no line comes for 20 s. */
export async function* watch(request, signal) {
  const end = ending(signal);
  const silence = new AbortController();
  let timer = 0;
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(), SILENCE_MS);
  };
  heard();
  try {
    const answer = await fetch(`${API}helve.v1.WatchService/Watch`, {
      method: "POST",
      headers: headers({ "Content-Type": "application/json", "Connect-Timeout-Ms": "10000" }),
      body: JSON.stringify(request),
      signal: AbortSignal.any([end, silence.signal]),
      cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    });
    if (!answer.ok) {
      const error = await answer.json().catch(() => null);
      throw told(error, answer.status, answer.headers.get("Retry-After"));
    }
    for await (const part of parts(answer, heard)) {
      if (end.aborted) break;
      yield part;
    }
  } catch (error) {
    if (end.aborted) throw new Ended();
    if (silence.signal.aborted) throw new Problem("nothing came from the node for 20 s");
    if (error instanceof Problem) checkToken(error);
    throw end.aborted ? new Ended() : error;
  } finally {
    clearTimeout(timer);
    // A connection that is not read any more holds a place at the node.
    silence.abort();
  }
  if (end.aborted) throw new Ended();
}

/** The identity of one write, in base64: a UUIDv7. A write that is sent again under it takes effect once. */
export function identity() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const now = BigInt(Date.now());
  for (let at = 0; at < 6; at += 1) bytes[at] = Number((now >> BigInt(8 * (5 - at))) & 0xffn);
  bytes[6] = (bytes[6] & 0x0f) | 0x70;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  return { requestId: btoa(String.fromCharCode(...bytes)) };
}
