// Handles, keys, transactions and lists on three nodes.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import {
  Aborted, Client, CodecError, Committed, ConflictError, InvalidError, json, raw, SHARED,
} from "../dist/index.js";
import { Cluster, until } from "./nodes.mjs";

let cluster;
let client;

before(async () => {
  cluster = await Cluster.shared();
  client = new Client(cluster.endpoints, { deadline: 120_000 });
});

after(async () => {
  client?.close();
  await cluster?.stop();
});

const handles = (options = {}) => client.handles("cart", { owner: randomUUID(), ...options });
const keys = (options = {}) => client.keys({ owner: randomUUID(), ...options });
const all = async (items) => {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
};

test("a handle is minted, read, written, renewed and taken once", async () => {
  const carts = handles({ idPrefix: "cart", idleTtl: 3_600_000 });
  const id = await carts.mint({ lines: ["tea"] });
  assert.match(id, /^cart-[A-Z2-7]{26}$/);
  assert.deepEqual(await carts.get(id), { lines: ["tea"] });
  assert.equal(await carts.put(id, { lines: [] }), true);
  const { status, record } = await carts.resolve(id);
  assert.equal(status, "live");
  assert.equal(record.info.idleTtlMs, 3_600_000);
  assert.equal(record.info.expiresAtMs, undefined);
  const renewed = await carts.renew(id, 60_000);
  assert.ok(renewed.record.expiresAtMs > renewed.record.createdAtMs);
  assert.equal(await carts.count(), 1);
  const takers = await Promise.all(Array.from({ length: 8 }, () => carts.take(id)));
  assert.deepEqual(takers.map((each) => each.status).sort(), ["live", ...Array(7).fill("taken")]);
  assert.equal(await carts.count(), 0);
  assert.deepEqual(await carts.putIf(id, { lines: [] }, 0), { status: "taken" });
});

test("conditions on revisions are outcomes", async () => {
  const store = handles();
  const created = await store.putIfAbsent("h", 1);
  assert.equal(created.status, "created");
  const { revision } = created.info;
  assert.deepEqual(await store.putIfAbsent("h", 2), { status: "conflict", revision });
  assert.deepEqual(await store.takeIf("h", revision + 1), { status: "conflict", revision });
  assert.equal((await store.putIf("h", 3, revision)).status, "replaced");
  assert.equal(await store.delete("h"), true);
  assert.equal(await store.delete("h"), false);
  assert.deepEqual(await store.resolve("h"), { status: "unknown" });
  assert.deepEqual(await store.update("h", (value) => value), { status: "unknown" });
});

test("a handle of another owner is unknown", async () => {
  const alice = handles({ owner: "alice" });
  const id = await alice.mint("mine");
  assert.equal(await alice.forOwner("bob").get(id), undefined);
  assert.equal(await alice.forOwner(SHARED).get(id), undefined);
  assert.equal(await alice.get(id), "mine");
});

test("a lifetime ends, and an idle time is restarted", async () => {
  const store = handles({ defaultTtl: 50 });
  const id = await store.mint(1);
  await until("the handle to expire", async () => (await store.resolve(id)).status === "expired");
  const kept = await store.mint(1, "never");
  assert.equal((await store.resolve(kept)).record.info.expiresAtMs, undefined);
});

test("concurrent updates are all kept", async () => {
  const store = handles();
  const id = await store.mint(0);
  await Promise.all(Array.from({ length: 32 }, () => store.update(id, (count) => count + 1)));
  assert.equal(await store.get(id), 32);
});

test("keys are stored, read, listed, taken and deleted", async () => {
  const jobs = keys();
  const { revision } = await jobs.put("jobs/1", { state: "new" }, 3_600_000);
  assert.equal((await jobs.putIf("jobs/1", { state: "running" }, revision)).status, "replaced");
  assert.equal((await jobs.putIf("jobs/1", { state: "late" }, revision)).status, "conflict");
  await jobs.putMany([["jobs/2", { state: "new" }], ["other", {}]]);
  const found = await jobs.getMany(["jobs/2", "none", "jobs/1"]);
  assert.deepEqual(found.map((each) => each?.value.state), ["new", undefined, "running"]);
  assert.deepEqual((await all(jobs.list("jobs/"))).map(({ name }) => name), ["jobs/1", "jobs/2"]);
  assert.equal(await jobs.exists("jobs/1"), true);
  assert.deepEqual((await jobs.take("jobs/1")).value, { state: "running" });
  assert.equal(await jobs.take("jobs/1"), undefined);
  assert.equal(await jobs.deleteIf("jobs/2", revision), false);
  assert.equal(await jobs.delete("jobs/2"), true);
  assert.equal(await jobs.delete("jobs/2"), false);
  assert.equal(await jobs.get("jobs/2"), undefined);
  assert.equal((await jobs.update("n", (count = 0) => count + 1)).value, 1);
});

test("a transaction takes effect as a whole or not at all", async () => {
  const [carts, orders] = [handles(), keys()];
  const id = await carts.mint(["tea"]);
  const checkout = client.transaction();
  const taken = checkout.take(carts, id);
  const order = checkout.putKey(orders, `orders/${id}`, { paid: false }, { ifRevision: 0 });
  const note = checkout.mint(carts, ["note"]);
  const gone = checkout.deleteKey(orders, "none");
  const done = await checkout.commit();
  assert.ok(done instanceof Committed);
  assert.deepEqual(done.taken(taken).value, ["tea"]);
  assert.equal(done.info(order).revision, done.revision);
  assert.equal(done.existed(order), false);
  assert.equal(done.existed(gone), false);
  assert.equal(done.info(gone), undefined);
  assert.deepEqual(await carts.get(done.info(note).name), ["note"]);

  const again = client.transaction();
  again.putKey(orders, "never", {});
  again.take(carts, id);
  const aborted = await again.commit();
  assert.ok(aborted instanceof Aborted);
  assert.deepEqual([aborted.operation, aborted.reason], [1, "taken"]);
  assert.equal(await orders.exists("never"), false);

  const stale = client.transaction();
  stale.putKey(orders, "never", {});
  stale.putKey(orders, `orders/${id}`, { paid: true }, { ifRevision: 1 });
  await assert.rejects(stale.commit(), (error) => {
    assert.ok(error instanceof ConflictError, error);
    assert.deepEqual([error.operation, error.revision], [1, done.revision]);
    return true;
  });
});

test("a list of any length comes in pages, each of one view", async () => {
  const many = keys();
  const names = Array.from({ length: 2_300 }, (_, at) => `k/${String(at).padStart(5, "0")}`);
  for (let at = 0; at < names.length; at += 100) {
    await many.putMany(names.slice(at, at + 100).map((name) => [name, name]));
  }
  assert.deepEqual((await all(many.list("k/"))).map(({ name }) => name), names);
  assert.deepEqual((await all(many.scan("k/", 700))).map(({ value }) => value), names);
  const page = await many.listPage({ prefix: "k/", after: "k/00009", limit: 5 });
  assert.deepEqual(page.items.map(({ name }) => name), names.slice(10, 15));
  assert.equal(page.next, "k/00014");
  assert.equal((await many.listPage({ limit: 1_000_000 })).items.length, 1_000);
  const last = await many.listPage({ after: "k/02298", limit: 1 });
  assert.deepEqual([last.items.length, last.next], [1, undefined]);

  const store = handles();
  const ids = await Promise.all(Array.from({ length: 30 }, (_, at) => store.mint(at)));
  assert.deepEqual((await all(store.list(7))).map(({ name }) => name), ids.sort());
  assert.equal((await all(store.scan())).length, 30);
});

test("values of a mebibyte are kept, and listed though no reply holds them all", async () => {
  const store = keys({ codec: raw });
  const value = (at) => new Uint8Array(1 << 20).fill(at);
  for (let at = 0; at < 12; at += 1) await store.put(`big/${at}`, value(at));
  const found = await all(store.scan("big/"));
  assert.equal(found.length, 12);
  for (const { name, value: bytes } of found) {
    assert.ok(Buffer.from(bytes).equals(value(Number(name.slice(4)))), name);
  }
  await assert.rejects(store.put("big/more", new Uint8Array((1 << 20) + 1)), InvalidError);
  await assert.rejects(store.put("big/most", new Uint8Array(8 << 20)), { reason: "TOO_LARGE" });
});

test("numbers and texts come back as they are", async () => {
  const store = keys();
  const value = { id: 18446744073709551615n, ratio: 0.1, text: "\ud83d\ude00\u0000\u2028", zero: -0, big: 1e300 };
  await store.put("exact", value);
  assert.deepStrictEqual(await store.get("exact"), value);
  await assert.rejects(store.put("exact", { id: 2 ** 53 }), CodecError);
  await store.forOwner(store.settings.owner).put("bytes", null);
  const bytes = client.keys({ owner: store.settings.owner, codec: raw });
  await bytes.put("bytes", new TextEncoder().encode('{"a":1,"a":2}'));
  await assert.rejects(store.get("bytes"), /record "bytes": .* occurs twice/);
  assert.deepEqual(json().decode(json().encode([1n])), [1]);
});

test("what breaks a rule is refused with its reason", async () => {
  const rejected = async (work, reason) => assert.rejects(work, { kind: "Invalid", reason });
  await rejected(client.handles("No Store", { owner: SHARED }).mint(1), "BAD_NAME");
  await rejected(keys().put("", 1), "BAD_KEY");
  await rejected(keys().put("a".repeat(1_025), 1), "TOO_LARGE");
  await rejected(handles().put("a\0", 1), "BAD_ID");
  await rejected(keys().put("k", 1, 0), "BAD_LIFETIME");
});

test("any node answers, and names the leader to begin with", async () => {
  for (const endpoint of cluster.endpoints) {
    // On a busy machine the leader may change meanwhile.
    await until("calls under one leader", async () => {
      const leader = await cluster.leader();
      const urls = [];
      const one = new Client([endpoint, ...cluster.endpoints.filter((each) => each !== endpoint)], {
        deadline: 120_000,
        attemptTimeout: 120_000,
        fetch: (url, init) => (urls.push(url), fetch(url, init)),
      });
      const store = one.handles("any", { owner: SHARED });
      const id = await store.mint(1);
      assert.equal(await store.get(id), 1);
      assert.equal(new URL(urls[0]).host, endpoint);
      if ((await cluster.leader()) !== leader) return false;
      assert.equal(new URL(urls.at(-1)).port, String(leader.port));
      return true;
    });
  }
});

test("a wrong clock of this machine does no harm", async () => {
  const wallMs = () => Date.now() + 3_600_000;
  const skewed = new Client(cluster.endpoints, { deadline: 120_000, runtime: { wallMs } });
  const store = skewed.handles("skewed", { owner: SHARED });
  const id = await store.mint("late");
  assert.equal(await store.get(id), "late");
  assert.ok(Math.abs(skewed.clockMs() - Date.now()) < 60_000);
});
