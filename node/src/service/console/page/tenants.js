// Tenants, what they use, and their quotas.

import { call } from "./api.js";
import { byId, el, empty, fill, filled, table } from "./dom.js";
import { bytes, count, time } from "./format.js";

const COLUMNS = [
  ["Tenant", ""], ["Records", "number"], ["of at most", ""], ["Bytes", "number"], ["of at most", ""],
  ["Writes a second", "number"], ["Made", ""],
];

let may = false;

function share(used, limit, show, name) {
  if (!Number(limit)) return el("span", { class: "note" }, "no limit");
  const part = Number(used) / Number(limit);
  return el("span", { class: "disk" }, show(limit),
    el("meter", {
      min: 0, max: 1, high: 0.9, optimum: 0, value: Math.min(part, 1),
      "aria-label": `${name}: ${Math.round(part * 100)} percent of the quota`,
    }));
}

function row(tenant) {
  const usage = tenant.usage || {};
  const quotas = tenant.quotas || {};
  return [
    tenant.tenant,
    count(usage.rows), share(usage.rows, quotas.rows, count, "records"),
    bytes(usage.bytes), share(usage.bytes, quotas.bytes, bytes, "bytes"),
    Number(quotas.writesPerSecond) ? count(quotas.writesPerSecond) : el("span", { class: "note" }, "no limit"),
    time(tenant.createdAtMs),
  ];
}

async function look() {
  const body = byId("tenants-body");
  if (!may) {
    fill(body, empty("This token does not cover tenants: sign in with an operator's token, or with that of a tenant's admin."));
    return;
  }
  await filled(body, async (signal) => {
    const { tenants } = await call("AccessService/ListTenants", {}, signal);
    const rows = tenants.map(row);
    fill(body, rows.length > 0 ? table("Tenants. Records that have expired and are not removed yet count.", COLUMNS, rows) : empty("There are no tenants."));
  });
}

byId("tenants-again").addEventListener("click", look);

export const tenantsPage = {
  enter(who) {
    may = who.may.list_tenants;
    byId("tenants-again").hidden = !may;
    look();
  },
  leave() {},
  forget() { fill(byId("tenants-body")); },
};
