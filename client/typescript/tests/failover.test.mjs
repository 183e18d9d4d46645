// Exactly once while the leader dies or hangs: what was acknowledged is there once, and no more.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { AmbiguousError, Client } from "../dist/index.js";
import { EventStore } from "../dist/mcp.js";
import { Cluster, until } from "./nodes.mjs";

const WORKERS = 8;
const ROUNDS = 40;

let cluster;

before(async () => {
  cluster = await Cluster.start();
});

after(async () => cluster?.stop());

/** Loses the leader twice, each time in the middle of the work. */
async function lose(how, done, rounds) {
  for (const share of [0.1, 0.5]) {
    await until("the callers to get on", () => done() >= rounds * share);
    const leader = await cluster.leader();
    if (how === "kill") {
      await leader.kill();
      const before = done();
      await until("the others to go on", () => done() > before || done() === rounds);
      await leader.start();
    } else {
      leader.freeze();
      const before = done();
      await until("the others to go on", () => done() > before || done() === rounds);
      leader.thaw();
    }
    await cluster.ready();
  }
}

for (const how of ["kill", "freeze"]) {
  test(`counters, mints and takes take effect once: ${how}`, async () => {
    const client = new Client(cluster.endpoints, { deadline: 120_000 });
    const [counters, minted, queue] = ["counters", "minted", "queue"].map((owner) =>
      client.handles(`failover-${how}`, { owner }),
    );
    const counter = await counters.mint(0);
    const total = WORKERS * ROUNDS;
    const waiting = await Promise.all(Array.from({ length: total }, (_, at) => queue.mint(at)));
    const [doubts, ids, taken] = [[], [], []];
    let done = 0;
    const work = async (worker) => {
      for (let turn = 0; turn < ROUNDS; turn += 1) {
        await counters.update(counter, (count) => count + 1).catch((error) => {
          if (!(error instanceof AmbiguousError)) throw error;
          doubts.push(error);
        });
        ids.push(await minted.mint([worker, turn]));
        // Two workers ask for each: one of them gets it.
        for (const step of [0, 1]) {
          const at = (worker * ROUNDS + turn + step * ROUNDS) % total;
          const found = await queue.take(waiting[at]);
          if (found.status === "live") taken.push(found.record.value);
        }
        done += 1;
      }
    };
    const working = Promise.all(Array.from({ length: WORKERS }, (_, worker) => work(worker)));
    await Promise.all([working, lose(how, () => done, total)]);
    assert.deepEqual(doubts, [], "with two minutes for each call every outcome is known");
    assert.equal(await counters.get(counter), total);
    assert.equal(new Set(ids).size, total);
    assert.equal(await minted.count(), total);
    const values = [];
    for await (const { value } of minted.scan()) values.push(value[0] * ROUNDS + value[1]);
    const each = Array.from({ length: total }, (_, at) => at);
    assert.deepEqual(values.sort((a, b) => a - b), each);
    assert.deepEqual(taken.sort((a, b) => a - b), each, "each value was handed out once");
    client.close();
  });
}

const { bun, deno } = process.versions;
const skip = (bun ?? deno) !== undefined && "it runs under Node: the event store only calls the client";

test("no event is lost, whichever replicas write while the leader dies", { skip }, async () => {
  const replicas = cluster.endpoints.map((_, at) => {
    const endpoints = [...cluster.endpoints.slice(at), ...cluster.endpoints.slice(0, at)];
    return new EventStore(new Client(endpoints, { deadline: 120_000 }));
  });
  const [first] = replicas;
  const begin = await first.storeEvent("stream", {});
  const total = 300;
  const [stored, replayed] = [[], []];
  const write = async (store, replica) => {
    for (let turn = 0; turn < total / replicas.length; turn += 1) {
      const message = { jsonrpc: "2.0", id: `${replica}/${turn}`, result: {} };
      stored.push([await store.storeEvent("stream", message), message.id]);
    }
  };
  // A reader that reconnects all the time gets each event once, though others write meanwhile.
  const read = async () => {
    let last = begin;
    await until("the reader to have read all", async () => {
      await first.replayEventsAfter(last, {
        send: async (id, message) => {
          last = id;
          replayed.push([id, message.id]);
        },
      });
      return replayed.length >= total;
    });
  };
  await Promise.all([...replicas.map(write), read(), lose("kill", () => stored.length, total)]);
  assert.deepEqual(replayed.slice().sort(), stored.slice().sort());
  for (const replica of replicas.keys()) {
    const own = replayed.map(([, id]) => id).filter((id) => id.startsWith(`${replica}/`));
    assert.deepEqual(own, own.map((_, turn) => `${replica}/${turn}`), "in the order of writing");
  }
});
