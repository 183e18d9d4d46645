// What the platform's own `fetch` does when connections break: nodes here are bare sockets.

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, test } from "node:test";

import { AmbiguousError, Client, SHARED, UnavailableError } from "../dist/index.js";
import { repeatsWrites } from "../dist/runtime.js";
import { ofThrown } from "../dist/verdict.js";
import { info, REFUSED, thrown } from "./fake.mjs";
import { freePort } from "./nodes.mjs";

const REPLY = JSON.stringify({
  header: { index: "7", clockMs: String(Date.now()), leaderHint: "" },
  info: info("minted"),
});
const ANSWER = `HTTP/1.1 200 OK\r\ncontent-length: ${REPLY.length}\r\n\r\n${REPLY}`;

const servers = new Set();
const sockets = new Set();

after(() => {
  for (const socket of sockets) socket.destroy();
  for (const server of servers) server.close();
});

/** Whether bytes of HTTP/1.1 hold a whole request, of a length or of chunks. */
function isWhole(text) {
  const [head, body] = text.split(/\r\n\r\n(.*)/s);
  if (body === undefined) return false;
  const length = /content-length: *(\d+)/i.exec(head)?.[1];
  return length === undefined ? body.endsWith("0\r\n\r\n") : body.length >= Number(length);
}

/** A node that meets whole requests with `steps`, each a function of the connection. */
async function node(...steps) {
  const seen = [];
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    let text = "";
    socket.on("data", (data) => {
      text += data.toString("latin1");
      if (!isWhole(text)) return;
      seen.push(text);
      text = "";
      steps.shift()?.(socket, server);
    });
  });
  servers.add(server);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { seen, endpoint: `127.0.0.1:${server.address().port}` };
}

const once = (endpoint, options = {}) =>
  new Client(endpoint, { triesMax: 1, deadline: 60_000, attemptTimeout: 60_000, ...options })
    .handles("s", { owner: SHARED });
const answer = (socket) => void socket.write(ANSWER);

test("a write whose connection breaks is ambiguous", async () => {
  const faults = [
    (socket) => socket.destroy(),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end("what is this\r\n\r\n"),
    (socket) => socket.end(ANSWER.slice(0, -9)),
    (socket) => socket.end("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab"),
  ];
  for (const fault of faults) {
    const { endpoint, seen } = await node(fault);
    await assert.rejects(once(endpoint).mint(1), AmbiguousError, String(fault));
    assert.equal(seen.length, 1);
  }
});

test("a write on a kept connection is sent once, and ambiguous", async () => {
  // The node dies with the request: who sends it again by itself finds no connection.
  const die = (socket, server) => {
    server.close();
    socket.resetAndDestroy();
  };
  const { endpoint, seen } = await node(answer, die);
  const store = once(endpoint);
  assert.equal(await store.mint(1), "minted");
  await assert.rejects(store.mint(2), AmbiguousError);
  assert.equal(seen.length, 2);
});

test("the platform repeats no write by itself", async () => {
  const { endpoint, seen } = await node(answer, (socket) => socket.destroy(), answer);
  const store = once(endpoint);
  assert.equal(await store.mint(1), "minted");
  await assert.rejects(store.mint(2), AmbiguousError);
  assert.equal(seen.length, 2);
});

test("without a connection nothing is done", async () => {
  for (const endpoint of [`127.0.0.1:${await freePort()}`, "no-such-host.invalid:7400"]) {
    await assert.rejects(once(endpoint).mint(1), (error) => {
      assert.ok(error instanceof UnavailableError && !error.maybeDone, error);
      assert.match(error.message, /: cannot connect to /);
      return true;
    });
  }
});

test("a node without TLS is told at once, and nothing is done", async () => {
  const server = createServer((socket) => {
    sockets.add(socket.on("error", () => {}));
    socket.once("data", () => socket.end("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"));
  });
  servers.add(server);
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const endpoint = `127.0.0.1:${server.address().port}`;
  // Bun says the same of TLS that breaks behind a request, so that one try of a write leaves doubt.
  const isBun = process.versions.bun !== undefined;
  const store = once(endpoint, { tls: true, triesMax: isBun ? 1 : undefined });
  await assert.rejects(store.mint(1), (error) => {
    if (isBun) {
      assert.ok(error instanceof AmbiguousError, error);
      assert.match(error.message, /The TLS handshake failed/);
      return true;
    }
    assert.ok(error instanceof UnavailableError && !error.maybeDone, error);
    assert.match(error.message, /^cannot agree on TLS with /);
    return true;
  });
});

test("a request larger than one packet arrives whole", async () => {
  const { endpoint, seen } = await node(answer);
  const value = "é".repeat(300_000);
  assert.equal(await once(endpoint).mint(value), "minted");
  const body = seen[0].slice(seen[0].indexOf("{"), seen[0].lastIndexOf("}") + 1);
  const text = body.replace(/\r\n[0-9a-f]+\r\n/gi, "");
  assert.equal(Buffer.from(JSON.parse(text).value, "base64").toString(), JSON.stringify(value));
});

test("a platform that sends writes twice leaves each in doubt", () => {
  for (const agent of ["Bun/0.8.1", "Bun/1.2.23", "Bun/1.3.9", "Bun/1.3.13"]) {
    assert.equal(repeatsWrites(agent), true, agent);
  }
  for (const agent of ["Bun/1.3.14", "Bun/1.3.100", "Bun/1.4.0", "Bun/2.0.0", "Deno/1.0.0", ""]) {
    assert.equal(repeatsWrites(agent), false, agent);
  }
  for (const cause of [REFUSED, { code: "DEPTH_ZERO_SELF_SIGNED_CERT" }]) {
    assert.equal(ofThrown("a:1", thrown(cause), true).effect, "unknown");
    assert.equal(ofThrown("a:1", thrown(cause), false).effect, "not_done");
  }
});
