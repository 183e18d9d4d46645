/** The tries of one call: which node is next, after which pause, and what the end says. */

import { Backoff } from "./backoff.js";
import { AmbiguousError, closed, type HelveError, UnavailableError } from "./errors.js";
import { BEHIND_FIRST, BEHIND_MAX, TRY_LEAST } from "./limits.js";
import type { Node, Pool } from "./pool.js";
import type { Runtime } from "./runtime.js";
import { isOutcome, type Verdict } from "./verdict.js";

/** How tries follow each other; times in milliseconds. */
export interface Pace {
  readonly attemptTimeout: number;
  readonly backoffFirst: number;
  readonly backoffMax: number;
  readonly triesMax: number;
}

/**
 * Goes from node to node until a call is answered, refused, or out of time.
 *
 * It makes no call itself. Its owner asks `timeout` before each try, and tells `failed` after one
 * without an answer.
 */
export class Tries {
  /** The node for the next try. */
  node: Node;
  private isInDoubt = false;
  private attemptTimeout: number;
  private readonly backoff: Backoff;
  private readonly behind: Backoff;
  private readonly useless = new Set<number>();
  private tried = 0;
  private last: HelveError = new UnavailableError("no time was left to send the call");

  /** `until` ends the call, on the monotonic clock. `isLasting`: it is a mutation. */
  constructor(
    private readonly pool: Pool,
    private readonly until: number,
    private readonly pace: Pace,
    private readonly isLasting: boolean,
    private readonly runtime: Pick<Runtime, "monotonicMs" | "random">,
  ) {
    this.node = pool.preferred();
    this.attemptTimeout = pace.attemptTimeout;
    this.backoff = new Backoff(pace.backoffFirst, pace.backoffMax, runtime.random);
    this.behind = new Backoff(BEHIND_FIRST, BEHIND_MAX, runtime.random);
  }

  /** How long the next try may take. Throws the error that ends the call, out of time. */
  timeout(): number {
    const left = this.until - this.runtime.monotonicMs();
    if (left <= 0) throw this.gaveUp("within the deadline");
    const timeout = Math.min(left, this.attemptTimeout);
    this.attemptTimeout *= 2;
    this.tried += 1;
    return timeout;
  }

  /** The pause before the next try. Throws the error that ends the call. */
  failed(verdict: Verdict): number {
    const { effect, error, health } = verdict;
    this.last = error;
    if (effect === "refused") throw isOutcome(error) ? error : this.unlessInDoubt();
    if (effect === "barred") throw this.unlessInDoubt();
    if (effect === "unknown") this.isInDoubt = this.isLasting;
    if (health !== "sound") this.pool.suspect(this.node);
    if (this.tried >= this.pace.triesMax) throw this.gaveUp(`in ${this.tried} tries`);
    if (health === "useless") this.useless.add(this.node.index);
    const following = this.pool.after(this.node, this.useless);
    if (following === undefined) throw this.unlessInDoubt();
    const pause = this.pause(verdict, following);
    this.node = following;
    // One that is cut off would put in doubt what is certain so far: that nothing was done.
    const least = this.isLasting && !this.isInDoubt ? TRY_LEAST : 0;
    if (pause + least < this.until - this.runtime.monotonicMs()) return pause;
    throw this.gaveUp("within the deadline");
  }

  /** The error of a call whose client was closed, `isUnanswered` while a try was under way. */
  closed(isUnanswered: boolean): HelveError {
    this.last = closed();
    this.isInDoubt ||= isUnanswered && this.isLasting;
    return this.unlessInDoubt();
  }

  private pause({ health, pauseMs }: Verdict, following: Node): number {
    if (health !== "behind") return Math.max(this.backoff.next(), pauseMs);
    // A proxy asks for a pause of its own, a node for one of the whole cluster.
    const isElsewhere = following.index !== this.node.index && !this.pool.isSuspect(following);
    return Math.max(this.behind.next(), isElsewhere ? 0 : pauseMs);
  }

  private unlessInDoubt(): HelveError {
    if (!this.isInDoubt) return this.last;
    const message = `the call was sent, and its outcome is not known: ${this.last.message}`;
    const { address } = this.last;
    return new AmbiguousError(message, { reason: "AMBIGUOUS", address, cause: this.last });
  }

  private gaveUp(within: string): HelveError {
    const { message, reason, address, kind } = this.last;
    if (this.isInDoubt || kind === "Overloaded") return this.unlessInDoubt();
    const error = `no node answered ${within}: ${message}`;
    return new UnavailableError(error, { reason, address, cause: this.last });
  }
}
