// What the client does when nodes refuse, fall silent or forget, on nodes that answer by script.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  AmbiguousError, Client, ClosedError, ConflictError, DeniedError, InternalError, InvalidError,
  OverloadedError, SHARED, UnavailableError,
} from "../dist/index.js";
import { EventStore } from "../dist/mcp.js";
import { base64, BROKEN, info, REFUSED, refusal, reply, scripted, thrown, Time } from "./fake.mjs";

const NODES = ["n0:1", "n1:1", "n2:1"];
const minted = (more) => reply({ info: info("minted") }, more);
const live = (value) =>
  reply({ status: "HANDLE_STATUS_LIVE", info: info("h"), value: base64(JSON.stringify(value)) });

/** A client of these nodes, its time, and what it sent. */
function set(steps, { endpoints = NODES, ...options } = {}) {
  const time = new Time();
  const { fetch, sent } = scripted(...steps);
  const client = new Client(endpoints, { fetch, runtime: time.runtime, ...options });
  return { client, time, sent, store: client.handles("s", { owner: SHARED }) };
}

const hosts = (sent) => sent.map(({ url }) => new URL(url).host);
const ids = (sent) => sent.map(({ body }) => body.identity.requestId);
const timeOf = (id) => Buffer.from(id, "base64").readUIntBE(0, 6);

test("a call is a post of JSON with its deadline and token", async () => {
  const { time, sent, store } = set([minted()], { token: "hlv_secret", insecureToken: true });
  assert.equal(await time.during(store.mint({ a: 1 })), "minted");
  const [{ url, headers, body, init }] = sent;
  assert.equal(url, "http://n0:1/helve.v1.HandleService/Mint");
  assert.deepEqual(headers, {
    "content-type": "application/json",
    "connect-protocol-version": "1",
    authorization: "Bearer hlv_secret",
    "connect-timeout-ms": "1000",
  });
  assert.equal(init.method, "POST");
  assert.equal(init.redirect, "manual");
  const { identity, ...rest } = body;
  assert.equal(Buffer.from(identity.requestId, "base64").length, 16);
  assert.deepEqual(rest, {
    store: "s", owner: "", idPrefix: "", value: base64('{"a":1}'), lifetime: { never: {} },
  });
});

test("retries repeat the identity on another node", async () => {
  const { time, sent, store } = set([thrown(BROKEN), refusal("STOPPING"), minted()]);
  await time.during(store.mint(1));
  assert.deepEqual(hosts(sent), NODES);
  assert.equal(new Set(ids(sent)).size, 1);
  assert.deepEqual(sent[1].body, sent[0].body);
});

test("two calls have two identities", async () => {
  const { time, sent, store } = set([minted(), minted()]);
  await time.during(store.mint(1));
  await time.during(store.mint(1));
  assert.notEqual(ids(sent)[0], ids(sent)[1]);
});

test("reads bear no identity", async () => {
  const { time, sent, store } = set([live(1)]);
  await time.during(store.get("h"));
  assert.equal("identity" in sent[0].body, false);
});

test("a silent node is given up after its time, which doubles", async () => {
  const { time, sent, store } = set([]);
  await assert.rejects(time.during(store.mint(1)), AmbiguousError);
  assert.deepEqual(hosts(sent).slice(0, 3), NODES);
  assert.equal(sent[0].init.signal.aborted, true);
  const timeouts = sent.map(({ headers }) => Number(headers["connect-timeout-ms"]));
  assert.deepEqual(timeouts.slice(0, 2), [1000, 2000]);
  assert.ok(time.now >= 4_900 && time.now <= 5_000, `ended after ${time.now} ms`);
});

test("the outcome of an earlier try is the answer to a later one", async () => {
  const { time, store } = set([thrown(BROKEN), refusal("CONFLICT", { metadata: { revision: "9" } })]);
  assert.deepEqual(await time.during(store.putIf("h", 1, 3)), { status: "conflict", revision: 9 });
});

test("a refusal after a lost answer is ambiguous", async () => {
  for (const reason of ["DENIED", "DISK_FULL", "REQUEST_TOO_OLD", "TOO_EARLY"]) {
    const { time, sent, store } = set([thrown(BROKEN), refusal(reason)]);
    await assert.rejects(time.during(store.mint(1)), (error) => {
      assert.ok(error instanceof AmbiguousError && error.maybeDone, error);
      return true;
    });
    assert.equal(sent.length, 2);
  }
});

test("a read that no node answers is unavailable", async () => {
  const { time, store } = set([thrown(BROKEN), thrown(REFUSED)], { triesMax: 2 });
  await assert.rejects(time.during(store.get("h")), (error) => {
    assert.ok(error instanceof UnavailableError && !error.maybeDone, error);
    assert.match(error.message, /no node answered in 2 tries: cannot connect to n1:1: connect ECONN/);
    return true;
  });
});

test("a pause that a node asks for is kept", async () => {
  const { time, store } = set([refusal("OVERLOADED", { retryMs: 1_500 }), minted()]);
  await time.during(store.mint(1));
  assert.equal(time.now, 1_500);
});

test("a pause beyond the deadline ends the call at once", async () => {
  const { time, store } = set([refusal("OVERLOADED", { retryMs: 60_000 })]);
  await assert.rejects(time.during(store.mint(1)), OverloadedError);
  assert.equal(time.now, 0);
});

test("the next call begins with the leader, if it is an endpoint", async () => {
  const { time, sent, store } = set([minted({ leaderHint: "n2:1" }), minted({ leaderHint: "x:1" }), minted()]);
  for (let call = 0; call < 3; call += 1) await time.during(store.mint(1));
  assert.deepEqual(hosts(sent), ["n0:1", "n2:1", "n2:1"]);
});

test("a node that did not answer is not preferred for a while", async () => {
  const { time, sent, store } = set([thrown(REFUSED), ...Array.from({ length: 9 }, () => minted)]);
  await time.during(store.mint(1));
  await time.during(store.mint(1));
  assert.deepEqual(hosts(sent), ["n0:1", "n1:1", "n1:1"]);
});

test("request ids bear the time of the cluster", async () => {
  const clockMs = 1_900_000_000_000;
  const { time, sent, store } = set([minted({ clockMs: String(clockMs) }), minted()]);
  await time.during(store.mint(1));
  time.now += 250;
  await time.during(store.mint(1));
  assert.equal(timeOf(ids(sent)[0]), 1_800_000_000_000);
  assert.equal(timeOf(ids(sent)[1]), clockMs + 250);
});

test("a wrong clock is corrected once, before any try had an effect", async () => {
  const clockMs = 1_700_000_000_000;
  const told = reply({ exists: false }, { clockMs: String(clockMs) });
  const { time, sent, store } = set([refusal("TOO_EARLY"), told, minted()]);
  await time.during(store.mint(1));
  assert.match(sent[1].url, /StateService\/Exists$/);
  assert.equal(timeOf(sent[2].body.identity.requestId), clockMs);

  const again = set([refusal("REQUEST_TOO_OLD"), reply({ exists: false }), refusal("REQUEST_TOO_OLD")]);
  await assert.rejects(again.time.during(again.store.mint(1)), { kind: "Forgotten" });
  assert.equal(again.sent.length, 3);
});

test("a take whose reply is too large may have been done", async () => {
  const large = () => new Response(new Uint8Array(17 << 20));
  const taken = set([large], { endpoints: ["n0:1"] });
  await assert.rejects(taken.time.during(taken.store.take("h")), AmbiguousError);
  const read = set([large]);
  await assert.rejects(read.time.during(read.store.get("h")), { kind: "Invalid", reason: "TOO_LARGE" });
});

test("a proxy tells by words and headers if it passed a call on", async () => {
  const reset = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
  const broken = set([new Response(reset, { status: 503 })], { triesMax: 1 });
  await assert.rejects(broken.time.during(broken.store.mint(1)), AmbiguousError);
  const overflow = reset.replace("connection termination", "overflow");
  const full = set([new Response(overflow, { status: 503 })], { triesMax: 1 });
  await assert.rejects(full.time.during(full.store.mint(1)), UnavailableError);
  const empty = set([new Response("no healthy upstream", { status: 503 })], { triesMax: 1 });
  await assert.rejects(empty.time.during(empty.store.mint(1)), UnavailableError);
  const headers = { "x-envoy-ratelimited": "true", "retry-after": "3" };
  const body = { code: "unavailable", message: "" };
  const limited = () => Response.json(body, { status: 503, headers });
  const once = set([limited()], { triesMax: 1 });
  await assert.rejects(once.time.during(once.store.mint(1)), OverloadedError);
  const { time, store } = set([limited(), minted()], { endpoints: ["n0:1"] });
  await time.during(store.mint(1));
  assert.equal(time.now, 3_000);
});

test("a pause until a date ends by the client's own time of day", async () => {
  const until = new Date(new Time().wall + 3_000).toUTCString();
  const limited = new Response("", { status: 503, headers: { "retry-after": until } });
  const { time, store } = set([limited, minted()], { endpoints: ["n0:1"] });
  await time.during(store.mint(1));
  assert.equal(time.now, 3_000);
});

test("an answer that no node gives is no reply", async () => {
  const steps = [new Response("<html>log in</html>"), Response.json({ login: true })];
  const { time, sent, store } = set(steps, { endpoints: ["n0:1", "n1:1"] });
  await assert.rejects(time.during(store.get("h")), /another server, answered with HTTP 200/);
  assert.deepEqual(hosts(sent), ["n0:1", "n1:1"]);
});

test("a redirect is not followed", async () => {
  const away = new Response(null, { status: 307, headers: { location: "http://x/" } });
  const { time, sent, store } = set([away, minted()]);
  await time.during(store.mint(1));
  assert.deepEqual(hosts(sent), ["n0:1", "n1:1"]);
});

test("a token is asked for with each call, and checked", async () => {
  const tokens = ["hlv_1", "hlv_2", "hlv 3"];
  const { time, sent, store } = set([minted(), minted()], { token: async () => tokens.shift(), insecureToken: true });
  await time.during(store.mint(1));
  await time.during(store.mint(1));
  assert.deepEqual(sent.map(({ headers }) => headers.authorization), ["Bearer hlv_1", "Bearer hlv_2"]);
  await assert.rejects(time.during(store.mint(1)), InvalidError);
  const none = set([], { token: () => Promise.reject(new Error("vault is sealed")), insecureToken: true });
  await assert.rejects(none.time.during(none.store.get("h")), (error) => {
    assert.ok(error instanceof DeniedError && /vault is sealed/.test(error.message), error);
    return true;
  });
  const slow = set([], { token: () => new Promise(() => {}), insecureToken: true });
  await assert.rejects(slow.time.during(slow.store.get("h")), /no token was given within the deadline/);
});

test("closing ends reads as closed and writes as ambiguous", async () => {
  const { client, time, store } = set([]);
  const read = store.get("h");
  const write = store.mint(1);
  const ended = Promise.allSettled([read, write]);
  setImmediate(() => client.close());
  const [first, second] = await time.during(ended);
  assert.ok(first.reason instanceof ClosedError, first.reason);
  assert.ok(second.reason instanceof AmbiguousError, second.reason);
  await assert.rejects(store.mint(1), ClosedError);
  await assert.rejects(client.withDeadline(1).handles("s", { owner: SHARED }).get("h"), ClosedError);
});

test("calls beyond a bound wait in line, at most until their deadline", async () => {
  const replies = Array.from({ length: 150 }, () => () => minted());
  const { time, sent, store } = set(replies);
  const calls = Array.from({ length: 150 }, () => store.mint(1));
  await new Promise(setImmediate);
  assert.ok(sent.length >= 128, `${sent.length} calls were sent`);
  await time.during(Promise.all(calls));
  assert.equal(sent.length, 150);

  const hung = set([], { endpoints: ["n0:1"] });
  const waits = Array.from({ length: 129 }, () => hung.store.mint(1));
  const first = hung.sent.length;
  const ended = await hung.time.during(Promise.allSettled(waits));
  const kinds = ended.map(({ reason }) => reason.kind);
  assert.ok(first <= 128);
  assert.equal(kinds.filter((kind) => kind === "Overloaded").length, 1);
  assert.equal(kinds.filter((kind) => kind === "Ambiguous").length, 128);
});

test("an update goes round until no other writer came between", async () => {
  const conflict = () => refusal("CONFLICT", { metadata: { revision: "8" } });
  const done = reply({ status: "WRITE_STATUS_REPLACED", info: info("h", 9) });
  const { time, sent, store } = set([live(1), conflict(), live(5), done]);
  const found = await time.during(store.update("h", (count) => count + 1));
  assert.equal(found.record.value, 6);
  assert.equal(found.record.revision, 9);
  assert.equal(sent[3].body.ifRevision, "7");
  assert.deepEqual(sent[3].body.lifetime, { keep: {} });
});

test("an update that others always win ends with the deadline", async () => {
  const lost = () => [live(1), refusal("CONFLICT", { metadata: { revision: "8" } })];
  const { time, store } = set(Array.from({ length: 400 }, lost).flat(), { deadline: 1_000 });
  await assert.rejects(time.during(store.update("h", (count) => count + 1)), (error) => {
    assert.ok(error instanceof ConflictError && error.revision === 8, error);
    return true;
  });
  assert.ok(time.now <= 1_000);
});

test("a page that one reply cannot hold is asked for in parts", async () => {
  const tooLarge = () => refusal("TOO_LARGE");
  const page = reply({ handles: [{ info: info("a"), value: base64("1") }], resumeToken: "eA==" });
  const { time, sent, store } = set([tooLarge(), tooLarge(), page]);
  const found = await time.during(store.listValuesPage({ limit: 10 }));
  assert.deepEqual(sent.map(({ body }) => body.handlesMax), ["10", "3", "1"]);
  assert.equal(found.next, "a");
  const one = set([tooLarge()]);
  await assert.rejects(one.time.during(one.store.listValuesPage({ limit: 1 })), InvalidError);
});

test("a replay ends with the view of its first page, so that it skips no event", async () => {
  const [stream, number] = ["0".repeat(32), (digit) => String(digit).repeat(32)];
  const event = (digit, revision) => ({
    info: info(`events/${stream}/${number(digit)}`, revision),
    value: base64(JSON.stringify({ stream: "s", message: { id: digit } })),
  });
  const last = { record: event(0, 3) };
  // While the first page is read, event 1 is written at 8, which is behind the first page's end and
  // not seen, then event 5 at 9, which the second page shows.
  const pages = [
    reply({ records: [event(2, 5)], resumeToken: "eA==" }),
    reply({ records: [event(5, 9), event(4, 4)], resumeToken: "" }),
  ];
  const { client, time } = set([reply(last), ...pages]);
  const sent = [];
  const send = async (_, { id }) => void sent.push(id);
  const store = new EventStore(client);
  const replay = store.replayEventsAfter(`${stream}.${number(0)}`, { send });
  assert.equal(await time.during(replay), "s");
  assert.deepEqual(sent, [4, 2]);
});

test("an event is stored though old ones cannot be deleted", async () => {
  const put = reply({ status: "WRITE_STATUS_CREATED", info: info("k") });
  const { client, time, sent } = set([put, refusal("DENIED")]);
  const store = new EventStore(client, { maxEventsPerStream: 1 });
  const id = await time.during(store.storeEvent("s", { id: 1 }));
  assert.match(id, /^[0-9a-f]{32}\.[0-9a-f]{32}$/);
  assert.equal(sent.length, 2);
});

test("what this version does not know is an internal error", async () => {
  const { time, store } = set([reply({ status: "HANDLE_STATUS_LOST" })]);
  await assert.rejects(time.during(store.get("h")), InternalError);
  const huge = { ...info("h"), revision: "9007199254740993" };
  const large = set([reply({ info: huge })]);
  await assert.rejects(large.time.during(large.store.mint(1)), InternalError);
});

test("an option that cannot be used is refused at once", () => {
  for (const options of [{ deadline: NaN }, { deadline: "5" }, { attemptTimeout: -1 }, { token: "" }, { token: "a b" }]) {
    assert.throws(() => new Client("a:1", options), { kind: "Invalid", reason: "BAD_REQUEST" });
  }
  assert.throws(() => new Client([]), /at least one endpoint/);
  assert.throws(() => new Client("http://a:1", { tls: true }), /give HOST:PORT/);
  assert.doesNotThrow(() => new Client("https://a:1, b:1", { tls: true }));
});

test("an owner whose name is empty is refused unsent", async () => {
  const { client, sent } = set([]);
  await assert.rejects(client.handles("s", { owner: "" }).get("h"), InvalidError);
  await assert.rejects(client.keys({ owner: undefined }).get("h"), InvalidError);
  assert.equal(sent.length, 0);
});
