/** The endpoints of a cluster, and which of them to try next. */

import { endpoint, isLoopback } from "./address.js";
import { refused } from "./errors.js";
import { SUSPECT } from "./limits.js";

/** One node, as its endpoint. */
export interface Node {
  readonly index: number;
  readonly address: string;
  readonly url: string;
}

/** The nodes that a client may talk to. */
export class Pool {
  readonly nodes: readonly Node[];
  private readonly suspectUntil: number[];
  private preferredIndex = 0;

  /**
   * `guardsToken`: calls bear a token, and their caller vouches for no network.
   *
   * Throws InvalidError if there is no endpoint, one is not `HOST:PORT`, or the token would go
   * beyond loopback in plain text.
   */
  constructor(
    endpoints: readonly string[],
    isTls: boolean,
    private readonly nowMs: () => number,
    guardsToken = false,
  ) {
    if (endpoints.length === 0) {
      throw refused("BAD_REQUEST", "a cluster needs at least one endpoint, as HOST:PORT");
    }
    // The comma between two may be of a password: then what is before it is one, too.
    const named = endpoints.filter((given) => given.includes("@")).at(-1);
    if (named !== undefined) endpoint(named, isTls);
    this.nodes = endpoints.map((given, index) => {
      const address = endpoint(given, isTls);
      if (guardsToken && !isTls && !isLoopback(address)) {
        const remedy = "say `tls: true`, or `insecureToken: true` if you vouch for the network";
        throw refused("BAD_REQUEST", `the token would go to ${address} in plain text: ${remedy}`);
      }
      return { index, address, url: `${isTls ? "https" : "http"}://${address}` };
    });
    this.suspectUntil = endpoints.map(() => -Infinity);
  }

  /** The node for the first try of a call. */
  preferred(): Node {
    return this.nodes[this.preferredIndex] as Node;
  }

  /** The next node that is not suspect, or the next; none that will not do for this call. */
  after(node: Node, useless: ReadonlySet<number>): Node | undefined {
    const around = this.nodes.slice(node.index + 1).concat(this.nodes.slice(0, node.index + 1));
    const usable = around.filter((each) => !useless.has(each.index));
    return usable.find((each) => !this.isSuspect(each)) ?? usable[0];
  }

  /** Whether a node did not answer lately. */
  isSuspect(node: Node): boolean {
    return this.nowMs() < (this.suspectUntil[node.index] ?? -Infinity);
  }

  /** Notes that a node did not answer: other calls shall not begin with it. */
  suspect(node: Node): void {
    this.suspectUntil[node.index] = this.nowMs() + SUSPECT;
    // A call that began before the others moved away must not move them again.
    if (this.preferredIndex !== node.index) return;
    this.preferredIndex = this.after(node, new Set())?.index ?? 0;
  }

  /** Notes that a node answered, and named the leader; empty: it knows none. */
  answered(node: Node, leader: string): void {
    this.suspectUntil[node.index] = -Infinity;
    const known = this.nodes.find((each) => each.address === leader);
    if (known !== undefined && !this.isSuspect(known)) this.preferredIndex = known.index;
  }
}
