/**
 * What can go wrong, said so that a caller knows what to do next.
 *
 * Each error has a `kind`, with the names of the Rust and Python clients, and a class of its own.
 * There are as many kinds as there are different things to do.
 */

/** What to do about an error; `advice` of the error says it in words. */
export type ErrorKind =
  | "Conflict" | "Ambiguous" | "Unavailable" | "Overloaded" | "Full" | "Invalid" | "Closed"
  | "Denied" | "Forgotten" | "Lapsed" | "Codec" | "Sealed" | "Entropy" | "Internal";

/** The reasons of each kind. Kinds without one are of this client alone. */
const REASONS = {
  Conflict: ["CONFLICT"],
  Ambiguous: ["AMBIGUOUS"],
  Unavailable: ["NO_LEADER", "AUDIT_FAILING", "KEY_MISSING", "STOPPING"],
  Overloaded: ["OVERLOADED"],
  Full: ["QUOTA", "DISK_FULL"],
  Invalid: [
    "REPLAY_MISMATCH", "TOO_LARGE", "BAD_ID", "BAD_KEY", "BAD_NAME", "BAD_LIFETIME", "BAD_REQUEST",
    "CLAIMED",
  ],
  Denied: ["UNAUTHENTICATED", "DENIED"],
  Forgotten: ["STALE_CALL", "TOO_EARLY", "SESSION_EXPIRED", "REQUEST_TOO_OLD"],
  Lapsed: ["LIST_LAPSED", "WATCH_TOO_OLD", "WATCH_LAPSED"],
  Sealed: ["DAMAGED"],
  Internal: [
    "WRONG_CLUSTER", "WRONG_NODE", "FORMAT_NEWER", "NOT_LEADING", "CHANGE_UNDER_WAY", "NO_MEMBER",
    "NO_TENANT", "SEAT_TAKEN", "ALREADY_VOTER", "STAYS_LEARNER", "QUORUM_AT_RISK", "NODE_SILENT",
  ],
} as const;

/** Why a call failed, in the cluster's words: `google.rpc.ErrorInfo.reason`. */
export type Reason = (typeof REASONS)[keyof typeof REASONS][number];

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

/** What a caller does about an error of each kind. */
const ADVICE: Record<ErrorKind, string> = {
  Conflict: "Read again, decide again.",
  Ambiguous:
    "Read the record again, and decide by what it holds. " +
    "Never repeat blindly what must not happen twice.",
  Unavailable: "Try again later. `helve status` says which nodes run.",
  Overloaded: "Try again after a pause, with less at once.",
  Full: "Delete or take something, or call the operator. Trying again alone does not help.",
  Invalid: "Change the request: it will never succeed.",
  Closed: "Make another client.",
  Denied: "Get another credential.",
  Forgotten: "Read the record: what an earlier call under that identity did is not known any more.",
  Lapsed: "List less at once: smaller pages, or without values.",
  Codec: "Write the value in another form, or read it with the codec that wrote it.",
  Sealed: "Give the key that it was sealed under, or put the value back from elsewhere.",
  Entropy: "Repair the machine.",
  Internal: "Report it: a defect of Helve, or versions that do not fit together.",
};

interface ErrorOf<K extends ErrorKind> extends HelveError {
  readonly kind: K;
  readonly advice: string;
}
type ErrorClass<K extends ErrorKind> = Omit<typeof HelveError, "prototype"> &
  (new (message: string, facts?: ErrorFacts) => ErrorOf<K>);

/** The class of the errors of one kind. */
function errorOf<K extends ErrorKind>(kind: K): ErrorClass<K> {
  return class extends HelveError {
    readonly kind = kind;
    readonly advice = ADVICE[kind];
  };
}

/** A condition on a revision does not hold, and nothing was written. */
export class ConflictError extends errorOf("Conflict") {
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

/** The lease of a claim is over, was given up, or its key was deleted; nothing was kept. */
export class LeaseLostError extends ConflictError {
  override readonly advice =
    "Claim again: another caller may have carried the side effect out since.";
}

/** Another caller had the lease of a claim for as long as this one waited. */
export class InFlightError extends ConflictError {
  override readonly advice = "Ask again later: then it is done, or the lease is over.";

  /** `untilMs`: when the lease ends, in milliseconds since the Unix epoch, on the cluster's clock. */
  constructor(message: string, readonly untilMs: number) {
    super(message, { reason: undefined });
  }
}

/** The call was sent, and whether it took effect cannot be known. */
export class AmbiguousError extends errorOf("Ambiguous") {}
/** A side effect was carried out under a claim, and its result is not known to be kept. */
export class UnkeptResultError extends AmbiguousError {
  override readonly advice =
    "Keep `result` yourself, or make it known to what `recover` asks. " +
    "Do not repeat the side effect.";

  /** `result`: what the side effect came to. */
  constructor(message: string, readonly result: unknown, cause: HelveError) {
    super(message, { reason: cause.reason, address: cause.address, cause });
  }
}

/** No node answered within the deadline, or no leader was known; the call had no effect. */
export class UnavailableError extends errorOf("Unavailable") {}
/** The cluster, or a proxy before it, has too much under way; the call had no effect. */
export class OverloadedError extends errorOf("Overloaded") {}
/** A quota is used up, or a disk is below its reserve; the call had no effect. */
export class FullError extends errorOf("Full") {}
/** The request breaks a limit or a rule, and had no effect. */
export class InvalidError extends errorOf("Invalid") {}
/** The key of a claim is in flight or done for another digest, and so for another request. */
export class OtherDigestError extends InvalidError {
  override readonly advice = "Use another key, or send the request as it was sent first.";
}
/** The client was closed. */
export class ClosedError extends errorOf("Closed") {}
/** The credential is missing, or does not allow this. */
export class DeniedError extends errorOf("Denied") {}
/** The identity of the call is older than what the cluster remembers, or too far ahead. */
export class ForgottenError extends errorOf("Forgotten") {}
/** A list took too long for its view, and what was read of it is dropped. */
export class LapsedError extends errorOf("Lapsed") {}
/** A value has no exact JSON form, or a stored one is not what the codec expects. */
export class CodecError extends errorOf("Codec") {}
/** A sealed value does not open under the keys at hand; it stays as it is. */
export class SealedError extends errorOf("Sealed") {}
/** The platform gave no randomness. Nothing was minted or sent. */
export class EntropyError extends errorOf("Entropy") {}
/** Something contradicts itself. */
export class InternalError extends errorOf("Internal") {}

const CLASSES = {
  Conflict: ConflictError, Ambiguous: AmbiguousError, Unavailable: UnavailableError,
  Overloaded: OverloadedError, Full: FullError, Invalid: InvalidError, Denied: DeniedError,
  Forgotten: ForgottenError, Lapsed: LapsedError, Sealed: SealedError, Internal: InternalError,
};
const KINDS = new Map<string, keyof typeof REASONS>();
for (const [kind, reasons] of Object.entries(REASONS)) {
  for (const reason of reasons) KINDS.set(reason, kind as keyof typeof REASONS);
}

/** Whether this version knows a reason. */
export function isReason(text: string): text is Reason {
  return KINDS.has(text);
}

/** The error that goes with a reason of the cluster. */
export function refused(reason: Reason, message: string, facts: ErrorFacts = {}): HelveError {
  return new CLASSES[KINDS.get(reason) ?? "Internal"](message, { ...facts, reason });
}

/** The answer to calls of a closed client. */
export function closed(): ClosedError {
  return new ClosedError("this client was closed");
}
