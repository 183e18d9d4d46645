// A node with TLS and tokens: who is let in, and what is said to those who are not.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { createServer as createSecureServer } from "node:tls";
import { promisify } from "node:util";

import { freePort, helveBinary, Process, until } from "./nodes.mjs";

const run = promisify(execFile);
const LIBRARY = new URL("../dist/index.js", import.meta.url);

let directory;
let secrets;
let node;
let address;

before(async () => {
  const helve = helveBinary();
  directory = mkdtempSync(join(tmpdir(), "helve-typescript-"));
  secrets = join(directory, "secrets");
  await run(helve, ["init", "--dir", secrets, "--token", "shop"]);
  const [port, peer, http] = [await freePort(), await freePort(), await freePort()];
  const file = (name) => join(secrets, name);
  address = `127.0.0.1:${port}`;
  const command = [
    helve, "serve", "--id", "1", "--data-dir", join(directory, "node"),
    "--listen", address, "--tls-cert", file("node-1.crt"), "--tls-key", file("node-1.key"),
    "--peer-listen", `127.0.0.1:${peer}`, "--http-listen", `127.0.0.1:${http}`,
    "--peers", `1=127.0.0.1:${peer}`, "--peer-tls-cert", file("node-1.crt"),
    "--peer-tls-key", file("node-1.key"), "--peer-tls-ca", file("ca.crt"),
    "--auth", "tokens", "--operator-token-file", file("operator.token"),
    "--data-key-file", file("data.key"),
  ];
  node = new Process(command, port, join(directory, "node.log"));
  await node.start();
  const grant = [
    "token", "create", "--tenant", "default", "--role", "writer", "--name", "shop",
    "--text-file", file("shop.token"), "--tls-ca", file("ca.crt"),
    "--token-file", file("operator.token"), "--endpoints", address,
  ];
  await until("the token to be let in", () => run(helve, grant).then(() => true, () => false));
});

after(async () => {
  if (node?.running) await node.kill();
  if (directory) rmSync(directory, { recursive: true, force: true });
});

/** What a mint and a get come to in a process that trusts this CA: it reads it when it starts. */
async function tried({
  token, tls = true, ca = join(secrets, "ca.crt"), deadline = 120_000, triesMax, at = address,
}) {
  // One try is not cut off, however busy the machine is: it would leave doubt.
  const options = JSON.stringify({ token, tls, deadline, attemptTimeout: deadline, triesMax });
  const script = `
    import { Client, SHARED } from ${JSON.stringify(LIBRARY.href)};
    const store = new Client(${JSON.stringify(at)}, ${options}).handles("s", { owner: SHARED });
    const fault = ({ kind, reason, maybeDone, message }) => ({ kind, reason, maybeDone, message });
    const done = await store.mint({ a: 1 }).then((id) => store.get(id)).catch(fault);
    console.log(JSON.stringify(done));`;
  const file = join(directory, "tried.mjs");
  writeFileSync(file, script);
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: ca, DENO_CERT: ca };
  const { stdout } = await run(process.execPath, [file], { env });
  return JSON.parse(stdout);
}

const shop = () => readFileSync(join(secrets, "shop.token"), "utf8").trim();

test("a token is let in over TLS", async () => {
  assert.deepEqual(await tried({ token: shop() }), { a: 1 });
});

test("without a token nothing is done", async () => {
  for (const token of [undefined, `hlv_${"A".repeat(43)}`]) {
    const { kind, reason, maybeDone } = await tried({ token });
    assert.deepEqual({ kind, reason, maybeDone }, { kind: "Denied", reason: "UNAUTHENTICATED", maybeDone: false });
  }
});

test("another CA is unavailable at once, and says why", async () => {
  const other = join(directory, "other");
  await run(helveBinary(), ["init", "--dir", other]);
  const { kind, maybeDone, message } = await tried({ token: shop(), ca: join(other, "ca.crt") });
  assert.deepEqual({ kind, maybeDone }, { kind: "Unavailable", maybeDone: false });
  assert.match(message, /^cannot agree on TLS with 127\.0\.0\.1:\d+: .*Does the runtime trust its CA/);
});

test("plain text to a node with TLS is no success", async () => {
  const { kind } = await tried({ token: shop(), tls: false, deadline: 2_000, triesMax: 1 });
  assert.ok(["Unavailable", "Ambiguous"].includes(kind), kind);
});

test("TLS that breaks behind a request leaves a write in doubt", async () => {
  const sockets = [];
  const kept = (socket) => void sockets.push(socket.on("error", () => {}));
  const [cert, key] = ["node-1.crt", "node-1.key"].map((name) => readFileSync(join(secrets, name)));
  let outer;
  let requests = 0;
  const secure = createSecureServer({ cert, key }, (socket) => {
    kept(socket);
    socket.once("data", () => {
      requests += 1;
      outer.write("this is no TLS\r\n");
    });
  });
  const listening = (server) => new Promise((done) => server.listen(0, "127.0.0.1", done));
  await listening(secure);
  // What is between passes bytes on as they are, and adds its own.
  const between = createServer((socket) => {
    const inner = connect(secure.address().port, "127.0.0.1");
    for (const each of [socket, inner]) kept(each);
    socket.pipe(inner).pipe(socket);
    outer = socket;
  });
  await listening(between);
  const at = `127.0.0.1:${between.address().port}`;
  const { kind, maybeDone } = await tried({ token: shop(), at, deadline: 5_000, triesMax: 1 });
  assert.deepEqual({ kind, maybeDone }, { kind: "Ambiguous", maybeDone: true });
  assert.ok(requests > 0);
  for (const socket of sockets) socket.destroy();
  for (const server of [secure, between]) server.close();
});
