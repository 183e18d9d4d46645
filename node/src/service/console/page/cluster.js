// The nodes, who leads, how far each is, and the next command to type.

import { Ended, Problem, read } from "./api.js";
import { badge, byId, commands, el, fill, problem, table } from "./dom.js";
import { bytes, count, span } from "./format.js";

const EVERY_MS = 3000;

const HEALTH = {
  ready: ["good", "ready"],
  not_ready: ["warn", "not ready"],
  unreachable: ["bad", "does not answer"],
};

let timer = 0;
let stop = null;
let last = "";

function tile(name, value, note, kind = "") {
  return el("div", { class: `tile ${kind}` },
    el("dt", {}, name), el("dd", {}, value), note ? el("dd", { class: "note" }, note) : null);
}

function tiles(report) {
  const ready = report.nodes.filter((node) => node.health === "ready").length;
  const all = report.nodes.length;
  const leader = report.nodes.find((node) => node.id === report.leader_id);
  const lags = report.nodes.map((node) => node.lag_entries).filter((lag) => lag !== undefined);
  return el("dl", { class: "tiles" },
    tile("Leader", leader ? `Node ${leader.id}` : "None known", leader?.client_address, leader ? "" : "bad"),
    tile("Quorum", report.quorum ? "Yes" : "No",
      report.quorum ? "a majority of the voters takes part" : report.cause, report.quorum ? "" : "bad"),
    tile("Nodes ready", `${ready} of ${all}`, null, ready === all ? "" : "warn"),
    tile("Largest lag", lags.length > 0 ? count(Math.max(...lags)) : "–", "entries"),
    tile("Feature level", count(report.feature_level), null));
}

function next(report) {
  if (report.next.length === 0) {
    return el("div", { class: "card calm-note" }, el("p", {}, badge("good", "All is well"), " There is nothing to do."));
  }
  return el("section", { class: "card next", "aria-labelledby": "next-title" },
    el("h2", { id: "next-title" }, "Next"),
    el("ol", {}, report.next.map((text) => el("li", {}, commands(text)))));
}

function disk(node) {
  if (node.disk_used_bytes === undefined) return "–";
  const used = Number(node.disk_used_bytes);
  const free = Number(node.disk_free_bytes);
  const reserve = Number(node.disk_reserve_bytes || 0);
  const isLow = free < reserve;
  return el("span", { class: "disk" },
    el("span", {}, bytes(used), el("span", { class: "note" }, ` ${bytes(free)} free`)),
    el("meter", {
      min: 0, max: Math.max(used + free, 1), value: used, high: Math.max(used + free - reserve, 0), optimum: 0,
      "aria-label": `${bytes(used)} used, ${bytes(free)} free`,
    }),
    isLow ? badge("bad", "below its reserve") : null);
}

function row(node, report) {
  const [kind, text] = HEALTH[node.health] || ["warn", node.health];
  const role = node.id !== 0 && node.id === report.leader_id ? badge("lead", "leader") : node.role;
  const name = node.id === 0 ? "new" : `Node ${node.id}`;
  return [
    el("span", { class: "name" }, name, el("span", { class: "note" }, node.client_address)),
    role,
    badge(kind, text),
    count(node.lag_entries),
    count(node.applied_index),
    count(node.term),
    disk(node),
    node.version || "–",
  ];
}

function warnings(report) {
  const told = report.nodes.filter((node) => node.warning);
  if (told.length === 0) return null;
  return el("section", { class: "card warnings", "aria-labelledby": "warnings-title" },
    el("h2", { id: "warnings-title" }, "Warnings"),
    el("ul", {}, told.map((node) => el("li", {},
      el("strong", {}, node.id === 0 ? node.client_address : `Node ${node.id}`), ": ", commands(node.warning)))));
}

function change(report) {
  if (!report.change && !report.joint) return null;
  const text = report.change || "two sets of voters must agree";
  return el("p", { class: "card" }, badge("warn", "Members change"), " ", text);
}

const COLUMNS = [
  ["Node", ""], ["Role", ""], ["Health", ""], ["Lag", "number"], ["Applied", "number"], ["Term", "number"],
  ["Disk", ""], ["Version", ""],
];

function show(report) {
  const clock = report.nodes.map((node) => Number(node.clock_ms || 0)).reduce((a, b) => Math.max(a, b), 0);
  const off = Math.abs(Date.now() - clock);
  byId("cluster-fresh").textContent = clock > 0 && off > 60_000 ? `cluster time is ${span(off)} from this machine's` : "live";
  const text = JSON.stringify(report);
  // What did not change is left alone, so that a selection and the focus stay.
  if (text === last) return;
  const focused = document.activeElement?.getAttribute("aria-label");
  last = text;
  fill(byId("cluster-body"),
    tiles(report), next(report), change(report),
    table(report.cluster_id ? `Nodes of the cluster ${report.cluster_id}` : "Nodes", COLUMNS, report.nodes.map((node) => row(node, report))),
    warnings(report));
  if (focused) document.querySelector(`#cluster-body [aria-label="${CSS.escape(focused)}"]`)?.focus();
}

async function look() {
  stop = new AbortController();
  const signal = stop.signal;
  try {
    show(await read("nodes", signal));
  } catch (error) {
    if (error instanceof Ended) return;
    last = "";
    byId("cluster-fresh").textContent = "not live";
    if (!(error instanceof Problem)) throw error;
    fill(byId("cluster-body"), problem(error));
  } finally {
    if (!signal.aborted) timer = setTimeout(later, EVERY_MS);
  }
}

function later() {
  // A page that is not looked at asks nothing.
  if (document.hidden) document.addEventListener("visibilitychange", later, { once: true });
  else look();
}

export const clusterPage = {
  enter() { look(); },
  leave() {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", later);
    stop?.abort();
  },
  forget() {
    last = "";
    fill(byId("cluster-body"));
  },
};
