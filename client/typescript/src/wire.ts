/**
 * The messages of `helve.v1` that this client sends and reads, in the JSON of protobuf: integers of
 * 64 bits are strings, bytes are base64. Nodes write out fields that have their default.
 */

import { InternalError } from "./errors.js";

export interface Header {
  readonly index: string;
  readonly clockMs: string;
  readonly leaderHint: string;
}

export interface Reply {
  readonly header: Header;
}

export interface Info {
  readonly name: string;
  readonly owner: string;
  readonly revision: string;
  readonly createdAtMs: string;
  readonly updatedAtMs: string;
  readonly expiresAtMs?: string | null;
  readonly idleTtlMs?: string | null;
  readonly idleDeadlineMs?: string | null;
  readonly valueBytes: string;
}

export interface Valued {
  readonly info?: Info | null;
  readonly value?: string;
}

export type Lifetime = {
  readonly never?: Record<string, never>;
  readonly keep?: Record<string, never>;
  readonly afterMs?: string;
  readonly idleTtlMs?: string;
};

export interface StatusReply extends Reply, Valued {
  readonly status: string;
}

export interface ListReply extends Reply {
  readonly handles?: readonly Valued[];
  readonly records?: readonly Valued[];
  readonly resumeToken?: string;
}

export interface OperationReply extends Valued {
  readonly status?: string;
}

export interface TransactReply extends Reply {
  readonly committed?: { readonly replies: readonly OperationReply[] } | null;
  readonly aborted?: { readonly operation: number; readonly status: string } | null;
}

export interface EarlierLease {
  readonly end: string;
  readonly fence: string;
  readonly endedAtMs: string;
}

export interface ClaimReply extends StatusReply {
  readonly fence: string;
  readonly earlier?: EarlierLease | null;
}

/** A unary call of the contract. */
export interface Method<R extends Reply> {
  /** Its path, without the package. */
  readonly path: string;
  /** Whether it changes something, so that it bears an identity. */
  readonly mutates: boolean;
  /** What a reply is; it has no value. */
  readonly reply?: R;
}

const reads = <R extends Reply>(path: string): Method<R> => ({ path, mutates: false });
const writes = <R extends Reply>(path: string): Method<R> => ({ path, mutates: true });

export const MINT = writes<Reply & Valued>("HandleService/Mint");
export const PUT = writes<StatusReply>("HandleService/Put");
export const GET = reads<StatusReply>("HandleService/Get");
export const TAKE = writes<StatusReply>("HandleService/Take");
export const RENEW = writes<StatusReply>("HandleService/Renew");
export const DELETE = writes<StatusReply>("HandleService/Delete");
export const CLAIM = writes<ClaimReply>("HandleService/Claim");
export const COUNT = reads<Reply & { live: string }>("HandleService/Count");
export const LIST = reads<ListReply>("HandleService/List");
export const STORE = writes<StatusReply>("StateService/Store");
export const RETRIEVE = reads<Reply & { record?: Valued | null }>("StateService/Retrieve");
export const DELETE_KEY = writes<Reply & { existed: boolean }>("StateService/Delete");
export const EXISTS = reads<Reply & { exists: boolean }>("StateService/Exists");
export const LIST_KEYS = reads<ListReply>("StateService/List");
export const BATCH_STORE = writes<Reply & { infos: readonly Info[] }>("StateService/BatchStore");
export const BATCH_RETRIEVE = reads<
  Reply & { keys: readonly { record?: Valued | null }[] }
>("StateService/BatchRetrieve");
export const TRANSACT = writes<TransactReply>("TransactService/Transact");

/** Whether a call changes something, and its reply holds values. */
export function takes({ path }: Method<Reply>, request: object): boolean {
  const { operations = [] } = request as { operations?: readonly object[] };
  const isAlone = path === TAKE.path || path === CLAIM.path;
  return isAlone || operations.some((operation) => "take" in operation);
}

/** What a body says that is JSON; else undefined. */
export function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** An integer of a reply. Throws InternalError if a number does not hold it. */
export function integer(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value)) return value;
  throw new InternalError(`a reply has the integer ${String(text).slice(0, 48)}: none is so large`);
}
