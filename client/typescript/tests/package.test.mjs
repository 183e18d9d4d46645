// What is shipped: modules that import each other and nothing else.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const PACKAGE = new URL("../", import.meta.url);
const IMPORTS = /\b(?:from|import|require)\s*\(?\s*(["'`])(.*?)\1/g;

test("shipped modules import relative files alone", () => {
  const dist = new URL("dist/", PACKAGE);
  const modules = readdirSync(dist).filter((name) => name.endsWith(".js"));
  assert.ok(modules.includes("index.js"));
  let count = 0;
  for (const name of modules) {
    const code = readFileSync(new URL(name, dist), "utf8").replace(/^ *(\/\/|\/?\*).*$/gm, "");
    for (const [, , specifier] of code.matchAll(IMPORTS)) {
      assert.match(specifier, /^\.\/[a-z-]+\.js$/, `${name} imports ${specifier}`);
      assert.ok(existsSync(new URL(specifier, dist)), `${name} imports ${specifier}`);
      count += 1;
    }
  }
  assert.ok(count > modules.length, `${count} imports were found`);
});

test("the package has no dependencies, and its entries are there", () => {
  const { exports, ...rest } = JSON.parse(readFileSync(new URL("package.json", PACKAGE), "utf8"));
  const kinds = Object.keys(rest).filter((name) => /dependencies/i.test(name));
  assert.deepEqual(kinds, []);
  const files = Object.values(exports).flatMap((entry) =>
    typeof entry === "string" ? [entry] : Object.values(entry),
  );
  assert.ok(files.length > 1);
  for (const file of files) assert.ok(existsSync(new URL(file, PACKAGE)), file);
});
