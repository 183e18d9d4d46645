// In which span of the caller's calls are made, on nodes that answer by script.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, SHARED } from "../dist/index.js";
import { BROKEN, info, reply, scripted, thrown, Time } from "./fake.mjs";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const PARENT = `00-${TRACE}-${SPAN}-01`;
const OTHER = `00-${TRACE}-${SPAN}-00`;
const minted = () => reply({ info: info("minted") });

/** A client of two nodes, its time, and the spans that it told them of. */
function set(steps, options = {}) {
  const time = new Time();
  const { fetch, sent } = scripted(...steps);
  const client = new Client(["n0:1", "n1:1"], { fetch, runtime: time.runtime, ...options });
  const mint = (by) => time.during(by.handles("s", { owner: SHARED }).mint(1));
  return { client, mint, spans: () => sent.map(({ headers }) => headers.traceparent) };
}

test("each try bears the span, and other clients' calls do not", async () => {
  const { client, mint, spans } = set([thrown(BROKEN), minted(), minted(), minted()]);
  const traced = client.withTrace(PARENT);
  await mint(traced);
  await mint(client);
  await mint(traced.withTrace(OTHER).withDeadline(10_000));
  assert.deepEqual(spans(), [PARENT, PARENT, undefined, OTHER]);
});

test("a tracer is asked once for each call", async () => {
  const given = [PARENT, null, OTHER];
  const { client, mint, spans } = set([thrown(BROKEN), minted(), minted(), minted()], {
    traceparent: () => given.shift(),
  });
  for (let call = 0; call < 3; call += 1) await mint(client);
  assert.deepEqual(spans(), [PARENT, PARENT, undefined, OTHER]);
});

test("a client that is made of another is closed with it", async () => {
  const { client, mint } = set([]);
  const traced = client.withTrace(PARENT);
  client.close();
  await assert.rejects(mint(traced), { name: "ClosedError" });
});

test("flags and later versions are read as of version 00", async () => {
  for (const [text, expected] of [
    [`00-${TRACE}-${SPAN}-02`, OTHER],
    [`00-${TRACE}-${SPAN}-ff`, PARENT],
    [`cc-${TRACE}-${SPAN}-01`, PARENT],
    [`cc-${TRACE}-${SPAN}-01-more`, PARENT],
  ]) {
    const { client, mint, spans } = set([minted()]);
    await mint(client.withTrace(text));
    assert.deepEqual(spans(), [expected], text);
  }
});

test("what is malformed is left out", async () => {
  for (const text of [
    undefined, null, "", 7, PARENT.slice(1), `${PARENT}0`, `${PARENT}-more`, `${PARENT}\n`,
    ` ${PARENT}`, PARENT.toUpperCase(), PARENT.replaceAll("-", "_"), `ff-${TRACE}-${SPAN}-01`,
    `cc-${TRACE}-${SPAN}-01more`, `00-${"0".repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
  ]) {
    const { client, mint, spans } = set([minted(), minted()], { traceparent: () => text });
    await mint(client);
    await mint(client.withTrace(text));
    assert.deepEqual(spans(), [undefined, undefined], String(text));
  }
});
