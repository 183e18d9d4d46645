/** The client of Helve over `fetch`: state handles, keys and claims, written exactly once. */

export {
  type Claimed, digestOf, type EarlierLease, type InFlight, type LeaseEnd,
} from "./claimed.js";
export type {
  AbandonOptions, ClaimOptions, Claims, Effect, Lease, OnceOptions,
} from "./claims.js";
export {
  type ClaimsOptions, Client, type ClientOptions, type HandleOptions, type KeyOptions,
} from "./client.js";
export type { Token } from "./cluster.js";
export { type Codec, json, raw } from "./codec.js";
export * from "./errors.js";
export type { HandleStore } from "./handles.js";
export type { KeyPageOptions, Keys } from "./keys.js";
export { type Owner, SHARED } from "./owner.js";
export type {
  Conflicted, NotLive, Page, PutOutcome, Record, RecordInfo, Resolved, StoreOutcome, TakeOutcome,
  Written,
} from "./records.js";
export type { Runtime } from "./runtime.js";
export type { Condition, PageOptions, PutOptions } from "./store.js";
export type { TraceParent } from "./trace.js";
export { Aborted, Committed, type Ticket, type Transaction } from "./transaction.js";
export type { Defaults, Lifetime } from "./ttl.js";
