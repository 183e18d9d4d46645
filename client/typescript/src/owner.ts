/** Whose records a store's calls are about. */

import { refused } from "./errors.js";

/** No one: for what a server keeps for itself, and where there is only one user. */
export const SHARED: unique symbol = Symbol.for("helve.SHARED");

/** An end user's name, of at most 256 bytes, or `SHARED`. */
export type Owner = string | typeof SHARED;

/**
 * The owner as requests have it. Throws InvalidError if the name is empty: a caller whose name was
 * lost on the way must not end up among the records that all share.
 */
export function onWire(owner: Owner): string {
  if (owner === SHARED) return "";
  if (typeof owner !== "string" || owner === "") {
    const remedy = "name the end user whose records these are, or SHARED";
    throw refused("BAD_REQUEST", `the owner's name is empty: ${remedy}`);
  }
  return owner;
}
