// The event store of the MCP SDK and the storage adapter of Keyv, and the example, on three nodes.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import { handler } from "../build/examples/cart.js";
import { Client } from "../dist/index.js";
import { KeyvHelve } from "../dist/keyv.js";
import { EventStore } from "../dist/mcp.js";
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

const events = (options) => new EventStore(client, { owner: randomUUID(), ...options });
const message = (id) => ({ jsonrpc: "2.0", id, method: "notify", params: { n: id } });

async function replayed(store, after) {
  const sent = [];
  const stream = await store.replayEventsAfter(after, {
    send: async (id, each) => void sent.push([id, each]),
  });
  return { stream, sent };
}

test("what follows an event is replayed in order, of its stream alone", async () => {
  const store = events();
  const [prime, one] = [await store.storeEvent("a", {}), await store.storeEvent("a", message(1))];
  await store.storeEvent("b", message(9));
  const two = await store.storeEvent("a", message(2));
  await store.storeEvent("a", {});
  assert.deepEqual(await replayed(store, prime), { stream: "a", sent: [[one, message(1)], [two, message(2)]] });
  assert.deepEqual(await replayed(store, one), { stream: "a", sent: [[two, message(2)]] });
  assert.equal(await store.getStreamIdForEventId(two), "a");
});

test("an event that is not known is told, and never taken for the last", async () => {
  const store = events();
  for (const id of ["", "x", "../../etc", `${"0".repeat(32)}.${"0".repeat(32)}`]) {
    assert.equal(await store.getStreamIdForEventId(id), undefined);
    await assert.rejects(replayed(store, id), /no such event any more/);
  }
});

test("sessions share no streams", async () => {
  const store = events();
  const [one, other] = [await store.scoped("one"), await store.scoped("other")];
  const id = await one.storeEvent("0", message(1));
  assert.equal(await other.getStreamIdForEventId(id), undefined);
  assert.equal(await (await store.scoped("one")).getStreamIdForEventId(id), "0");
});

test("old events of a stream are deleted, and the newest are kept", async () => {
  const store = events({ maxEventsPerStream: 8 });
  const ids = [];
  for (let at = 0; at < 20; at += 1) ids.push(await store.storeEvent("s", message(at)));
  assert.equal(await store.getStreamIdForEventId(ids[11]), undefined);
  const { sent } = await replayed(store, ids[12]);
  assert.deepEqual(sent.map(([, each]) => each.id), [13, 14, 15, 16, 17, 18, 19]);
  assert.throws(() => events({ maxEventsPerStream: 0 }), /at least 1/);
});

test("events of many writers at once are replayed once each, over several pages", async () => {
  const store = events({ maxEventsPerStream: 2_000 });
  const begin = await store.storeEvent("s", {});
  const writes = Array.from({ length: 1_100 }, (_, at) => store.storeEvent("s", message(at)));
  const ids = await Promise.all(writes);
  const { sent } = await replayed(store, begin);
  assert.deepEqual(sent.map(([id]) => id).sort(), ids.sort());
});

const keyv = (options) => new KeyvHelve(client, { owner: randomUUID(), ...options });

test("a Keyv store keeps, finds and deletes entries", async () => {
  const store = keyv();
  assert.equal(store.capabilities.expires, true);
  assert.equal(store.on("error", () => {}), store);
  assert.equal(await store.set("a", '{"value":1}'), true);
  assert.equal(await store.get("a"), '{"value":1}');
  assert.equal(await store.get("none"), undefined);
  assert.equal(await store.has("a"), true);
  assert.equal(await store.delete("a"), true);
  assert.equal(await store.delete("a"), false);
  assert.equal(await store.has("a"), false);
  await store.set("envelope", { value: [1], expires: undefined });
  assert.deepEqual(await store.get("envelope"), { value: [1] });
});

test("a Keyv store takes many entries at once", async () => {
  const store = keyv();
  const entries = Array.from({ length: 300 }, (_, at) => ({ key: `k${at}`, value: `v${at}` }));
  assert.deepEqual(await store.setMany(entries), entries.map(() => true));
  assert.deepEqual(await store.setMany([]), []);
  assert.deepEqual(await store.getMany([]), []);
  assert.deepEqual(await store.getMany(entries.map(({ key }) => key)), entries.map(({ value }) => value));
  assert.deepEqual(await store.hasMany(["k1", "none", "k299"]), [true, false, true]);
  assert.deepEqual(await store.deleteMany(["k1", "none", "k1"]), [true, false, true]);
  assert.deepEqual(await store.getMany(["k1", "k2"]), [undefined, "v2"]);
  await store.setMany([{ key: "twice", value: "1" }, { key: "twice", value: "2" }]);
  assert.equal(await store.get("twice"), "2");
});

test("a Keyv store reads values that no single reply holds", async () => {
  const store = keyv();
  const keys = Array.from({ length: 12 }, (_, at) => `big${at}`);
  await store.setMany(keys.map((key) => ({ key, value: key.padEnd(1_000_000, ".") })));
  const found = await store.getMany(keys);
  assert.deepEqual(found.map((value) => value.length), keys.map(() => 1_000_000));
});

test("an entry of a Keyv store expires at its time", async () => {
  const store = keyv();
  await store.setMany([
    { key: "soon", value: "1", expires: Date.now() + 100 },
    { key: "later", value: "2", expires: Date.now() + 3_600_000 },
  ]);
  await store.set("past", "3", Date.now() + 3_600_000);
  await store.set("past", "4", Date.now() - 1);
  assert.equal(await store.get("past"), undefined);
  await until("the entry to expire", async () => !(await store.has("soon")));
  assert.deepEqual(await store.getMany(["soon", "later"]), [undefined, "2"]);
});

test("namespaces of a Keyv store are apart", async () => {
  const store = keyv();
  await store.set("k", "none");
  for (const namespace of ["a", "a/b", "a%2Fb", "a:b"]) {
    store.namespace = namespace;
    assert.equal(await store.get("k"), undefined);
    await store.set("k", namespace);
    await store.set("b/k", "deep");
  }
  store.namespace = "a";
  const found = new Map();
  for await (const [key, value] of store.iterator()) found.set(key, value);
  assert.deepEqual(found, new Map([["b/k", "deep"], ["k", "a"]]));
  await store.clear();
  assert.equal(await store.has("k"), false);
  store.namespace = "a/b";
  assert.equal(await store.get("k"), "a/b");
  store.namespace = undefined;
  assert.equal(await store.get("k"), "none");
});

test("the example keeps carts through any replica, and sells each once", async () => {
  const replicas = cluster.endpoints.map((endpoint) => handler(new Client([endpoint], { deadline: 120_000 })));
  const ask = async (replica, method, path, body, user = "alice") => {
    const init = { method, headers: { "x-user": user }, ...(body && { body: JSON.stringify(body) }) };
    const response = await replicas[replica](new Request(`http://shop${path}`, init));
    return { status: response.status, ...(await response.json()) };
  };
  const { cart, status } = await ask(0, "POST", "/carts");
  assert.equal(status, 201);
  await Promise.all(
    Array.from({ length: 9 }, (_, at) => ask(at % 3, "POST", `/carts/${cart}`, { item: `tea ${at}` })),
  );
  assert.equal((await ask(1, "GET", `/carts/${cart}`)).items.length, 9);
  assert.equal((await ask(1, "GET", `/carts/${cart}`, undefined, "bob")).status, 404);
  const orders = await Promise.all([0, 1, 2].map((at) => ask(at, "DELETE", `/carts/${cart}`)));
  assert.deepEqual(orders.map(({ status: code }) => code).sort(), [200, 410, 410]);
  assert.equal(orders.find((each) => each.status === 200).ordered.length, 9);
  assert.equal((await ask(0, "PUT", "/carts")).status, 404);
});
