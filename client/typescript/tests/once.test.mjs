// Side effects that happen once, on nodes that keep the contract and fail by a script.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import {
  AmbiguousError, Client, CodecError, ConflictError, digestOf, InFlightError, InternalError,
  InvalidError, LeaseLostError, OtherDigestError, SHARED, UnkeptResultError,
} from "../dist/index.js";
import { Claiming, DAY_MS, LOST } from "./claiming.mjs";
import { BROKEN, refusal, reply, thrown, Time } from "./fake.mjs";

const PAY = new Uint8Array([1]);
const REFUND = new Uint8Array([2]);

class Declined extends Error {}

/** Claims of a cluster, its time, and a side effect that counts how often it happened. */
function set(faults = [], options = {}) {
  const time = new Time();
  const kept = new Claiming(time, faults);
  const calls = { fetch: kept.fetch, runtime: time.runtime, deadline: 60_000, ...options };
  const client = new Client("n0:1", calls);
  const fences = [];
  const pay = async ({ fence }) => {
    fences.push(fence);
    return { receipt: fences.length };
  };
  return { time, kept, client, claims: client.claims("pay", { owner: SHARED }), fences, pay };
}

const never = () => assert.fail("it was called");
const failing = (error) => () => {
  throw error;
};

/** What the work fails as. */
async function errorOf(time, work) {
  let error;
  await assert.rejects(time.during(work), (thrown) => (error = thrown) !== undefined);
  return error;
}

test("a side effect is carried out once, and all later callers get its result", async () => {
  const { time, kept, claims, fences, pay } = set();
  for (let round = 0; round < 3; round += 1) {
    assert.deepEqual(await time.during(claims.once("k", PAY, pay)), { receipt: 1 });
  }
  assert.equal(fences.length, 1);
  assert.deepEqual(kept.carriedOut, ["FRESH", "FINISHED", "DONE", "DONE"]);
  const error = await errorOf(time, claims.once("k", REFUND, never));
  assert.ok(error instanceof OtherDigestError && error instanceof InvalidError);
  assert.equal(error.maybeDone, false);
});

test("one of two callers waits for the result of the other", async () => {
  const { time, kept, claims } = set();
  const { lease } = await time.during(claims.claim("k", PAY, { note: "me" }));
  const held = await time.during(claims.claim("k", PAY));
  const { fence, untilMs } = lease;
  assert.deepEqual(held, { status: "inFlight", fence, untilMs, leftMs: 30_000, note: "me" });
  const waiting = claims.once("k", PAY, never);
  time.runtime.after(5_000, () => lease.finish("paid"));
  assert.equal(await time.during(waiting), "paid");
  assert.deepEqual(kept.actions, ["begin", "begin", "begin", "finish", "begin"]);
});

test("patience ends before a lease that goes on", async () => {
  const { time, kept, claims } = set();
  const { lease } = await time.during(claims.claim("k", PAY));
  const error = await errorOf(time, claims.once("k", PAY, never, { patience: 500 }));
  assert.ok(error instanceof InFlightError && error instanceof ConflictError);
  assert.deepEqual([error.untilMs, error.reason], [lease.untilMs, undefined]);
  assert.equal(kept.carriedOut.length, 2);
});

test("what did not happen is given up, and the next caller begins at once", async () => {
  const { time, kept, claims, fences, pay } = set();
  const options = { undone: (error) => error instanceof Declined };
  const declined = await errorOf(time, claims.once("k", PAY, failing(new Declined()), options));
  assert.ok(declined instanceof Declined);
  assert.deepEqual(kept.carriedOut, ["FRESH", "ABANDONED"]);
  assert.deepEqual(await time.during(claims.once("k", PAY, pay)), { receipt: 1 });
  assert.equal(fences.length, 1);
});

test("an error that leaves doubt keeps the lease, and the next caller recovers", async () => {
  const { time, kept, claims, pay } = set();
  const lost = await errorOf(time, claims.once("k", PAY, failing(new Error("lost"))));
  assert.equal(lost.message, "lost");
  assert.deepEqual(kept.carriedOut, ["FRESH"]);
  // The claim waits for the lease to end.
  for (let round = 0; round < 2; round += 1) {
    const error = await errorOf(time, claims.once("k", PAY, never));
    assert.ok(error instanceof AmbiguousError && error.maybeDone, error);
    assert.match(error.message, /lease 1 of "k" may have carried it out: give `recover`/);
  }
  let told;
  const recover = async (lease) => {
    told = lease.earlier;
    return pay(lease);
  };
  assert.deepEqual(await time.during(claims.once("k", PAY, never, { recover })), { receipt: 1 });
  assert.deepEqual(
    { ...told, endedAtMs: 0 },
    { end: "expired", fence: 1, endedAtMs: 0, mayHaveHappened: true },
  );
});

test("a recovery that finds that it never happened says so", async () => {
  const { time, kept, claims, pay } = set();
  await time.during(claims.claim("k", PAY));
  kept.aheadMs += 30_000;
  const options = { recover: failing(new Declined()), undone: () => true };
  assert.ok((await errorOf(time, claims.once("k", PAY, never, options))) instanceof Declined);
  assert.deepEqual(await time.during(claims.once("k", PAY, pay)), { receipt: 1 });
});

test("an earlier holder is told though the lease cannot be given up", async () => {
  const { time, kept, claims, pay } = set([undefined, undefined, refusal("DENIED")]);
  await time.during(claims.claim("k", PAY));
  kept.aheadMs += 30_000;
  const error = await errorOf(time, claims.once("k", PAY, never));
  assert.ok(error instanceof AmbiguousError);
  assert.equal(error.cause?.reason, "DENIED");
  kept.aheadMs += 30_000;
  const recovered = claims.once("k", PAY, never, { recover: pay });
  assert.deepEqual(await time.during(recovered), { receipt: 1 });
});

test("an earlier holder is forgotten after a day", async () => {
  const { time, kept, claims, pay } = set();
  await time.during(claims.claim("k", PAY));
  kept.aheadMs += DAY_MS;
  assert.ok((await errorOf(time, claims.once("k", PAY, never))) instanceof AmbiguousError);
  kept.aheadMs += DAY_MS;
  assert.deepEqual(await time.during(claims.once("k", PAY, pay)), { receipt: 1 });
});

test("a result that is forgotten is that of an earlier holder", async () => {
  const { time, kept, claims, pay } = set();
  await time.during(claims.once("k", PAY, pay, { ttl: 60_000 }));
  kept.aheadMs += 60_000;
  assert.match((await errorOf(time, claims.once("k", PAY, never))).message, /is forgotten/);
  const recovered = claims.once("k", PAY, never, { recover: pay });
  assert.deepEqual(await time.during(recovered), { receipt: 2 });
});

test("an end and a status of a newer version rule nothing out", async () => {
  const { time, kept, claims } = set();
  kept.tell("pay", "k", { end: "LEASE_END_OTHER", fence: "1", endedAtMs: "2" });
  const { lease } = await time.during(claims.claim("k", PAY));
  const earlier = { end: "expired", fence: 1, endedAtMs: 2, mayHaveHappened: true };
  assert.deepEqual(lease.earlier, earlier);
  const strange = () => reply({ status: "CLAIM_STATUS_OTHER", fence: "0" });
  const calls = [() => claims.claim("k", PAY), () => lease.finish(1), () => lease.abandon()];
  for (const call of calls) {
    kept.faults.push(strange());
    assert.ok((await errorOf(time, call())) instanceof InternalError);
  }
});

test("a claim whose answer is lost gives out one lease", async () => {
  const { time, kept, claims } = set([LOST, undefined, LOST]);
  const { status, lease } = await time.during(claims.claim("k", PAY));
  assert.equal(status, "fresh");
  assert.equal(await time.during(lease.finish("paid")), "paid");
  assert.deepEqual(kept.actions, ["begin", "begin", "finish", "finish"]);
  assert.deepEqual(kept.carriedOut, ["FRESH", "FINISHED"]);
});

test("a claim in doubt carries nothing out", async () => {
  const { time, kept, claims } = set([LOST], { triesMax: 1 });
  assert.ok((await errorOf(time, claims.once("k", PAY, never))) instanceof AmbiguousError);
  assert.deepEqual(kept.carriedOut, ["FRESH"]);
});

test("a finish in doubt is made again under its fence", async () => {
  const { time, kept, claims, pay } = set([undefined, LOST, thrown(BROKEN)], { triesMax: 1 });
  assert.deepEqual(await time.during(claims.once("k", PAY, pay)), { receipt: 1 });
  assert.deepEqual(kept.actions, ["begin", "finish", "finish", "finish"]);
  assert.deepEqual(kept.carriedOut, ["FRESH", "FINISHED", "DONE"]);
});

test("a finish is tried until the lease ends", async () => {
  const faults = [undefined, ...Array.from({ length: 1_000 }, () => thrown(BROKEN))];
  const { time, claims, pay } = set(faults, { triesMax: 1 });
  const error = await errorOf(time, claims.once("k", PAY, pay, { lease: 3_000 }));
  assert.ok(error instanceof UnkeptResultError && error instanceof AmbiguousError);
  assert.deepEqual([error.result, error.maybeDone], [{ receipt: 1 }, true]);
  assert.ok(time.now > 2_500 && time.now <= 3_000, `ended after ${time.now} ms`);
});

test("a finish that is refused is not tried again", async () => {
  const { time, kept, claims, pay } = set([undefined, refusal("QUOTA")]);
  const error = await errorOf(time, claims.once("k", PAY, pay));
  assert.ok(error instanceof UnkeptResultError);
  assert.deepEqual([error.reason, kept.actions], ["QUOTA", ["begin", "finish"]]);
});

test("a lease that ends before its finish says what happened", async () => {
  const { time, kept, claims } = set();
  const slow = async () => {
    kept.aheadMs += 30_000;
    const { lease } = await claims.claim("k", PAY);
    await lease.finish("other");
    return "paid";
  };
  const error = await errorOf(time, claims.once("k", PAY, slow));
  assert.ok(error instanceof UnkeptResultError);
  assert.ok(error.cause instanceof LeaseLostError);
  const done = await time.during(claims.claim("k", PAY));
  assert.deepEqual(done, { status: "done", result: "other", untilMs: undefined });
});

test("a result that its codec does not read is named", async () => {
  const { time, client, claims, pay } = set();
  await time.during(claims.once("k", PAY, pay));
  const decode = failing(new CodecError("it is no pair"));
  const codec = { encode: () => new Uint8Array(), decode };
  const others = client.claims("pay", { owner: SHARED, codec });
  const error = await errorOf(time, others.claim("k", PAY));
  assert.ok(error instanceof CodecError);
  assert.match(error.message, /the result of "k": it is no pair/);
});

test("what is no claim is refused unsent", async () => {
  const { time, kept, claims } = set();
  for (const digest of ["text", new Uint8Array(), new Uint8Array(65), undefined]) {
    assert.equal((await errorOf(time, claims.claim("k", digest))).reason, "BAD_REQUEST");
  }
  for (const lease of [0, -1, Number.NaN]) {
    assert.equal((await errorOf(time, claims.claim("k", PAY, { lease }))).reason, "BAD_LIFETIME");
  }
  const { lease } = await time.during(claims.claim("k", PAY));
  assert.equal((await errorOf(time, lease.finish(1, "keep"))).reason, "BAD_LIFETIME");
  assert.deepEqual(kept.actions, ["begin"]);
  assert.equal(await time.during(claims.delete("k")), true);
  assert.equal(await time.during(claims.delete("k")), false);
});

test("a digest is that of the request whatever its order, and that of other languages", async () => {
  const request = { to: "Zoë", amount: 5, lines: [1, 2.5, null], 10: 1, 9: 2, none: undefined };
  const turned = { 9: 2, 10: 1, lines: [1, 2.5, null], amount: 5, to: "Zoë" };
  const text = '{"10":1,"9":2,"amount":5,"lines":[1,2.5,null],"to":"Zoë"}';
  const expected = createHash("sha256").update(text).digest("hex");
  for (const each of [request, turned]) {
    assert.equal(Buffer.from(await digestOf(each)).toString("hex"), expected);
  }
  // By code points, the order of other languages: U+FF5E is before U+1F600.
  const names = { "\u{1F600}": 1, "\uFF5E": 2 };
  const ordered = createHash("sha256").update('{"\uFF5E":2,"\u{1F600}":1}').digest("hex");
  assert.equal(Buffer.from(await digestOf(names)).toString("hex"), ordered);
  // A double beyond 64 bits, and both zeros.
  const numbers = createHash("sha256").update("[123456789012345680000,0,0]").digest("hex");
  assert.equal(Buffer.from(await digestOf([123456789012345680000, -0, 0])).toString("hex"), numbers);
  for (const wrong of [2n ** 64n, 2 ** 53, Number.NaN, Infinity, [-Infinity], new Map(), "\ud800"]) {
    await assert.rejects(digestOf(wrong), CodecError);
  }
});
