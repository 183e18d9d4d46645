// Signs in, and shows one page at a time. The address behind `#` says which.

import { Ended, Problem, hasToken, read, setToken } from "./api.js";
import { byId, tell } from "./dom.js";
import { clusterPage } from "./cluster.js";
import { eventsPage } from "./events.js";
import { keysPage, storesPage } from "./records.js";
import { tenantsPage } from "./tenants.js";

const PAGES = {
  cluster: clusterPage,
  tenants: tenantsPage,
  stores: storesPage,
  keys: keysPage,
  events: eventsPage,
};

/** Who is signed in, as `whoami` says; null: no one yet. */
let who = null;
let shown = null;

function pageNamed() {
  const name = location.hash.slice(1).split("/")[0];
  return Object.hasOwn(PAGES, name) ? name : "cluster";
}

function leave() {
  if (shown !== null) PAGES[shown].leave();
  shown = null;
}

function show() {
  if (who === null) return;
  const name = pageNamed();
  if (name === shown) return;
  const isFirst = shown === null;
  leave();
  shown = name;
  for (const page of Object.keys(PAGES)) byId(page).hidden = page !== name;
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const title = byId(`${name}-title`);
  document.title = `${title.textContent} – Helve console`;
  if (!isFirst) title.focus();
  PAGES[name].enter(who);
}

function signedOut(why) {
  leave();
  who = null;
  setToken("");
  for (const page of Object.keys(PAGES)) byId(page).hidden = true;
  for (const id of ["nav", "who", "where"]) byId(id).hidden = true;
  // Nothing of what one token showed is left for the next.
  for (const page of Object.values(PAGES)) page.forget();
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = why;
  byId("token").value = "";
  byId("token").focus();
}

function signedIn(answer) {
  who = answer;
  tell("");
  byId("sign-in").hidden = true;
  byId("nav").hidden = false;
  byId("where").hidden = false;
  byId("where").textContent = `node ${who.node_id}`;
  byId("who").hidden = false;
  byId("sign-out").hidden = !hasToken();
  const role = who.role === "anyone" ? "no token needed" : who.role;
  byId("who-text").textContent = [who.principal, who.tenant, role].filter(Boolean).join(" · ");
  show();
}

async function signIn() {
  try {
    signedIn(await read("whoami"));
  } catch (error) {
    // Another token has taken its place.
    if (error instanceof Ended) return;
    if (!(error instanceof Problem)) throw error;
    // Without a token the first question is whether one is needed.
    const isRefused = error.status === 401;
    signedOut(isRefused && !hasToken() ? "" : isRefused ? "This token is not valid: it was never made, has expired or was revoked." : error.message);
  }
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = byId("token").value.trim();
  if (text === "") {
    byId("sign-in-error").textContent = "Enter a token; `helve token create` makes one.";
    byId("token").focus();
    return;
  }
  setToken(text);
  byId("token").value = "";
  await signIn();
});

byId("sign-out").addEventListener("click", () => {
  signedOut("");
  tell("Signed out.");
});

// A call that finds the token revoked ends the session, whichever page made it.
addEventListener("helve:unauthenticated", () => {
  if (who !== null) signedOut("The token is not valid any more: it has expired or was revoked.");
});
addEventListener("hashchange", show);

await signIn();
