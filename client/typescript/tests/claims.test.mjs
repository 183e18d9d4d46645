// Claims on three nodes.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import { Client, digestOf, LeaseLostError, SHARED } from "../dist/index.js";
import { claimsAreKnown, Cluster, until } from "./nodes.mjs";

/** A lease that a test waits out, in milliseconds. */
const SHORT = 200;
const LONG = 3_600_000;

let cluster;
let client;
let pay;
let refund;

before(async () => {
  cluster = await Cluster.shared();
  client = new Client(cluster.endpoints, { deadline: 120_000 });
  [pay, refund] = await Promise.all([digestOf({ pay: 17 }), digestOf({ refund: 17 })]);
  await claimsAreKnown(client);
});

after(async () => {
  client?.close();
  await cluster?.stop();
});

const store = (options = {}) => client.claims(`s-${randomUUID()}`, { owner: SHARED, ...options });
const never = () => assert.fail("it was called");

async function fresh(claims, digest = pay, options = {}) {
  const claimed = await claims.claim("k", digest, { lease: LONG, ...options });
  assert.equal(claimed.status, "fresh");
  return claimed.lease;
}

/** The next lease, once what the key holds is over. */
const ended = (claims) =>
  until("what the key holds to be over", async () => {
    const claimed = await claims.claim("k", pay, { lease: LONG });
    return claimed.status === "fresh" ? claimed.lease : undefined;
  });

test("of twenty callers one is first, and all get its result", async () => {
  const claims = store();
  const call = () => Promise.all(Array.from({ length: 20 }, () => claims.claim("k", pay)));
  const claimed = await call();
  const leases = claimed.flatMap(({ status, lease }) => (status === "fresh" ? [lease] : []));
  assert.equal(leases.length, 1);
  const [lease] = leases;
  for (const { status, fence, untilMs } of claimed.filter((each) => each.status !== "fresh")) {
    const expected = { status: "inFlight", fence: lease.fence, untilMs: lease.untilMs };
    assert.deepEqual({ status, fence, untilMs }, expected);
  }
  assert.deepEqual(await lease.finish({ paid: true }), { paid: true });
  assert.deepEqual(await lease.finish({ paid: false }, SHORT), { paid: true });
  assert.equal(await lease.abandon(), false);
  const done = { status: "done", result: { paid: true }, untilMs: undefined };
  assert.deepEqual(await call(), Array(20).fill(done));
  assert.deepEqual(await claims.claim("k", refund), { status: "otherDigest" });
});

test("a lease is told how those before it ended", async () => {
  const claims = store();
  const first = await fresh(claims);
  assert.equal(first.earlier, undefined);
  assert.equal(await first.abandon(), true);
  const crashed = await fresh(claims, refund, { lease: SHORT });
  assert.ok(crashed.fence > first.fence);
  const { end, fence, mayHaveHappened } = crashed.earlier;
  assert.deepEqual([end, fence, mayHaveHappened], ["abandoned", first.fence, false]);
  const second = await ended(claims);
  const expired = {
    end: "expired", fence: crashed.fence, endedAtMs: crashed.untilMs, mayHaveHappened: true,
  };
  assert.deepEqual(second.earlier, expired);
  assert.equal(await second.abandon(), true);
  const third = await fresh(claims);
  assert.deepEqual(third.earlier, expired);
  assert.equal(await third.abandon({ neverHappened: true }), true);
  const fourth = await fresh(claims);
  assert.deepEqual([fourth.earlier.end, fourth.earlier.fence], ["abandoned", third.fence]);
  await fourth.finish("paid", SHORT);
  const last = await ended(claims);
  assert.deepEqual([last.earlier.end, last.earlier.fence], ["finished", fourth.fence]);
  assert.equal(await claims.delete("k"), true);
  assert.equal((await fresh(claims)).earlier, undefined);
});

test("a lease that ends is lost", async () => {
  const claims = store();
  const lost = await fresh(claims, pay, { lease: SHORT });
  const next = await ended(claims);
  assert.ok(next.fence > lost.fence);
  assert.equal(lost.leftMs, 0);
  await assert.rejects(lost.finish("late"), LeaseLostError);
  assert.equal(await lost.abandon(), false);
  assert.equal(await next.finish("paid"), "paid");
});

test("a side effect happens once for twenty callers", async () => {
  const claims = store();
  let payments = 0;
  const effect = async () => ({ receipt: (payments += 1) });
  const options = { patience: 120_000 };
  const calls = Array.from({ length: 20 }, () => claims.once("k", pay, effect, options));
  assert.deepEqual(await Promise.all(calls), Array(20).fill({ receipt: 1 }));
  assert.equal(payments, 1);
});

test("an earlier holder is recovered from", async () => {
  const claims = store({ lease: SHORT });
  await claims.claim("k", pay);
  const options = { patience: 120_000 };
  await assert.rejects(claims.once("k", pay, never, options), { kind: "Ambiguous" });
  const recover = (lease) => lease.earlier.end;
  const found = await claims.once("k", pay, never, { ...options, lease: LONG, recover });
  assert.equal(found, "expired");
  assert.equal(await claims.once("k", pay, never), "expired");
});

test("claims and handles leave each other alone", async () => {
  const claims = store();
  const handles = client.handles(claims.settings.store, { owner: SHARED });
  const lease = await fresh(claims);
  await assert.rejects(handles.put("k", 1), { reason: "CLAIMED" });
  await lease.finish("paid");
  assert.equal(await handles.get("k"), "paid");
  await handles.put("handle", 1);
  await assert.rejects(claims.claim("handle", pay), { reason: "CLAIMED" });
  assert.equal((await claims.forOwner("alice").claim("k", refund)).status, "fresh");
});

test("what the cluster refuses is told", async () => {
  const claims = store();
  for (const [key, reason] of [["", "BAD_ID"], ["a\0b", "BAD_ID"], ["x".repeat(129), "TOO_LARGE"]]) {
    await assert.rejects(claims.claim(key, pay), { reason });
  }
  await assert.rejects(claims.claim("k", pay, { lease: 25 * LONG }), { reason: "BAD_LIFETIME" });
});
