// Three nodes as processes on loopback, to be killed and started again.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { promisify } from "node:util";

/** How long a condition may take to hold before a test fails: machines may be busy. */
const PATIENCE_MS = 120_000;
/** Between two looks at a condition. */
const PAUSE_MS = 50;

/** What the shell around the tests has set is no business of the nodes. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !name.startsWith("HELVE_")),
);

/** What `look` finds, once it finds something. */
export async function until(what, look) {
  const end = Date.now() + PATIENCE_MS;
  while (Date.now() < end) {
    const found = await look();
    if (found) return found;
    await setTimeout(PAUSE_MS);
  }
  throw new Error(`waited ${PATIENCE_MS} ms for ${what}`);
}

/** Waits until a cluster knows claims: a new one raises its level a moment after it serves. */
export async function claimsAreKnown(client) {
  const claims = client.claims("known", { owner: "known" });
  await until("the cluster to know claims", async () => {
    try {
      return await claims.claim("known", new Uint8Array([1]));
    } catch (error) {
      if (error.reason === "FORMAT_NEWER") return undefined;
      throw error;
    }
  });
}

const given = new Set();

/**
 * A port without a listener. It is given out once in a run, and never to a run beside it that has
 * the other half of the ports: HELVE_TEST_PORTS is 0 or 1.
 */
export async function freePort() {
  for (;;) {
    const server = createServer();
    await new Promise((done) => server.listen(0, "127.0.0.1", done));
    const { port } = server.address();
    await new Promise((done) => server.close(done));
    const { HELVE_TEST_PORTS: half } = process.env;
    if (given.has(port) || (half && (port >> 1) % 2 !== Number(half))) continue;
    given.add(port);
    return port;
  }
}

function listens(port) {
  return new Promise((done) => {
    const probe = connect(port, "127.0.0.1");
    const tell = (found) => {
      probe.destroy();
      done(found);
    };
    probe.on("connect", () => tell(true)).on("error", () => tell(false));
  });
}

/** The binary of the node. */
export function helveBinary() {
  const helve = process.env.HELVE_BINARY;
  if (!helve) throw new Error("HELVE_BINARY names no binary: run make typescript-test");
  return helve;
}

/** A program that can be killed and started again. What it says goes to a file. */
export class Process {
  running = null;

  constructor(command, port, log) {
    Object.assign(this, { command, port, log });
  }

  /** Starts it, and waits until it listens. */
  async start() {
    const log = openSync(this.log, "a");
    const [program, ...rest] = this.command;
    const child = spawn(program, rest, { env: environment, stdio: ["ignore", log, log] });
    this.running = child;
    this.ended = new Promise((done) => child.on("exit", done));
    await until(`${this.log} to tell of a listener`, () => {
      if (child.exitCode !== null) throw new Error(readFileSync(this.log, "utf8").slice(-4096));
      return listens(this.port);
    });
  }

  /** SIGKILL: it has no chance to say goodbye. */
  async kill() {
    this.running.kill("SIGKILL");
    await this.ended;
    this.running = null;
  }

  freeze() {
    this.running.kill("SIGSTOP");
  }

  thaw() {
    this.running.kill("SIGCONT");
  }
}

/** Three nodes. */
export class Cluster {
  static async start() {
    const helve = helveBinary();
    const cluster = new Cluster();
    cluster.helve = helve;
    cluster.directory = mkdtempSync(join(tmpdir(), "helve-typescript-"));
    const ports = [];
    for (let seat = 1; seat <= 3; seat += 1) {
      ports.push([await freePort(), await freePort(), await freePort()]);
    }
    const peers = ports.map(([, peer], at) => `${at + 1}=127.0.0.1:${peer}`).join(",");
    cluster.nodes = ports.map(([client, peer, http], at) => {
      const data = join(cluster.directory, `node-${at + 1}`);
      const command = [
        helve, "serve", "--id", String(at + 1), "--data-dir", data, "--peers", peers,
        "--listen", `127.0.0.1:${client}`, "--peer-listen", `127.0.0.1:${peer}`,
        "--http-listen", `127.0.0.1:${http}`,
      ];
      return new Process(command, client, `${data}.log`);
    });
    cluster.endpoints = ports.map(([client]) => `127.0.0.1:${client}`);
    try {
      for (const node of cluster.nodes) await node.start();
      await cluster.ready();
    } catch (error) {
      await cluster.stop();
      throw error;
    }
    return cluster;
  }

  /** Nodes for tests that stop none: the ones that `with_nodes.mjs` started, or new ones. */
  static async shared() {
    const { HELVE_TEST_ENDPOINTS: endpoints } = process.env;
    if (endpoints === undefined) return Cluster.start();
    const cluster = new Cluster();
    cluster.helve = helveBinary();
    cluster.endpoints = endpoints.split(",");
    // `with_nodes.mjs` stops them.
    const ports = cluster.endpoints.map((endpoint) => Number(endpoint.split(":")[1]));
    cluster.nodes = ports.map((port) => ({ port, running: null }));
    return cluster;
  }

  /** Until all nodes are ready under one leader. */
  async ready() {
    await until("three ready nodes", async () => {
      const status = await this.status();
      return status?.nodes.every((node) => node.health === "ready");
    });
  }

  /** The node that leads. */
  async leader() {
    return until("a leader", async () => {
      const status = await this.status();
      const leader = status?.nodes.find((node) => node.role === "leader");
      return leader && this.nodes[leader.seat - 1];
    });
  }

  /** What `helve status` says; undefined while it says that something is wrong. */
  async status() {
    const command = ["status", "--endpoints", this.endpoints.join(","), "--output", "json"];
    try {
      const { stdout } = await promisify(execFile)(this.helve, command, { env: environment });
      return JSON.parse(stdout);
    } catch (error) {
      if (typeof error.code === "number") return undefined;
      throw error;
    }
  }

  async stop() {
    for (const node of this.nodes) if (node.running !== null) await node.kill();
    if (this.directory !== undefined) rmSync(this.directory, { recursive: true, force: true });
  }
}
