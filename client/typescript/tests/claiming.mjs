// A cluster that keeps claims as the contract says, and fails at each claim as a script says.

import { BROKEN, refusal, reply, textOf, thrown } from "./fake.mjs";

/** The cluster carries the claim out, and its answer is lost. */
export const LOST = "lost";
export const DAY_MS = 86_400_000;

export class Claiming {
  /** What the cluster's clock is, in milliseconds. */
  #time;
  #index = 0;
  #rows = new Map();
  /** What the next lease of a key is told, and since when the key is free. */
  #earlier = new Map();
  #outcomes = new Map();
  /** What goes wrong with each claim: LOST, a response, a function called before; else nothing. */
  faults;
  /** Actions of the claims that came. */
  actions = [];
  /** The status of each claim that was carried out: what a retry is told again is none. */
  carriedOut = [];

  constructor(time, faults = []) {
    this.#time = time;
    this.faults = faults;
  }

  /** How far the cluster's clock is ahead of this machine's. */
  aheadMs = 0;

  get nowMs() {
    return this.#time.wall + Math.floor(this.#time.now) + this.aheadMs;
  }

  fetch = async (url, init) => {
    const [, method] = new URL(url).pathname.split("/").slice(1);
    const request = JSON.parse(await textOf(init.body));
    if (method === "Get") return this.#told(this.#get(request));
    const fault = method === "Claim" ? this.faults.shift() : undefined;
    if (method === "Claim") this.actions.push(actionOf(request));
    if (typeof fault === "function") fault(request, this);
    else if (fault instanceof Error) throw fault;
    else if (fault !== undefined && fault !== LOST) return fault;
    const outcome = this.once(method, request);
    if (fault === LOST) throw thrown(BROKEN);
    return this.#told(outcome);
  };

  /** The outcome of a mutation: a retry is told the first one. */
  once(method, request) {
    const { requestId } = request.identity;
    if (!this.#outcomes.has(requestId)) {
      this.#index += 1;
      const carryOut = method === "Delete" ? this.#delete : this.#claim;
      this.#outcomes.set(requestId, carryOut.call(this, request));
    }
    return this.#outcomes.get(requestId);
  }

  #told(outcome) {
    if (outcome.refused !== undefined) return refusal(outcome.refused);
    return reply(outcome, { clockMs: String(this.nowMs) });
  }

  /** The row under a name, if its time is not over. */
  #find({ store, owner, id }) {
    const name = JSON.stringify([store, owner, id]);
    let row = this.#rows.get(name);
    if (row?.untilMs !== undefined && row.untilMs <= this.nowMs) {
      const [end, endedAtMs] = row.isDone ? ["FINISHED", row.finishedMs] : ["EXPIRED", row.untilMs];
      this.#earlier.set(name, { lease: ended(end, row.fence, endedAtMs), freeMs: row.untilMs });
      this.#rows.delete(name);
      row = undefined;
    }
    return { name, row };
  }

  #get(request) {
    const { row } = this.#find(request);
    if (row === undefined) return { status: "HANDLE_STATUS_UNKNOWN", info: null, value: "" };
    return { status: "HANDLE_STATUS_LIVE", info: infoOf(row), value: row.value };
  }

  #delete(request) {
    const { name, row } = this.#find(request);
    this.#rows.delete(name);
    return { status: row === undefined ? "HANDLE_STATUS_UNKNOWN" : "HANDLE_STATUS_LIVE" };
  }

  #claim(request) {
    const { name, row } = this.#find(request);
    const outcome = this[`_${actionOf(request)}`](name, row, request[actionOf(request)]);
    this.carriedOut.push(outcome.status.slice("CLAIM_STATUS_".length));
    return { value: "", fence: "0", info: null, ...outcome };
  }

  _begin(name, row, { digest, leaseMs, note }) {
    if (row !== undefined && row.digest !== digest) return { status: "CLAIM_STATUS_CONFLICT" };
    if (row !== undefined) return found(row, row.isDone ? "DONE" : "IN_FLIGHT");
    const { lease, freeMs } = this.#earlier.get(name) ?? {};
    this.#earlier.delete(name);
    const earlier = this.nowMs < freeMs + DAY_MS ? lease : undefined;
    const fence = this.#index;
    const untilMs = this.nowMs + Number(leaseMs);
    const made = { digest, fence, revision: fence, value: note, untilMs, isDone: false, earlier };
    this.#rows.set(name, made);
    const told = { info: infoOf(made), fence: String(fence), earlier: earlier ?? null };
    return { status: "CLAIM_STATUS_FRESH", ...told };
  }

  _finish(_name, row, { fence, result, resultTtlMs }) {
    if (row?.fence !== Number(fence)) return { status: "CLAIM_STATUS_LEASE_LOST" };
    if (row.isDone) return found(row, "DONE");
    row.untilMs = resultTtlMs === undefined ? undefined : this.nowMs + Number(resultTtlMs);
    const finishedMs = this.nowMs;
    Object.assign(row, { isDone: true, value: result, revision: this.#index, finishedMs });
    return { status: "CLAIM_STATUS_FINISHED", info: infoOf(row) };
  }

  _abandon(name, row, { fence, neverHappened }) {
    if (row?.fence !== Number(fence)) return { status: "CLAIM_STATUS_LEASE_LOST" };
    if (row.isDone) return found(row, "DONE");
    this.#rows.delete(name);
    const isHanded = row.earlier && row.earlier.end !== "LEASE_END_ABANDONED" && !neverHappened;
    const lease = isHanded ? row.earlier : ended("ABANDONED", row.fence, this.nowMs);
    this.#earlier.set(name, { lease, freeMs: this.nowMs });
    return { status: "CLAIM_STATUS_ABANDONED" };
  }

  /** What the next lease of a key is told. */
  tell(store, id, lease) {
    this.#earlier.set(JSON.stringify([store, "", id]), { lease, freeMs: this.nowMs });
  }
}

const actionOf = (request) => ["begin", "finish", "abandon"].find((action) => action in request);
const ended = (end, fence, atMs) =>
  ({ end: `LEASE_END_${end}`, fence: String(fence), endedAtMs: String(atMs) });
const found = (row, status) =>
  ({ status: `CLAIM_STATUS_${status}`, info: infoOf(row), value: row.value });
const infoOf = ({ revision, untilMs }) => ({
  name: "k",
  owner: "",
  revision: String(revision),
  createdAtMs: "1800000000000",
  updatedAtMs: "1800000000000",
  expiresAtMs: untilMs === undefined ? null : String(untilMs),
  valueBytes: "1",
});
