/**
 * What can go wrong, said so that a caller knows what to do next.
 *
 * Each error has a `kind`, with the names of the Rust and Python clients, and a class of its own.
 * There are as many kinds as there are different things to do.
 */

/** What to do about an error; `advice` of the error says it in words. */
export type ErrorKind =
  | "Conflict"
  | "Ambiguous"
  | "Unavailable"
  | "Overloaded"
  | "Full"
  | "Invalid"
  | "Closed"
  | "Denied"
  | "Forgotten"
  | "Lapsed"
  | "Codec"
  | "Sealed"
  | "Entropy"
  | "Internal";

const KINDS = {
  CONFLICT: "Conflict",
  REPLAY_MISMATCH: "Invalid",
  STALE_CALL: "Forgotten",
  TOO_EARLY: "Forgotten",
  SESSION_EXPIRED: "Forgotten",
  REQUEST_TOO_OLD: "Forgotten",
  TOO_LARGE: "Invalid",
  BAD_ID: "Invalid",
  BAD_KEY: "Invalid",
  BAD_NAME: "Invalid",
  BAD_LIFETIME: "Invalid",
  BAD_REQUEST: "Invalid",
  QUOTA: "Full",
  OVERLOADED: "Overloaded",
  DISK_FULL: "Full",
  NO_LEADER: "Unavailable",
  AMBIGUOUS: "Ambiguous",
  UNAUTHENTICATED: "Denied",
  DENIED: "Denied",
  WRONG_CLUSTER: "Internal",
  WRONG_NODE: "Internal",
  FORMAT_NEWER: "Internal",
  LIST_LAPSED: "Lapsed",
  WATCH_TOO_OLD: "Lapsed",
  WATCH_LAPSED: "Lapsed",
  NOT_LEADING: "Internal",
  CHANGE_UNDER_WAY: "Internal",
  NO_MEMBER: "Internal",
  NO_TENANT: "Internal",
  SEAT_TAKEN: "Internal",
  QUORUM_AT_RISK: "Internal",
  NODE_SILENT: "Internal",
  AUDIT_FAILING: "Unavailable",
  KEY_MISSING: "Unavailable",
  DAMAGED: "Sealed",
  STOPPING: "Unavailable",
} as const;

/** Why a call failed, in the cluster's words: `google.rpc.ErrorInfo.reason`. */
export type Reason = keyof typeof KINDS;

/** Whether this version knows a reason. */
export function isReason(text: string): text is Reason {
  return Object.hasOwn(KINDS, text);
}

/** What an error knows beside its message. */
export interface ErrorFacts {
  /** The cluster's own reason, where it gave one. */
  reason?: Reason | undefined;
  /** The address that the message names. Do not pass it on to callers of your own. */
  address?: string | undefined;
  /** Of conflicts: the record's revision; 0 if there is no such record. */
  revision?: number | undefined;
  /** Of conflicts in a transaction or batch: the operation at fault, from 0. */
  operation?: number | undefined;
  /** The error that led to this one. */
  cause?: unknown;
}

/** What went wrong. Branch on the class or on `kind`; the message is for people. */
export abstract class HelveError extends Error {
  /** What to do about it. */
  abstract readonly kind: ErrorKind;
  /** What to do, in words. */
  abstract readonly advice: string;
  readonly reason: Reason | undefined;
  readonly address: string | undefined;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.reason = facts.reason;
    this.address = facts.address;
  }

  /**
   * Whether the call may have taken effect. Of every other error it is certain: it did not.
   *
   * A take that fails as Codec is the exception: its value is gone, and the message says so.
   */
  get maybeDone(): boolean {
    return this.kind === "Ambiguous";
  }
}

/** A condition on a revision does not hold, and nothing was written. */
export class ConflictError extends HelveError {
  readonly kind = "Conflict";
  readonly advice = "Read again, decide again.";
  /** The record's revision; 0 if there is no such record. */
  readonly revision: number;
  /** Of a transaction or batch: the operation at fault, from 0; else 0. */
  readonly operation: number;

  constructor(message: string, facts: ErrorFacts = {}) {
    super(message, { reason: "CONFLICT", ...facts });
    this.revision = facts.revision ?? 0;
    this.operation = facts.operation ?? 0;
  }
}

/** The call was sent, and whether it took effect cannot be known. */
export class AmbiguousError extends HelveError {
  readonly kind = "Ambiguous";
  readonly advice =
    "Read the record again, and decide by what it holds. " +
    "Never repeat blindly what must not happen twice.";
}

/** No node answered within the deadline, or no leader was known; the call had no effect. */
export class UnavailableError extends HelveError {
  readonly kind = "Unavailable";
  readonly advice = "Try again later. `helve status` says which nodes run.";
}

/** The cluster, or a proxy before it, has too much under way; the call had no effect. */
export class OverloadedError extends HelveError {
  readonly kind = "Overloaded";
  readonly advice = "Try again after a pause, with less at once.";
}

/** A quota is used up, or a disk is below its reserve; the call had no effect. */
export class FullError extends HelveError {
  readonly kind = "Full";
  readonly advice =
    "Delete or take something, or call the operator. Trying again alone does not help.";
}

/** The request breaks a limit or a rule, and had no effect. */
export class InvalidError extends HelveError {
  readonly kind = "Invalid";
  readonly advice = "Change the request: it will never succeed.";
}

/** The client was closed. */
export class ClosedError extends HelveError {
  readonly kind = "Closed";
  readonly advice = "Make another client.";
}

/** The credential is missing, or does not allow this. */
export class DeniedError extends HelveError {
  readonly kind = "Denied";
  readonly advice = "Get another credential.";
}

/** The identity of the call is older than what the cluster remembers, or too far ahead. */
export class ForgottenError extends HelveError {
  readonly kind = "Forgotten";
  readonly advice =
    "Read the record: what an earlier call under that identity did is not known any more.";
}

/** A list took too long for its view, and what was read of it is dropped. */
export class LapsedError extends HelveError {
  readonly kind = "Lapsed";
  readonly advice = "List less at once: smaller pages, or without values.";
}

/** A value has no exact JSON form, or a stored one is not what the codec expects. */
export class CodecError extends HelveError {
  readonly kind = "Codec";
  readonly advice = "Write the value in another form, or read it with the codec that wrote it.";
}

/** A sealed value does not open under the keys at hand; it stays as it is. */
export class SealedError extends HelveError {
  readonly kind = "Sealed";
  readonly advice = "Give the key that it was sealed under, or put the value back from elsewhere.";
}

/** The platform gave no randomness. Nothing was minted or sent. */
export class EntropyError extends HelveError {
  readonly kind = "Entropy";
  readonly advice = "Repair the machine.";
}

/** Something contradicts itself. */
export class InternalError extends HelveError {
  readonly kind = "Internal";
  readonly advice = "Report it: a defect of Helve, or versions that do not fit together.";
}

const CLASSES: Record<ErrorKind, new (message: string, facts?: ErrorFacts) => HelveError> = {
  Conflict: ConflictError,
  Ambiguous: AmbiguousError,
  Unavailable: UnavailableError,
  Overloaded: OverloadedError,
  Full: FullError,
  Invalid: InvalidError,
  Closed: ClosedError,
  Denied: DeniedError,
  Forgotten: ForgottenError,
  Lapsed: LapsedError,
  Codec: CodecError,
  Sealed: SealedError,
  Entropy: EntropyError,
  Internal: InternalError,
};

/** The error that goes with a reason of the cluster. */
export function refused(reason: Reason, message: string, facts: ErrorFacts = {}): HelveError {
  return new CLASSES[KINDS[reason]](message, { ...facts, reason });
}

/** The answer to calls of a closed client. */
export function closed(): ClosedError {
  return new ClosedError("this client was closed");
}
