// Each operation of the package, in a worker of a browser: only names of the web are there.

import { Client, digestOf, SHARED } from "/dist/index.js";
import { KeyvHelve } from "/dist/keyv.js";
import { EventStore } from "/dist/mcp.js";

const called = new Set();

/** An object that notes which of its methods are called. */
function noted(kind, object) {
  const get = (_, name) => {
    const value = object[name];
    if (typeof value !== "function") return value;
    called.add(`${kind}.${name}`);
    return value.bind(object);
  };
  return new Proxy(object, { get });
}

function same(found, expected) {
  const [one, other] = [found, expected].map((value) => JSON.stringify(value));
  if (one !== other) throw new Error(`found ${one}, in place of ${other}`);
}

async function all(items) {
  const found = [];
  for await (const { name } of items) found.push(name);
  return found;
}

async function handles(client) {
  const store = noted("handles", client.handles("worker", { owner: SHARED, idPrefix: "cart" }));
  const id = await store.mint(["tea"]);
  same(await store.get(id), ["tea"]);
  same(await store.put(id, []), true);
  const { record } = await store.resolve(id);
  same((await store.putIf(id, [1], record.info.revision)).status, "replaced");
  same((await store.putIfAbsent(id, [2])).status, "conflict");
  same((await store.update(id, (value) => [...value, 3])).record.value, [1, 3]);
  same((await store.renew(id, 60_000)).status, "live");
  same(await store.count(), 1);
  for (const list of [store.list(), store.scan()]) same(await all(list), [id]);
  for (const page of [store.listPage(), store.listValuesPage()]) same(await all((await page).items), [id]);
  same((await store.takeIf(id, 1)).status, "conflict");
  same((await store.take(id)).record.value, [1, 3]);
  same(await store.delete(id), false);
}

async function keys(client) {
  const store = noted("keys", client.keys({ owner: "worker" }));
  const { revision } = await store.put("a", { big: 2n ** 60n, text: "é" });
  same((await store.putIf("a", 1, revision)).status, "replaced");
  same((await store.putIfAbsent("a", 2)).status, "conflict");
  await store.putMany([["b", 2], ["c", 3]]);
  same(await store.get("a"), 1);
  same((await store.getRecord("b")).value, 2);
  same((await store.getMany(["c", "none"])).map((found) => found?.value ?? null), [3, null]);
  same(await store.exists("c"), true);
  same((await store.update("a", (value) => value + 1)).value, 2);
  for (const list of [store.list(), store.scan()]) same(await all(list), ["a", "b", "c"]);
  for (const page of [store.listPage(), store.listValuesPage()]) {
    same(await all((await page).items), ["a", "b", "c"]);
  }
  same((await store.take("a")).value, 2);
  same(await store.deleteIf("b", 1), false);
  same(await store.delete("b"), true);
}

async function claims(client) {
  const store = noted("claims", client.claims("worker", { owner: SHARED }));
  const digest = await digestOf({ order: 17 });
  for (let round = 0; round < 2; round += 1) same(await store.once("a", digest, async () => "paid"), "paid");
  const given = noted("claims", (await store.claim("b", digest)).lease);
  same(await given.abandon(), true);
  const kept = noted("claims", (await store.claim("b", digest)).lease);
  same([kept.earlier.end, await kept.finish(1)], ["abandoned", 1]);
  same(await store.delete("b"), true);
}

async function transaction(client) {
  const [store, others] = [client.handles("worker", { owner: SHARED }), client.keys({ owner: SHARED })];
  const [one, two, three, four] = await Promise.all([1, 2, 3, 4].map((value) => store.mint(value)));
  await others.put("gone", 1);
  const steps = noted("transaction", client.transaction());
  steps.mint(store, 0);
  steps.put(store, one, 5);
  const taken = steps.take(store, two);
  steps.renew(store, four, 60_000);
  steps.delete(store, three);
  steps.putKey(others, "order", 6);
  const gone = steps.deleteKey(others, "gone");
  const done = await steps.commit();
  same([done.status, done.taken(taken).value, done.existed(gone)], ["committed", 2, true]);
}

async function plugs(client) {
  const events = new EventStore(client);
  const [first, second] = [await events.storeEvent("s", { id: 1 }), await events.storeEvent("s", { id: 2 })];
  const sent = [];
  await events.replayEventsAfter(first, { send: async (id, { id: number }) => void sent.push(id, number) });
  same(sent, [second, 2]);
  const entries = new KeyvHelve(client);
  await entries.set("k", "v");
  same([await entries.get("k"), await entries.delete("k")], ["v", true]);
}

async function report() {
  const client = new Client(location.host, { deadline: 120_000 });
  for (const part of [handles, keys, claims, transaction, plugs]) await part(client);
  client.close();
  const foreign = ["process", "Buffer", "require", "setImmediate", "Deno", "Bun", "window"];
  return { called: [...called], foreign: foreign.filter((name) => name in globalThis) };
}

const told = await report().catch((error) => ({ error: String(error?.stack) }));
await fetch("/report", { method: "POST", body: JSON.stringify(told) });
