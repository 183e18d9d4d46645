// The package in a worker of Chromium, on three nodes. As in an edge runtime, only the web's names
// are there.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer, request as send } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Client } from "../dist/index.js";
import { claimsAreKnown, Cluster, until } from "./nodes.mjs";

const PACKAGE = new URL("../", import.meta.url);
const PAGE = `<script type="module">
  const told = ({ message = "the worker was not loaded" }) => JSON.stringify({ error: message });
  new Worker("/tests/edge/worker.mjs", { type: "module" }).onerror = (event) =>
    fetch("/report", { method: "POST", body: told(event) });
</script>`;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
];

/** Why it is not run; false if it is. */
function skipped() {
  const { bun, deno } = process.versions;
  if (bun !== undefined || deno !== undefined) return "it runs beside the tests under Node";
  const isMissing = spawnSync("chromium", ["--version"]).error !== undefined;
  return isMissing && process.env.HELVE_REQUIRE_FAULTS !== "1" && "chromium is not installed";
}

/** The text of a request's body. */
async function textOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts).toString();
}

/** Serves the page and the package, passes calls on to a node, and keeps what the worker reports. */
async function served(endpoint) {
  const found = {};
  const server = createServer(async (request, response) => {
    const { url, method, headers } = request;
    if (url === "/report") {
      found.report = JSON.parse(await textOf(request));
      response.end();
    } else if (method === "POST") {
      // A node refuses what bears the headers of pages.
      const kept = Object.entries(headers).filter(([name]) => !/^(origin|sec-fetch-.*)$/.test(name));
      const init = { method, headers: Object.fromEntries(kept) };
      const passed = send(`http://${endpoint}${url}`, init, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      request.pipe(passed.on("error", () => response.destroy()));
    } else if (url === "/") {
      response.writeHead(200, { "content-type": "text/html" }).end(PAGE);
    } else if (/^\/(dist|tests\/edge)\/\w+\.m?js$/.test(url)) {
      const code = readFileSync(new URL(`.${url}`, PACKAGE));
      response.writeHead(200, { "content-type": "text/javascript" }).end(code);
    } else {
      response.writeHead(404).end();
    }
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { server, found, page: `http://127.0.0.1:${server.address().port}/` };
}

/** The methods that the README's table of stores names. */
function methods() {
  const rows = readFileSync(new URL("README.md", PACKAGE), "utf8").matchAll(/^\| `(handles|keys|claims|transaction)\(.*?\)` \| (.*) \|$/gm);
  return [...rows].flatMap(([, kind, names]) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `${kind}.${name}`),
  );
}

test("each operation is carried out in a worker of a browser", { skip: skipped() }, async () => {
  const cluster = await Cluster.shared();
  const directory = mkdtempSync(join(tmpdir(), "helve-typescript-"));
  const client = new Client(cluster.endpoints);
  const { server, found, page } = await served(cluster.endpoints[0]);
  let browser;
  try {
    await claimsAreKnown(client);
    const flags = [...FLAGS, `--user-data-dir=${join(directory, "profile")}`, page];
    const env = { ...process.env, HOME: directory };
    // A group of its own, which ends as a whole.
    browser = spawn("chromium", flags, { env, stdio: "ignore", detached: true });
    browser.on("error", (error) => (found.report = { error: String(error) }));
    await until("the report of the worker", () => found.report);
    assert.equal(found.report.error, undefined);
    assert.deepEqual(found.report.foreign, []);
    const called = new Set(found.report.called);
    assert.ok(methods().length > 40, String(methods()));
    assert.deepEqual(methods().filter((name) => !called.has(name)), []);
  } finally {
    if (browser?.pid !== undefined) process.kill(-browser.pid, "SIGKILL");
    client.close();
    server.closeAllConnections();
    server.close();
    await cluster.stop();
    rmSync(directory, { recursive: true, force: true, maxRetries: 20 });
  }
});
