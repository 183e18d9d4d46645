// The test vectors of "writing a client": every client that follows that page passes them.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Client, CodecError, digestOf, HelveError, InvalidError } from "../dist/index.js";
import { endpoint } from "../dist/address.js";
import { decode, encode } from "../dist/exact.js";
import { uuid7 } from "../dist/identity.js";
import { Pool } from "../dist/pool.js";
import { Tries } from "../dist/tries.js";
import { lifetime } from "../dist/ttl.js";
import { ofAnswer, ofThrown, silence } from "../dist/verdict.js";
import { BROKEN, details, REFUSED, thrown, Time } from "./fake.mjs";

const VECTORS = new URL("../../../docs/clients/vectors/", import.meta.url);
const vectors = (name) => JSON.parse(readFileSync(new URL(`${name}.json`, VECTORS), "utf8"));

const MISTRUSTED = { code: "SELF_SIGNED_CERT_IN_CHAIN", message: "self-signed certificate" };
const NOW_MS = 1_800_000_000_000;
const FAULTS = { broken: BROKEN, unconnected: REFUSED, mistrusted: MISTRUSTED };

/** The verdict on an answer of the vectors, as this client meets it. */
function weighed(given, hasValues = false) {
  if (given.fault === "silence") return silence("a:1");
  if (given.fault !== undefined) return ofThrown("a:1", thrown(FAULTS[given.fault]));
  const { code, reason, metadata, message = "", retry_info_ms: retryMs } = given;
  const headers = new Headers(given.headers);
  if (given.retry_after_s !== undefined) headers.set("retry-after", String(given.retry_after_s));
  const answered = (status, body) =>
    ofAnswer("a:1", { status, body, headers, nowMs: NOW_MS }, hasValues);
  if (code === "OK") return answered(200, "{}");
  // Where a vector has no status of HTTP, it is one that tells nothing.
  const { http: status = 400 } = given;
  if (code === undefined && reason === undefined) {
    return answered(status, "<html>");
  }
  const name = (code ?? "FAILED_PRECONDITION").toLowerCase();
  const body = JSON.stringify({
    code: name === "cancelled" ? "canceled" : name,
    message,
    ...(reason === undefined ? {} : { details: details({ reason, metadata, retryMs }) }),
  });
  return answered(status, body);
}

test("request ids", () => {
  for (const { time_ms, random, id } of vectors("identities").request_ids) {
    assert.equal(Buffer.from(uuid7(time_ms, Buffer.from(random, "hex"))).toString("hex"), id);
  }
});

test("verdicts", async (t) => {
  for (const each of vectors("verdicts").cases) {
    await t.test(JSON.stringify(each.answer), () => {
      const { effect, error, health, pauseMs } = weighed(each.answer, each.has_values);
      assert.deepEqual(
        { effect, kind: error.kind, health, pauseMs },
        { effect: each.effect, kind: each.kind, health: each.health, pauseMs: each.pause_ms ?? 0 },
      );
      if (each.revision === undefined) return;
      assert.deepEqual([error.revision, error.operation], [each.revision, each.operation]);
    });
  }
});

test("a pause may be asked for until a date", () => {
  const pause = (retryAfter) => {
    const headers = new Headers({ "retry-after": retryAfter });
    const answer = { status: 503, body: "", headers, nowMs: NOW_MS };
    return ofAnswer("a:1", answer, false).pauseMs;
  };
  assert.equal(pause("Fri, 15 Jan 2027 08:00:02 GMT"), 2_000);
  assert.ok(pause("Fri, 31 Dec 9999 23:59:59 GMT") > 100 * 365 * 24 * 3_600_000);
  for (const over of ["Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 99 Nov 1994 08:49:37 GMT", "1.5", "soon"]) {
    assert.equal(pause(over), 0, over);
  }
});

test("words of proxies tell whether a 503 was passed on", () => {
  const headers = new Headers({ "retry-after": "2" });
  const found = (body) => {
    const answer = { status: 503, body, headers, nowMs: NOW_MS };
    const { effect, health, pauseMs } = ofAnswer("a:1", answer, false);
    return [effect, health, pauseMs];
  };
  const coded = (message) => found(JSON.stringify({ code: "unavailable", message }));
  const reset = "upstream connect error or disconnect/reset before headers. reset reason: connection termination";
  assert.deepEqual(found("no healthy upstream"), ["not_done", "behind", 2_000]);
  assert.deepEqual(coded("no healthy upstream"), ["not_done", "behind", 2_000]);
  assert.deepEqual(coded(""), ["not_done", "behind", 2_000]);
  const envoy = "upstream connect error or disconnect/reset before headers.";
  for (const each of vectors("verdicts").cases) {
    const { code, message = "" } = each.answer;
    if (code !== "UNAVAILABLE" || !message.startsWith(envoy)) continue;
    const expected = [each.effect, each.health, each.effect === "not_done" ? 2_000 : 0];
    assert.deepEqual([found(message), coded(message)], [expected, expected], message);
  }
  // Envoy says both after it passed the call on; as a code of gRPC, both are 503 of Connect.
  assert.deepEqual(found(reset), ["unknown", "suspect", 0]);
  assert.deepEqual(coded(reset), ["unknown", "suspect", 0]);
  assert.deepEqual(coded("upstream request timeout"), ["unknown", "suspect", 0]);
});

test("tries", async (t) => {
  for (const each of vectors("tries").cases) {
    await t.test(JSON.stringify(each.answers), () => {
      const time = new Time();
      const endpoints = Array.from({ length: each.nodes }, (_, at) => `n${at}:1`);
      const pool = new Pool(endpoints, false, time.runtime.monotonicMs);
      const pace = { attemptTimeout: 1000, backoffFirst: 5, backoffMax: 200, triesMax: each.tries_max ?? Infinity };
      const tries = new Tries(pool, 20_000, pace, each.lasting, time.runtime);
      const on = [];
      const ended = () => {
        for (const answer of each.answers) {
          tries.timeout();
          on.push(tries.node.index);
          if (answer === "ok") return "ok";
          tries.failed(weighed(answer));
        }
        time.now = 20_000;
        return tries.timeout();
      };
      let ends;
      try {
        ends = ended();
      } catch (error) {
        assert.ok(error instanceof HelveError, error);
        ends = error.kind;
      }
      assert.deepEqual({ on, ends }, { on: each.on, ends: each.ends });
    });
  }
});

test("a write that was refused is not sent too late for an answer", () => {
  for (const [isLasting, left, isTriedAgain] of [[true, 10, false], [true, 40, true], [false, 10, true]]) {
    const time = new Time();
    const pool = new Pool(["a:1"], false, time.runtime.monotonicMs);
    const pace = { attemptTimeout: 1000, backoffFirst: 5, backoffMax: 200, triesMax: Infinity };
    const tries = new Tries(pool, 1_000 + left, pace, isLasting, time.runtime);
    tries.timeout();
    const next = () => tries.failed(weighed({ http: 503, retry_after_s: 1 }));
    if (isTriedAgain) assert.equal(next(), 1_000);
    else assert.throws(next, { kind: "Unavailable" });
  }
});

test("values", async (t) => {
  const { kept, read, refused } = vectors("values");
  const bytes = (text) => new TextEncoder().encode(text);
  for (const text of kept) {
    await t.test(`kept: ${text.slice(0, 40)}`, () => {
      const value = decode(bytes(text));
      assert.deepStrictEqual(decode(encode(value)), value);
    });
  }
  for (const text of read) {
    await t.test(`read: ${text}`, () => {
      const value = decode(bytes(text));
      assert.equal(String(value), text);
      assert.throws(() => encode(value), /64 bits: write it as a string/);
    });
  }
  for (const text of refused) {
    await t.test(`refused: ${text.slice(0, 40)}`, () => {
      assert.throws(() => encode(decode(bytes(text))), CodecError);
    });
  }
});

test("digests", async (t) => {
  const { digests, refused } = vectors("digests");
  const read = (text) => decode(new TextEncoder().encode(text));
  for (const { value, text, sha256 } of digests) {
    await t.test(value, async () => {
      assert.equal(createHash("sha256").update(text).digest("hex"), sha256);
      assert.equal(Buffer.from(await digestOf(read(value))).toString("hex"), sha256);
    });
  }
  for (const text of refused) {
    await t.test(`refused: ${text}`, () => assert.rejects(digestOf(BigInt(text)), CodecError));
  }
});

test("lifetimes", () => {
  const ms = (ns) => (ns === undefined ? undefined : ns / 1e6);
  const shaped = ({ after_ms, idle_ttl_ms, ...rest }) => ({
    ...rest,
    ...(after_ms === undefined ? {} : { afterMs: String(after_ms) }),
    ...(idle_ttl_ms === undefined ? {} : { idleTtlMs: String(idle_ttl_ms) }),
  });
  for (const each of vectors("lifetimes").cases) {
    const { ttl, ttl_ns, default_ttl_ns, idle_ttl_ns, sent, refused } = each;
    const defaults = { defaultTtl: ms(default_ttl_ns), idleTtl: ms(idle_ttl_ns) };
    const made = () => lifetime(ttl ?? ms(ttl_ns), defaults);
    if (refused === undefined) assert.deepEqual(made(), shaped(sent));
    else assert.throws(made, { kind: "Invalid", reason: refused });
  }
});

test("addresses", () => {
  const { taken, refused } = vectors("addresses");
  for (const each of taken) assert.equal(endpoint(each.endpoint, false), each.address);
  for (const each of refused) {
    const made = () => new Client(each.endpoint);
    assert.throws(made, (error) => {
      assert.ok(error instanceof InvalidError && error.reason === "BAD_REQUEST", error);
      assert.ok(error.message.includes(each.remedy), `${error.message} lacks ${each.remedy}`);
      return true;
    });
  }
});

test("a comma in a password parts no endpoints of which one is repeated", () => {
  for (const list of ["http://u:s3cret,x@h:1", "http://u:7400,s3cret@h:1", "a:1,u:s3cret,x@h:1,b:2"]) {
    for (const endpoints of [list, list.split(",")]) {
      assert.throws(() => new Client(endpoints), (error) => {
        assert.match(error.message, /no user name/);
        assert.doesNotMatch(error.message, /s3cret|u:/);
        return true;
      });
    }
  }
});

test("an address that is refused is repeated in part, and without a password", () => {
  const long = "x".repeat(100_000);
  const bare = ["", ":1", "://a:1", "@a"].map((end) => `${long}${end}`);
  const others = [`[${long}`, `a:${long}`, "user:password@a:1", "https://password@a@b:1/"];
  others.push("user:password@x://b:1");
  for (const each of [...bare, ...others]) {
    assert.throws(() => endpoint(each, false), (error) => {
      assert.ok(error instanceof InvalidError && error.reason === "BAD_REQUEST", error);
      assert.ok(error.message.length < 300 && !error.message.includes("password"), error.message);
      return true;
    });
  }
});

test("a token in plain text stays on this machine", () => {
  const { loopback, beyond } = vectors("addresses");
  assert.ok(loopback.length > 10 && beyond.length > 10);
  for (const token of ["hlv_secret", () => "hlv_secret"]) {
    for (const each of loopback) assert.doesNotThrow(() => new Client(each, { token }), each);
    for (const each of beyond) {
      assert.throws(() => new Client(["127.0.0.1:1", each], { token }), (error) => {
        assert.ok(error instanceof InvalidError && error.reason === "BAD_REQUEST", each);
        assert.match(error.message, /in plain text: .*insecureToken/);
        assert.ok(!error.message.includes("hlv_secret"));
        return true;
      });
      assert.doesNotThrow(() => new Client(each, { token, insecureToken: true }), each);
      assert.doesNotThrow(() => new Client(each), each);
      const host = each.replace("http://", "");
      assert.doesNotThrow(() => new Client(host, { token, tls: true }), each);
    }
  }
});

test("whatever answer is made up there is a verdict", () => {
  let seed = 1;
  const draw = (below) => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed % below;
  };
  const whole = Buffer.from(details({ reason: "CONFLICT", metadata: { revision: "7" } })[0].value, "base64");
  for (let round = 0; round < 10_000; round += 1) {
    let data = Buffer.from(whole);
    for (let flips = draw(4); flips > 0; flips -= 1) data[draw(data.length)] = draw(256);
    if (draw(3) === 0) data = data.subarray(0, draw(data.length));
    const type = ["google.rpc.ErrorInfo", "google.rpc.RetryInfo", 7][draw(3)];
    const value = [data.toString("base64"), "!", null][Math.max(draw(6) - 3, 0)];
    const body = [
      JSON.stringify({ code: "internal", message: "m", details: [{ type, value }, null] }),
      JSON.stringify({ code: draw(9), details: 1 }),
      "null",
      "[",
    ][Math.max(draw(8) - 4, 0)];
    const retryAfter = ["9".repeat(draw(30)), "soon", undefined][draw(3)];
    const headers = new Headers(retryAfter === undefined ? {} : { "retry-after": retryAfter });
    const answer = { status: draw(700), body, headers, nowMs: NOW_MS };
    const found = ofAnswer("a:1", answer, draw(2) === 0);
    assert.ok(found.pauseMs >= 0 && found.error instanceof HelveError);
  }
});
