// Changes of records as they happen. After a break it goes on behind the last revision that it has seen.

import { Ended, Problem, watch } from "./api.js";
import { badge, byId, el, empty, fill, problem } from "./dom.js";
import { count, time, word } from "./format.js";

/** Events on the page; older ones go. */
const KEPT = 200;
const PAUSE_MIN_MS = 1000;
const PAUSE_MAX_MS = 15_000;
const KINDS = { put: "good", taken: "warn", deleted: "bad", expired: "calm" };
/** These end a watch for good: the next one would be refused alike. */
const FINAL = new Set([400, 401, 403, 404, 501]);

let stop = null;
let total = 0;

function target() {
  const owner = byId("events-owner").value;
  switch (byId("events-what").value) {
    case "store": return { store: { store: byId("events-store").value.trim() } };
    case "owner": return { owner: { owner } };
    default: return { keys: { owner, prefix: byId("events-prefix").value } };
  }
}

function fields() {
  const what = byId("events-what").value;
  for (const field of document.querySelectorAll("#events-form [data-for]")) {
    field.hidden = !field.dataset.for.split(" ").includes(what);
  }
}

function state(text) {
  byId("events-state").textContent = text;
}

function line(change, clockMs) {
  const kind = word(change.kind, "CHANGE_KIND_");
  const info = change.info || {};
  return el("li", {},
    el("time", {}, time(clockMs).slice(11)),
    badge(KINDS[kind] || "calm", kind),
    el("span", { class: "what" }, el("code", { class: "id" }, info.name || ""),
      el("span", { class: "note" }, change.store ? ` in ${change.store}` : " key", info.owner ? ` of ${info.owner}` : "")),
    el("span", { class: "note number" }, `revision ${count(info.revision)}`));
}

function add(part) {
  if (!part.changes || part.changes.length === 0) return;
  const list = byId("events-list");
  total += part.changes.length;
  list.prepend(...part.changes.map((change) => line(change, part.header?.clockMs)).reverse());
  while (list.childElementCount > KEPT) list.lastElementChild.remove();
  byId("events-none")?.remove();
}

/** Waits, or until the watch is stopped. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

async function follow(request, signal) {
  let after;
  let clusterId = "";
  let wait = PAUSE_MIN_MS;
  while (!signal.aborted) {
    let why = "the node ended it";
    try {
      const from = after === undefined ? {} : { after, clusterId };
      for await (const part of watch({ ...request, ...from }, signal)) {
        after = part.revision;
        clusterId = part.clusterId || clusterId;
        wait = PAUSE_MIN_MS;
        add(part);
        state(`live · revision ${count(after)} · ${count(total)} events`);
      }
    } catch (error) {
      if (error instanceof Ended) return;
      if (error instanceof Problem) {
        if (error.reason === "WATCH_TOO_OLD") {
          after = undefined;
          byId("events-list").prepend(el("li", { class: "gap" }, "Some events were missed here: the node does not have them any more."));
        } else if (FINAL.has(error.status)) {
          fill(byId("events-body"), problem(error));
          ended();
          return;
        }
        why = error.message;
        wait = Math.max(wait, error.retryMs);
      } else {
        why = "the connection broke";
      }
    }
    if (signal.aborted) return;
    state(`not live: ${why}; connects again`);
    await pause(wait, signal);
    wait = Math.min(2 * wait, PAUSE_MAX_MS);
  }
}

function ended() {
  stop?.abort();
  stop = null;
  byId("events-go").textContent = "Follow";
  state("");
}

byId("events-what").addEventListener("change", fields);
byId("events-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (stop !== null) {
    ended();
    return;
  }
  if (byId("events-what").value === "store" && byId("events-store").value.trim() === "") {
    fill(byId("events-body"), empty("Name the store."));
    byId("events-store").focus();
    return;
  }
  total = 0;
  fill(byId("events-body"), el("ol", { class: "card events", id: "events-list", "aria-label": "Events, the newest first" }),
    el("p", { class: "hint", id: "events-none" }, "Events show here as they happen."));
  stop = new AbortController();
  byId("events-go").textContent = "Stop";
  state("begins");
  follow(target(), stop.signal);
});

export const eventsPage = {
  enter(who) {
    byId("events-form").hidden = !who.may.read_records;
    fields();
    if (!who.may.read_records) {
      fill(byId("events-body"), empty("This token does not cover records: sign in with a token of the tenant."));
    }
  },
  // It goes on in the background: a change that one makes on another page shows here.
  leave() {},
  forget() {
    ended();
    fill(byId("events-body"));
    byId("events-form").reset();
  },
};

fields();
