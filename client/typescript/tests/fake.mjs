// A platform whose time moves only when nothing else is to be done, and nodes that answer by script.

import { setImmediate } from "node:timers/promises";

/** Rounds of the event loop after which work without a timer has ended. */
const IDLE_ROUNDS = 20;
/** How long work may take that no timer is part of: machines may be busy. */
const PATIENCE_MS = 120_000;

/** A clock, timers and draws. */
export class Time {
  now = 0;
  wall = 1_800_000_000_000;
  #timers = [];

  runtime = {
    monotonicMs: () => this.now,
    wallMs: () => this.wall + this.now,
    random: () => 0.5,
    after: (ms, callback) => {
      const timer = { at: this.now + ms, callback };
      this.#timers.push(timer);
      return () => {
        this.#timers = this.#timers.filter((each) => each !== timer);
      };
    },
  };

  /** What the work gives, while time moves from timer to timer. */
  async during(work) {
    let isOver = false;
    const settled = work.finally(() => (isOver = true));
    settled.catch(() => {});
    const patience = Date.now() + PATIENCE_MS;
    for (;;) {
      for (let round = 0; round < IDLE_ROUNDS && !isOver; round += 1) await setImmediate();
      if (isOver) return settled;
      const next = this.#timers.sort((one, other) => one.at - other.at).shift();
      // A digest is computed on a thread of its own, and may take its time.
      if (next === undefined && Date.now() < patience) continue;
      if (next === undefined) throw new Error("the work waits for nothing that will come");
      this.now = Math.max(this.now, next.at);
      next.callback();
    }
  }
}

const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
const field = (number, data) =>
  Buffer.concat([varint(number * 8 + 2), varint(data.length), Buffer.from(data)]);
const whole = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);

/** The details of a refusal by a node, as the Connect protocol has them. */
export function details({ reason, domain = "helve.v1", metadata = {}, retryMs = 0 }) {
  const entries = Object.entries(metadata);
  const info = Buffer.concat([
    field(1, Buffer.from(reason)),
    field(2, Buffer.from(domain)),
    ...entries.map(([key, value]) =>
      field(3, Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))])),
    ),
  ]);
  const found = [{ type: "google.rpc.ErrorInfo", value: unpadded(info) }];
  if (retryMs > 0) {
    const nanos = Math.round((retryMs % 1000) * 1e6);
    const delay = Buffer.concat([whole(1, Math.floor(retryMs / 1000)), whole(2, nanos)]);
    found.push({ type: "google.rpc.RetryInfo", value: unpadded(field(1, delay)) });
  }
  return found;
}

const unpadded = (data) => data.toString("base64").replace(/=+$/, "");

/** A refusal, as a body of HTTP 400. */
export function refusal(reason, more = {}) {
  const body = { code: "failed_precondition", message: "scripted", details: details({ reason, ...more }) };
  return new Response(JSON.stringify(body), { status: 400 });
}

/** A reply of a node. */
export function reply(message = {}, { leaderHint = "", clockMs = "1800000000000" } = {}) {
  return Response.json({ header: { index: "7", clockMs, leaderHint }, ...message });
}

/** What `fetch` of Node throws. */
export function thrown(cause) {
  const error = new TypeError("fetch failed");
  error.cause = Object.assign(new Error(cause.message ?? cause.code), cause);
  return error;
}

export const REFUSED = { code: "ECONNREFUSED", syscall: "connect", message: "connect ECONNREFUSED" };
export const BROKEN = { code: "UND_ERR_SOCKET", message: "other side closed" };

/**
 * A `fetch` that takes one step for each request: a response, an error that it throws, or a function
 * of what was sent. Behind the last step it hangs.
 */
export function scripted(...steps) {
  const sent = [];
  const fetch = async (url, init) => {
    const call = { url, headers: init.headers, init };
    sent.push(call);
    let step = steps.shift();
    call.body = JSON.parse(await textOf(init.body));
    if (typeof step === "function") step = await step(call);
    if (step instanceof Error) throw step;
    return step ?? new Promise(() => {});
  };
  return { fetch, sent };
}

/** The text of a body, which the client gives Deno as a stream. */
export async function textOf(body) {
  return typeof body === "string" ? body : new Response(body).text();
}

/** What is known of a record, as a reply has it. */
export function info(name, revision = 7) {
  return {
    name,
    owner: "",
    revision: String(revision),
    createdAtMs: "1800000000000",
    updatedAtMs: "1800000000000",
    valueBytes: "1",
  };
}

export const base64 = (text) => Buffer.from(text).toString("base64");
