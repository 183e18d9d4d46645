/** Lists, page by page. */

import type { Cluster } from "./cluster.js";
import { InvalidError } from "./errors.js";
import { PAGE, PAGE_MAX } from "./limits.js";
import { infoOf, type Page, pageOf, type Record, recordOf, type RecordInfo } from "./records.js";
import type { Codec } from "./codec.js";
import type * as wire from "./wire.js";

/** Which records a page has. */
export interface PageOptions {
  /** Begins behind this name; it need not exist. */
  readonly after?: string | undefined;
  /** At most this many; 100 if not told, 1,000 at most. */
  readonly limit?: number | undefined;
}

/** The lists of a store. Each page is one view. */
export class Pages<T> {
  constructor(
    private readonly cluster: Cluster,
    private readonly deadline: number,
    private readonly method: wire.Method<wire.ListReply>,
    /** The field of the request that bounds a page. */
    private readonly bound: "handlesMax" | "keysMax",
    private readonly codec: Codec<T>,
  ) {}

  /** A page without values. */
  infos(scope: object, options: PageOptions): Promise<Page<RecordInfo>> {
    return this.page(scope, options, false, (found) => infoOf(found.info));
  }

  /** A page with values, shorter than asked for where a reply cannot hold them. */
  values(scope: object, options: PageOptions): Promise<Page<Record<T>>> {
    return this.page(scope, options, true, (found) => recordOf(found, this.codec));
  }

  /** All pages, one after the other. */
  async *all<R>(
    page: (options: PageOptions) => Promise<Page<R>>,
    limit: number,
  ): AsyncGenerator<R, void, undefined> {
    let after: string | undefined;
    do {
      const found: Page<R> = await page({ after, limit });
      yield* found.items;
      after = found.next;
    } while (after !== undefined);
  }

  private async page<R>(
    scope: object,
    { after = "", limit = PAGE }: PageOptions,
    withValues: boolean,
    item: (found: wire.Valued) => R,
  ): Promise<Page<R>> {
    const until = this.cluster.until(this.deadline);
    let count = Math.min(Math.max(Math.floor(limit), 1), PAGE_MAX);
    for (;;) {
      const request = { ...scope, withValues, after, [this.bound]: String(count) };
      try {
        return pageOf(await this.cluster.call(this.method, request, until), item);
      } catch (error) {
        const isTooLarge = error instanceof InvalidError && error.reason === "TOO_LARGE";
        if (!isTooLarge || !withValues || count === 1) throw error;
        count = Math.ceil(count / 4);
      }
    }
  }
}
