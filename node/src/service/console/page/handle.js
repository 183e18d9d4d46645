// One handle: what it is, and its eviction.

import { Ended, Problem, call, identity } from "./api.js";
import { badge, byId, copy, el, empty, fill, filled, tell } from "./dom.js";
import { bytes, count, span, time, until, value, word } from "./format.js";

const STATUS = { live: "good", expired: "warn", taken: "warn", unknown: "calm" };
const WHY = {
  expired: "Its lifetime has ended.",
  taken: "Its value was taken: a handle is taken once.",
  unknown: "There is no such handle: never minted, deleted, long gone, or another owner's.",
};

let mayEvict = false;
/** What is shown: where it is, and the revision that was seen. */
let seen = null;
/** The eviction that is asked about. Its identity is made when it is first sent; null: it goes without one. */
let under = null;

/** Says whether this token may evict. */
export function setEvictable(may) {
  mayEvict = may;
}

/** Forgets what was shown. */
export function forgetHandle() {
  seen = null;
  under = null;
  fill(byId("handle-body"));
  if (byId("evict").open) byId("evict").close();
}

function fact(name, ...what) {
  return [el("dt", {}, name), el("dd", {}, ...what)];
}

function card(handle, answer) {
  const status = word(answer.status, "HANDLE_STATUS_");
  const head = el("div", { class: "head" },
    el("h2", { tabindex: "-1" }, el("code", { class: "id" }, handle.id), " ", badge(STATUS[status] || "calm", status)),
    copy(handle.id));
  const where = [...fact("Store", handle.store), ...fact("Owner", handle.owner || "none")];
  if (!answer.info) {
    return el("article", { class: "card handle" }, head, el("p", {}, WHY[status] || ""), el("dl", { class: "facts" }, where));
  }
  const { info } = answer;
  const clock = answer.header?.clockMs;
  const shown = value(answer.value);
  const facts = [
    ...where,
    ...fact("Size", bytes(info.valueBytes)),
    ...fact("Revision", count(info.revision)),
    ...fact("Made", time(info.createdAtMs)),
    ...fact("Changed", time(info.updatedAtMs)),
    ...fact("Expires", info.expiresAtMs ? `${time(info.expiresAtMs)}, ${until(info.expiresAtMs, clock)}` : "never"),
    ...(info.idleTtlMs ? fact("Idle time", `${span(info.idleTtlMs)}; looking it up began it again`) : []),
  ];
  const evict = el("button", { type: "button", class: "danger", on: { click: ask } }, "Evict…");
  return el("article", { class: "card handle" }, head,
    el("dl", { class: "facts" }, facts),
    el("details", {}, el("summary", {}, `Value (${shown.kind})`), el("pre", { tabindex: "0" }, shown.text)),
    mayEvict ? evict : el("p", { class: "hint" }, "To evict it, sign in with a writer's or an admin's token."));
}

/** Looks a handle up, and shows it. */
export async function lookUp(handle) {
  const body = byId("handle-body");
  byId("look-store").value = handle.store;
  byId("look-owner").value = handle.owner;
  byId("look-id").value = handle.id;
  if (handle.store === "" || handle.id === "") {
    fill(body, empty("Name the store and the handle."));
    byId(handle.store === "" ? "look-store" : "look-id").focus();
    return;
  }
  await filled(body, async (signal) => {
    const answer = await call("HandleService/Get", handle, signal);
    seen = { handle, revision: answer.info?.revision };
    fill(body, card(handle, answer));
    body.querySelector("h2").focus();
    body.scrollIntoView({ block: "nearest" });
  });
}

function ask() {
  const { handle, revision } = seen;
  under = { handle, revision };
  fill(byId("evict-what"), fact("Store", handle.store), fact("Owner", handle.owner || "none"), fact("Handle", el("code", { class: "id" }, handle.id)));
  byId("evict-id").value = "";
  byId("evict-error").textContent = "";
  byId("evict-yes").disabled = true;
  byId("evict").showModal();
  byId("evict-id").focus();
}

/** Reasons to refuse an identity whose time is not the cluster's. */
const OF_ANOTHER_TIME = new Set(["TOO_EARLY", "REQUEST_TOO_OLD"]);

/**
 * Deletes the handle if it is still as it was seen, under one identity. A clock of this machine that is wrong must not keep an
 * operator from it: then the call goes without an identity, and the revision alone keeps it from taking effect twice.
 */
async function evicted(eviction) {
  const { handle, revision } = eviction;
  const sent = () => call("HandleService/Delete", {
    ...(eviction.identity === null ? {} : { identity: eviction.identity }), ...handle, ifRevision: revision,
  });
  if (eviction.identity === undefined) eviction.identity = identity();
  try {
    return await sent();
  } catch (error) {
    if (eviction.identity === null || !OF_ANOTHER_TIME.has(error.reason)) throw error;
    eviction.identity = null;
    return sent();
  }
}

async function evict(event) {
  event.preventDefault();
  const eviction = under;
  const { handle } = eviction;
  if (byId("evict-id").value !== handle.id) {
    byId("evict-error").textContent = "This is not the handle's id.";
    return;
  }
  byId("evict-yes").disabled = true;
  try {
    const answer = await evicted(eviction);
    if (under === eviction) byId("evict").close();
    const status = word(answer.status, "HANDLE_STATUS_");
    tell(status === "live" ? `Evicted ${handle.id}.` : `Nothing to evict: the handle is ${status}.`);
    // Another handle may be shown by now.
    if (seen?.handle === handle) await lookUp(handle);
  } catch (error) {
    if (error instanceof Ended) return;
    if (!(error instanceof Problem)) throw error;
    if (under !== eviction || !byId("evict").open) {
      tell(`${handle.id} was perhaps not evicted: ${error.message}`);
      return;
    }
    byId("evict-error").textContent = error.reason === "CONFLICT"
      ? "It has changed since you looked it up, and was kept: look it up again."
      : `${error.message} You can press Evict again: it takes effect once.`;
    byId("evict-yes").disabled = false;
  }
}

byId("evict-id").addEventListener("input", () => {
  byId("evict-yes").disabled = under === null || byId("evict-id").value !== under.handle.id;
});
byId("evict-form").addEventListener("submit", evict);
byId("evict-no").addEventListener("click", () => byId("evict").close());
