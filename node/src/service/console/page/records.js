// Stores with what they hold, the handles of one, and keys by prefix; lists in pages.

import { Problem, call, read } from "./api.js";
import { byId, el, empty, fill, filled, table } from "./dom.js";
import { bytes, count, time } from "./format.js";
import { forgetHandle, lookUp, setEvictable } from "./handle.js";

const PAGE = 50;
const DENIED = "This token does not cover records: sign in with a token of the tenant. An operator's sees no records.";

let may = false;

/** A list in pages: each page is added below, and the button for the next one takes the last place. */
function pages(body, caption, columns, rowOf, page) {
  const next = async (token, signal) => {
    const { items, resumeToken, live } = await page(token, signal);
    if (token === "" && items.length === 0) {
      fill(body, empty(caption, ": none."));
      return;
    }
    const rows = items.map(rowOf);
    if (token === "") fill(body, table(live === undefined ? caption : `${caption}: ${count(live)} live`, columns, rows));
    else body.querySelector("tbody").append(...table("", columns, rows).querySelector("tbody").children);
    body.querySelector(".more")?.remove();
    if (resumeToken) {
      const more = el("button", { type: "button", class: "more" }, `Next ${PAGE}`);
      more.addEventListener("click", () => {
        more.disabled = true;
        filled(body, (own) => next(resumeToken, own));
      });
      body.append(more);
    }
  };
  return filled(body, (signal) => next("", signal));
}

function expiry(info) {
  const at = [info.expiresAtMs, info.idleDeadlineMs].filter(Boolean).map(Number);
  return at.length > 0 ? time(Math.min(...at)) : el("span", { class: "note" }, "never");
}

const HANDLE_COLUMNS = [["Handle", ""], ["Owner", ""], ["Size", "number"], ["Revision", "number"], ["Changed", ""], ["Expires", ""], ["", ""]];

/** How many live handles a store has, if the node says; the list shows without it. */
async function counted(store, signal) {
  try {
    return await call("HandleService/Count", { store }, signal);
  } catch (error) {
    if (error instanceof Problem) return {};
    throw error;
  }
}

function browse(store) {
  const body = byId("handles-body");
  const columns = HANDLE_COLUMNS;
  const rowOf = ({ info }) => [
    el("code", { class: "id" }, info.name), info.owner || el("span", { class: "note" }, "none"),
    bytes(info.valueBytes), count(info.revision), time(info.updatedAtMs), expiry(info),
    el("button", {
      type: "button", class: "quiet", "aria-label": `Look up ${info.name}`,
      on: { click: () => lookUp({ store, owner: info.owner, id: info.name }) },
    }, "Look up"),
  ];
  byId("look-store").value = store;
  return pages(body, `Handles in ${store}`, columns, rowOf, async (resumeToken, signal) => {
    const request = { store, handlesMax: PAGE, resumeToken };
    const [list, number] = await Promise.all([
      call("HandleService/List", request, signal),
      resumeToken === "" ? counted(store, signal) : {},
    ]);
    return { items: list.handles, resumeToken: list.resumeToken, live: number.live };
  });
}

const STORE_COLUMNS = [["Store", ""], ["Handles", "number"], ["Bytes", "number"], ["", ""]];

async function stores() {
  const body = byId("stores-body");
  if (!may) {
    fill(body, empty(DENIED));
    return;
  }
  await filled(body, async (signal) => {
    const found = [];
    let answer = null;
    let after = "";
    // A page holds 200; a tenant with more than a thousand stores sees the first ones.
    do {
      answer = await read(`stores${after ? `?after=${after}` : ""}`, signal);
      found.push(...answer.stores);
      after = answer.after;
    } while (after && found.length < 1000);
    fill(byId("store-names"), found.map(({ store }) => el("option", { value: store })));
    if (found.length === 0) {
      fill(body, empty("No store holds a handle. A store begins with its first mint or put."));
      return;
    }
    const rows = found.map(({ store, handles, bytes: size }) => [
      store, count(handles), bytes(size),
      el("button", { type: "button", class: "quiet", "aria-label": `Browse ${store}`, on: { click: () => browse(store) } }, "Browse"),
    ]);
    const total = answer.rows === undefined ? "" : ` The tenant holds ${count(answer.rows)} records, keys included, in ${bytes(answer.bytes)}.`;
    fill(body, table(`Stores, with handles that have expired and are not removed yet.${total}`, STORE_COLUMNS, rows));
  });
}

byId("stores-again").addEventListener("click", stores);
byId("look-up").addEventListener("submit", (event) => {
  event.preventDefault();
  lookUp({ store: byId("look-store").value.trim(), owner: byId("look-owner").value, id: byId("look-id").value });
});

export const storesPage = {
  enter(who) {
    may = who.may.read_records;
    setEvictable(who.may.evict);
    byId("look-up").hidden = !may;
    byId("stores-again").hidden = !may;
    stores();
  },
  leave() {},
  forget() {
    for (const id of ["stores-body", "handles-body", "store-names"]) fill(byId(id));
    byId("look-up").reset();
    forgetHandle();
  },
};

const KEY_COLUMNS = [["Key", ""], ["Size", "number"], ["Revision", "number"], ["Changed", ""], ["Expires", ""]];

byId("keys-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const owner = byId("keys-owner").value;
  const prefix = byId("keys-prefix").value;
  const rowOf = ({ info }) => [
    el("code", { class: "id" }, info.name), bytes(info.valueBytes), count(info.revision), time(info.updatedAtMs), expiry(info),
  ];
  const caption = prefix ? `Keys that begin with ${prefix}` : "Keys";
  pages(byId("keys-body"), caption, KEY_COLUMNS, rowOf, async (resumeToken, signal) => {
    const list = await call("StateService/List", { owner, prefix, keysMax: PAGE, resumeToken }, signal);
    return { items: list.records, resumeToken: list.resumeToken };
  });
});

export const keysPage = {
  enter(who) {
    byId("keys-form").hidden = !who.may.read_records;
    if (!who.may.read_records) fill(byId("keys-body"), empty(DENIED));
  },
  leave() {},
  forget() {
    fill(byId("keys-body"));
    byId("keys-form").reset();
  },
};
