// The examples of the README run as they are.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { Client } from "../dist/index.js";
import { claimsAreKnown, Cluster } from "./nodes.mjs";

const README = readFileSync(new URL("../README.md", import.meta.url), "utf8");
const EXAMPLES = [...README.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code);
/** Of each example, what it prints. */
const PRINTS = [
  // Deno prints other quotes.
  /order: \[ ['"]tea['"] \]/, /jobs\/1 running\nordered \[ ['"]tea['"] \] at revision \d+/,
  /^(paid under lease \d+)\n\1\nit was paid before: \1\n$/, /^$/,
];
const { bun, deno } = process.versions;
const RUNTIME = deno ? "deno" : bun ? "bun" : "node";
// Within the package, so that its name is resolved as for its users; runtimes are tested side by side.
const PLACE = new URL(`../build/readme-${RUNTIME}/`, import.meta.url);

let cluster;

before(async () => {
  cluster = await Cluster.shared();
  const client = new Client(cluster.endpoints);
  await claimsAreKnown(client);
  client.close();
});

after(async () => cluster?.stop());

test("there are as many examples as are run", () => {
  assert.equal(EXAMPLES.length, PRINTS.length);
});

for (const [at, prints] of PRINTS.entries()) {
  test(`example ${at + 1}`, async () => {
    let code = EXAMPLES[at];
    for (const [node, port] of [7400, 7410, 7420].entries()) {
      code = code.replaceAll(`127.0.0.1:${port}`, cluster.endpoints[node]);
    }
    mkdirSync(PLACE, { recursive: true });
    const script = fileURLToPath(new URL(`${at + 1}.mjs`, PLACE));
    writeFileSync(script, code);
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [script], { timeout: 60_000 });
    assert.match(stdout, prints);
    assert.equal(stderr, "");
  });
}
