// Runs a command with three nodes that its tests share: node with_nodes.mjs COMMAND ARGUMENTS...

import { spawn } from "node:child_process";

import { Cluster } from "./nodes.mjs";

const [program, ...rest] = process.argv.slice(2);
const cluster = await Cluster.start();
try {
  const env = { ...process.env, HELVE_TEST_ENDPOINTS: cluster.endpoints.join(",") };
  const child = spawn(program, rest, { env, stdio: "inherit" });
  process.exitCode = await new Promise((done, fail) => {
    child.on("error", fail).on("exit", (status) => done(status ?? 1));
  });
} finally {
  await cluster.stop();
}
