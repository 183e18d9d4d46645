/** Claims: who carries out a side effect that must happen once, and what it came to. */

import { Backoff } from "./backoff.js";
import { ofBase64, toBase64 } from "./bytes.js";
import type { Cluster } from "./cluster.js";
import type { Codec } from "./codec.js";
import {
  checkedDigest, type Claimed, type EarlierLease, earlierOf, type InFlight,
} from "./claimed.js";
import {
  AmbiguousError, CodecError, HelveError, InFlightError, InternalError, LeaseLostError,
  OtherDigestError, OverloadedError, refused, UnavailableError, UnkeptResultError,
} from "./errors.js";
import { BACKOFF_FIRST, BACKOFF_MAX, CLAIM_FIRST, CLAIM_MAX } from "./limits.js";
import { onWire, type Owner } from "./owner.js";
import { type Lifetime, millis } from "./ttl.js";
import * as wire from "./wire.js";

/** Options of one claim. */
export interface ClaimOptions {
  /** How long the caller may take, in milliseconds, a day at most; else that of the store. */
  readonly lease?: number | undefined;
  /** Told to those who find the claim in flight. */
  readonly note?: string | undefined;
}

/** A side effect: it answers its result within its lease. */
export type Effect<T> = (lease: Lease<T>) => T | Promise<T>;

/** Options of `once`. */
export interface OnceOptions<T> extends ClaimOptions {
  /**
   * Is called in place of the side effect if it may have happened already: an earlier holder's
   * lease expired, or its result is forgotten; `lease.earlier` says which one's. It finds out, and
   * answers the result; or it carries the side effect out. Give the side effect itself if it may be
   * repeated, because what it calls knows the key. The cluster knows of an earlier holder for a
   * day; afterwards the side effect is called.
   */
  readonly recover?: Effect<T> | undefined;
  /**
   * Whether an error of the side effect or of `recover` says that it certainly did not happen,
   * under an earlier lease either. Then the claim is given up, and the next caller begins at once.
   * After any other error the lease ends by itself, and the next caller recovers.
   */
  readonly undone?: ((error: unknown) => boolean) | undefined;
  /** How long the result is kept; `defaultTtl` of the store, without it for ever. */
  readonly ttl?: Lifetime | undefined;
  /** How long another caller's lease is waited for, in milliseconds; else the client's deadline. */
  readonly patience?: number | undefined;
}

/** How a lease is given up. */
export interface AbandonOptions {
  /** The side effect did not happen under an `earlier` lease either: the next is not told of it. */
  readonly neverHappened?: boolean | undefined;
}

/** What names a store of claims, and how its results are kept. */
export interface ClaimSettings<T> {
  readonly store: string;
  readonly owner: Owner;
  readonly codec: Codec<T>;
  readonly lease: number;
  readonly defaultTtl: number | undefined;
}

/**
 * Leases on side effects that must happen once, such as payments, and results of type `T`.
 *
 * Of any number of callers of a key one has the lease. Callers after its `finish` get its result. A
 * holder that dies loses the lease at its end, on the cluster's clock; then the next caller has
 * one, with a higher fence. A holder that was suspended for longer than its lease does not know
 * that it lost it: what carries the side effect out should refuse a key that it has seen, or a
 * lower fence. Clusters know claims from feature level 6 on; before, calls fail as InternalError.
 */
export class Claims<T> {
  /** Is made by `Client.claims`. */
  constructor(
    private readonly cluster: Cluster,
    private readonly deadline: number,
    readonly settings: ClaimSettings<T>,
  ) {}

  /** The claims of another end user; they share nothing with these but the client. */
  forOwner(owner: Owner): Claims<T> {
    return new Claims(this.cluster, this.deadline, { ...this.settings, owner });
  }

  /**
   * Asks for the right to carry out a side effect.
   *
   * - `key`: names the side effect; 1 to 128 bytes without NUL, such as `order-17/pay`.
   * - `digest`: says what the side effect is, in 1 to 64 bytes: `await digestOf(request)`.
   *
   * Fails as InvalidError (CLAIMED) if the id is that of a handle. After AmbiguousError this caller
   * may have a lease that it does not know of; it ends by itself.
   */
  async claim(
    key: string,
    digest: Uint8Array,
    { lease = this.settings.lease, note = "" }: ClaimOptions = {},
  ): Promise<Claimed<T>> {
    const begin = {
      digest: checkedDigest(digest),
      leaseMs: millis(lease),
      note: toBase64(new TextEncoder().encode(note)),
    };
    const began = this.cluster.runtime.monotonicMs();
    const reply = await this.call(wire.CLAIM, { ...this.named(key), begin });
    const endsAtMs = Number(reply.info?.expiresAtMs ?? 0);
    const leftMs = Math.max(endsAtMs - wire.integer(reply.header.clockMs), 0);
    switch (reply.status) {
      case "CLAIM_STATUS_FRESH":
        return { status: "fresh", lease: this.lease(key, reply, endsAtMs, began + leftMs) };
      case "CLAIM_STATUS_IN_FLIGHT": {
        const fence = wire.integer(reply.info?.revision ?? "0");
        const told = new TextDecoder().decode(bytesOf(reply));
        return { status: "inFlight", fence, untilMs: endsAtMs, leftMs, note: told };
      }
      case "CLAIM_STATUS_DONE": {
        const untilMs = typeof reply.info?.expiresAtMs === "string" ? endsAtMs : undefined;
        return { status: "done", result: this.result(key, reply), untilMs };
      }
      case "CLAIM_STATUS_CONFLICT":
        return { status: "otherDigest" };
      default:
        throw unknownStatus(reply.status);
    }
  }

  /**
   * Carries out a side effect once, and answers its result to every caller of the key.
   *
   * `effect` is called with the lease if this caller is the first one. What it answers is kept. It
   * must end within the lease: `lease.leftMs` says how much of it is left.
   *
   * Fails as what `effect` or `recover` throws; as OtherDigestError; as InFlightError if another
   * caller had the lease all the time; as UnkeptResultError if the side effect happened and its
   * result could not be kept; and as AmbiguousError if an earlier holder may have carried it out
   * and there is no `recover`, or if a claim's own answer was lost.
   */
  async once(
    key: string,
    digest: Uint8Array,
    effect: Effect<T>,
    options: OnceOptions<T> = {},
  ): Promise<T> {
    const { patience = this.deadline } = options;
    const until = this.cluster.until(patience);
    for (;;) {
      const claimed = await this.claim(key, digest, options);
      if (claimed.status === "fresh") return this.carriedOut(claimed.lease, effect, options);
      if (claimed.status === "done") return claimed.result;
      if (claimed.status === "otherDigest") {
        const message = "was claimed for another digest, so for another request";
        throw new OtherDigestError(`${JSON.stringify(key)} ${message}`);
      }
      await this.changed(key, claimed, until);
    }
  }

  /**
   * Frees a key, whatever is known of it; true if it was in flight or done.
   *
   * The next caller carries the side effect out again, and `once` does so without `recover`.
   */
  async delete(key: string): Promise<boolean> {
    return (await this.call(wire.DELETE, this.named(key))).status === "HANDLE_STATUS_LIVE";
  }

  private call<R extends wire.Reply>(method: wire.Method<R>, request: object): Promise<R> {
    return this.cluster.call({ method, request, until: this.cluster.until(this.deadline) });
  }

  private named(key: string): object {
    const { store, owner } = this.settings;
    return { store, owner: onWire(owner), id: key };
  }

  private lease(key: string, reply: wire.ClaimReply, untilMs: number, endsAt: number): Lease<T> {
    const fence = wire.integer(reply.fence);
    const act = (action: object) => this.call(wire.CLAIM, { ...this.named(key), ...action });
    const result = (found: wire.ClaimReply) => this.result(key, found);
    const { settings, cluster: { runtime } } = this;
    return new Lease(key, fence, untilMs, earlierOf(reply.earlier), {
      act, result, settings, leftMs: () => endsAt - runtime.monotonicMs(),
    });
  }

  private result(key: string, reply: wire.ClaimReply): T {
    try {
      return this.settings.codec.decode(bytesOf(reply));
    } catch (cause) {
      if (!(cause instanceof CodecError)) throw cause;
      throw new CodecError(`the result of ${JSON.stringify(key)}: ${cause.message}`, { cause });
    }
  }

  /** Waits until a lease is finished, given up, or over. Reads cost no writes. */
  private async changed(key: string, found: InFlight, until: number): Promise<void> {
    const { runtime } = this.cluster;
    const backoff = new Backoff(CLAIM_FIRST, CLAIM_MAX, runtime.random);
    for (;;) {
      const pause = backoff.next();
      if (pause >= until - runtime.monotonicMs()) {
        const message = "was in flight all the time: another caller has its lease";
        throw new InFlightError(`${JSON.stringify(key)} ${message}`, found.untilMs);
      }
      await this.cluster.sleep(pause);
      const { info } = await this.call(wire.GET, this.named(key));
      if (wire.integer(info?.revision ?? "0") !== found.fence) return;
    }
  }

  private async carriedOut(lease: Lease<T>, effect: Effect<T>, options: OnceOptions<T>): Promise<T> {
    const { recover, undone = () => false, ttl = "default" } = options;
    const { earlier } = lease;
    const isFirst = earlier === undefined || !earlier.mayHaveHappened;
    if (!isFirst && recover === undefined) {
      // The next caller is told of the earlier lease too.
      const untold = await givenUp(lease, {});
      throw mayHaveHappened(lease.key, earlier, untold);
    }
    let result: T;
    try {
      result = await (isFirst || recover === undefined ? effect : recover)(lease);
    } catch (error) {
      // If it cannot be given up, the key is free once the lease ends; the caller's error says more.
      if (undone(error)) await givenUp(lease, { neverHappened: true });
      throw error;
    }
    return this.kept(lease, result, ttl);
  }

  /** Finishes until an answer says so: under one fence the first result is kept. */
  private async kept(lease: Lease<T>, result: T, ttl: Lifetime): Promise<T> {
    const { runtime } = this.cluster;
    const until = runtime.monotonicMs() + lease.leftMs;
    const backoff = new Backoff(BACKOFF_FIRST, BACKOFF_MAX, runtime.random);
    for (;;) {
      try {
        return await lease.finish(result, ttl);
      } catch (cause) {
        if (!(cause instanceof HelveError)) throw cause;
        const pause = backoff.next();
        if (!isPassing(cause) || pause >= until - runtime.monotonicMs()) {
          const key = JSON.stringify(lease.key);
          const what = `the side effect ${key} was carried out, but its result is not known to be`;
          throw new UnkeptResultError(`${what} kept: ${cause.message}`, result, cause);
        }
        await this.cluster.sleep(pause);
      }
    }
  }
}

/** What a lease needs of its store. */
interface Terms<T> {
  readonly act: (action: object) => Promise<wire.ClaimReply>;
  readonly result: (reply: wire.ClaimReply) => T;
  readonly settings: ClaimSettings<T>;
  readonly leftMs: () => number;
}

/** The right to carry out one side effect, until it is finished, given up, or over. */
export class Lease<T> {
  /** Is made by `Claims.claim`. */
  constructor(
    readonly key: string,
    /**
     * Its number, higher than those of all leases of the key before: what the side effect touches
     * can refuse a lower one.
     */
    readonly fence: number,
    /** When it ends, in milliseconds since the Unix epoch on the cluster's clock. */
    readonly untilMs: number,
    /**
     * The newest lease of the key before this one that was not abandoned; if all were, the newest.
     * Undefined: none is known. The cluster knows of them for a day after the last one ended.
     */
    readonly earlier: EarlierLease | undefined,
    private readonly terms: Terms<T>,
  ) {}

  /** How long it lasts on at least, in milliseconds, counted from when the claim was sent. */
  get leftMs(): number {
    return Math.max(this.terms.leftMs(), 0);
  }

  /**
   * Keeps the result for all later callers, and answers the one that is kept.
   *
   * A second finish keeps nothing, and answers the first one's result: after an error it may be
   * called again. `ttl` says how long the result is kept: `defaultTtl` of the store, without it for
   * ever. Fails as LeaseLostError if the lease is over, was given up, or the key was deleted: then
   * the result is not kept, and another caller may have the lease.
   */
  async finish(result: T, ttl: Lifetime = "default"): Promise<T> {
    const { act, result: read, settings } = this.terms;
    const finish = {
      fence: String(this.fence),
      result: toBase64(settings.codec.encode(result)),
      resultTtlMs: resultTtl(ttl, settings.defaultTtl),
    };
    const reply = await act({ finish });
    if (reply.status === "CLAIM_STATUS_FINISHED") return result;
    if (reply.status === "CLAIM_STATUS_DONE") return read(reply);
    if (reply.status !== "CLAIM_STATUS_LEASE_LOST") throw unknownStatus(reply.status);
    throw new LeaseLostError(`the lease ${this.fence} of ${JSON.stringify(this.key)} is no more`);
  }

  /**
   * Gives the lease up, because the side effect did not happen: the key is free at once.
   *
   * False: the lease was over before, or it is finished, and its result stays. If it fails, the
   * lease ends by itself.
   */
  async abandon({ neverHappened = false }: AbandonOptions = {}): Promise<boolean> {
    const said = neverHappened ? { neverHappened } : {};
    const { status } = await this.terms.act({ abandon: { fence: String(this.fence), ...said } });
    if (status === "CLAIM_STATUS_ABANDONED") return true;
    if (status === "CLAIM_STATUS_DONE" || status === "CLAIM_STATUS_LEASE_LOST") return false;
    throw unknownStatus(status);
  }
}

/** Gives a lease up; the error if that fails: then the key is free once the lease ends. */
async function givenUp<T>(
  lease: Lease<T>,
  options: AbandonOptions,
): Promise<HelveError | undefined> {
  try {
    await lease.abandon(options);
    return undefined;
  } catch (error) {
    if (error instanceof HelveError) return error;
    throw error;
  }
}

/** How long a result is kept; undefined: until it is deleted. Throws InvalidError (BAD_LIFETIME). */
function resultTtl(ttl: Lifetime, defaultTtl: number | undefined): string | undefined {
  const span = ttl === "default" ? defaultTtl : ttl;
  if (span === undefined || span === "never") return undefined;
  if (span !== "keep") return millis(span);
  throw refused("BAD_LIFETIME", '"keep" of a result, which had no lifetime before: give a time');
}

function bytesOf({ value = "" }: wire.ClaimReply): Uint8Array {
  const data = ofBase64(value);
  if (data === undefined) throw new InternalError("a reply whose value is no base64");
  return data;
}

function isPassing(error: HelveError): boolean {
  return error instanceof AmbiguousError || error instanceof OverloadedError ||
    error instanceof UnavailableError;
}

function mayHaveHappened(
  key: string,
  { end, fence }: EarlierLease,
  cause: HelveError | undefined,
): AmbiguousError {
  const named = JSON.stringify(key);
  const what = end === "finished"
    ? `${named} was carried out under lease ${fence}, and its result is forgotten`
    : `the holder of lease ${fence} of ${named} may have carried it out`;
  return new AmbiguousError(`${what}: give \`recover\`, which finds out`, { cause });
}

function unknownStatus(status: string): InternalError {
  return new InternalError(`a claim status that this version does not know: ${status}`);
}
