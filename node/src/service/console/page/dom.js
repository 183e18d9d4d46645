// Elements, made without HTML: what a caller stored is text, whatever it looks like.

import { Ended, Problem } from "./api.js";

/** Makes an element. Attributes that are null or false are left out; children are elements or text. */
export function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value === true) {
      element.setAttribute(key, "");
    } else {
      element.setAttribute(key, String(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Returns the element with this id. */
export const byId = (id) => document.getElementById(id);

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
}

/** A table whose rows are cards on a narrow screen. Columns: [name, kind], kind "" or "number". Cells: text or elements. */
export function table(caption, columns, rows) {
  const head = columns.map(([name, kind]) => el("th", { scope: "col", class: kind || null }, name));
  const body = rows.map((cells) =>
    el("tr", {}, cells.map((cell, at) => {
      const [name, kind] = columns[at];
      return at === 0
        ? el("th", { scope: "row", class: kind || null }, cell)
        : el("td", { "data-name": name, class: kind || null }, cell);
    })));
  return el("div", { class: "card table" },
    el("table", {},
      el("caption", {}, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, body)));
}

/** Text whose parts between backticks are commands that can be copied. */
export function commands(text) {
  return text.split("`").flatMap((part, at) => {
    if (at % 2 === 0) return part === "" ? [] : [part];
    return [el("span", { class: "command" }, el("code", {}, part), copy(part))];
  });
}

/** A button that copies text. */
export function copy(text) {
  const button = el("button", { type: "button", class: "copy", "aria-label": `Copy ${text}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without permission, or over plain HTTP by another name than localhost.
      button.textContent = "Select it";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  return button;
}

/** A badge: its kind says how urgent it is: good, warn, bad, or calm. */
export const badge = (kind, text) => el("span", { class: `badge ${kind}` }, text);

/** A note where there is nothing to show. */
export const empty = (...text) => el("p", { class: "card empty" }, ...text);

/** An error: what the node said, and what to do if it says so. */
export function problem(error) {
  return el("div", { class: "card problem", role: "alert" },
    el("p", {}, el("strong", {}, error.title || "This did not work. "), commands(error.message)));
}

/** Which work fills which element. */
const under = new WeakMap();

/**
 * Has work fill an element, or its error. The work passes its signal to its calls: newer work for the element ends it, so
 * that what was asked for last is what shows.
 */
export async function filled(body, work) {
  under.get(body)?.abort();
  const own = new AbortController();
  under.set(body, own);
  body.setAttribute("aria-busy", "true");
  try {
    await work(own.signal);
  } catch (error) {
    if (error instanceof Ended) return;
    if (!(error instanceof Problem)) throw error;
    fill(body, problem(error));
  } finally {
    if (under.get(body) === own) body.removeAttribute("aria-busy");
  }
}

/** Says something to everyone, screen readers included, for some seconds. */
export function tell(text) {
  const told = byId("told");
  told.textContent = text;
  told.classList.toggle("shown", text !== "");
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { told.classList.remove("shown"); told.textContent = ""; }, 6000);
}
