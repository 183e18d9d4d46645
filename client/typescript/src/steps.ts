/** Changes that take several calls, all within one deadline. */

import { Backoff } from "./backoff.js";
import type { Cluster } from "./cluster.js";
import { ConflictError } from "./errors.js";
import { CONTENTION_FIRST, CONTENTION_MAX } from "./limits.js";
import type { Conflicted } from "./records.js";

/** What a round came to: an answer, or the revision that another writer left. */
export type Round<R> = { readonly answer: R } | { readonly lostTo: number };

/**
 * Reads, decides and writes, again and again, until no other writer came between.
 *
 * Throws ConflictError if others wrote first until `until`.
 */
export async function rounds<R>(
  cluster: Cluster,
  until: number,
  round: () => Promise<Round<R>>,
): Promise<R> {
  const { runtime } = cluster;
  const backoff = new Backoff(CONTENTION_FIRST, CONTENTION_MAX, runtime.random);
  for (;;) {
    const done = await round();
    if ("answer" in done) return done.answer;
    const pause = backoff.next();
    if (pause >= until - runtime.monotonicMs()) {
      throw new ConflictError(
        "others wrote first until the deadline ended: try again, with fewer writers at once",
        { revision: done.lostTo },
      );
    }
    await cluster.sleep(pause);
  }
}

/** What the write gives, or the revision at which its condition did not hold. */
export async function unlessConflict<R>(write: Promise<R>): Promise<R | Conflicted> {
  try {
    return await write;
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    return { status: "conflict", revision: error.revision };
  }
}
