/** A client of a cluster. */

import { Claims } from "./claims.js";
import { Cluster, checkedToken, type Token } from "./cluster.js";
import { type Codec, json } from "./codec.js";
import { refused } from "./errors.js";
import { type HandleSettings, HandleStore } from "./handles.js";
import { Keys } from "./keys.js";
import { ATTEMPT_TIMEOUT, BACKOFF_FIRST, BACKOFF_MAX, DEADLINE, LEASE } from "./limits.js";
import type { Owner } from "./owner.js";
import { platform, type Runtime } from "./runtime.js";
import { parsed, type TraceParent } from "./trace.js";
import { Transaction } from "./transaction.js";
import type { Defaults } from "./ttl.js";

/** How a client reaches its cluster. All times are in milliseconds. */
export interface ClientOptions {
  /** Who calls: a token, or a function that gives the one of now, asked once for each call. */
  readonly token?: Token | undefined;
  /** Whether nodes are reached over TLS. Whom to trust is a setting of the platform. */
  readonly tls?: boolean | undefined;
  /** Sends the token in plain text beyond loopback, too: you vouch for the network between. */
  readonly insecureToken?: boolean | undefined;
  /** How long each call may take, retries included: 5 s if not told; a day at most. */
  readonly deadline?: number | undefined;
  /** How long the first try of a call waits for its node: 1 s. Each further one twice as long. */
  readonly attemptTimeout?: number | undefined;
  /** The pause before the second try, at most, and that between two later ones: 5 and 200. */
  readonly backoff?: readonly [first: number, maximum: number] | undefined;
  /** How many tries a call has. With 1, a write whose answer is lost is ambiguous at once. */
  readonly triesMax?: number | undefined;
  /**
   * The span around each call, asked once for it, as a `traceparent` of W3C Trace Context. Nodes
   * that export traces continue it if it is sampled. What is malformed is left out.
   */
  readonly traceparent?: TraceParent | undefined;
  /** What to use in place of the platform's `fetch`. It must not retry. */
  readonly fetch?: Runtime["fetch"] | undefined;
  /** What to use in place of the platform's clocks, timers and draws. */
  readonly runtime?: Partial<Runtime> | undefined;
}

/** Whose records, how values become bytes, and how long they live. */
export interface KeyOptions<T> extends Defaults {
  /** An end user's name, or `SHARED`. To another owner the records are unknown. */
  readonly owner: Owner;
  /** How values become bytes; as JSON if not told otherwise. */
  readonly codec?: Codec<T> | undefined;
}

/** Options of a store of handles. */
export interface HandleOptions<T> extends KeyOptions<T> {
  /** Minted ids begin with `prefix-`; at most 64 bytes of `[a-z0-9_-]`. */
  readonly idPrefix?: string | undefined;
}

/** Options of a store of claims. */
export interface ClaimsOptions<T> {
  /** An end user's name, or `SHARED`. Who has another owner neither sees nor meets these claims. */
  readonly owner: Owner;
  /** How results become bytes; as JSON if not told otherwise. */
  readonly codec?: Codec<T> | undefined;
  /**
   * How long a caller may take to carry a side effect out, in milliseconds: 30,000 if not told, a
   * day at most. A holder that dies holds others up for as long.
   */
  readonly lease?: number | undefined;
  /**
   * How long results are kept, in milliseconds; without it: for ever. Afterwards the key is free, so
   * keep them for as long as a caller may ask again.
   */
  readonly defaultTtl?: number | undefined;
}

/**
 * A client of a cluster.
 *
 * It connects to nothing before its first call. Make one for a process, or for an isolate, and keep
 * it: it knows which node leads, and the cluster's time.
 */
export class Client {
  private readonly cluster: Cluster;
  /** How long each call may take, retries included, in milliseconds. */
  readonly deadline: number;

  /**
   * `endpoints`: the nodes, each as `HOST:PORT`, or one text with commas between. One suffices;
   * with several the client goes on when one is gone.
   *
   * Throws InvalidError if an endpoint is not `HOST:PORT`, or an option cannot be used; and for a
   * token without TLS, if an endpoint is not loopback, unless `insecureToken`.
   */
  constructor(endpoints: string | readonly string[], options: ClientOptions = {}) {
    const { token, backoff = [BACKOFF_FIRST, BACKOFF_MAX] } = options;
    if (token !== undefined && typeof token !== "function") checkedToken(token);
    const runtime = { ...platform, ...options.runtime };
    this.deadline = checkedTime("deadline", options.deadline ?? DEADLINE);
    this.cluster = new Cluster({
      endpoints: typeof endpoints === "string" ? endpoints.split(",") : endpoints,
      isTls: options.tls ?? false,
      token,
      insecureToken: options.insecureToken ?? false,
      trace: options.traceparent,
      pace: {
        attemptTimeout: checkedTime("attemptTimeout", options.attemptTimeout ?? ATTEMPT_TIMEOUT),
        backoffFirst: checkedTime("backoff", backoff[0]),
        backoffMax: checkedTime("backoff", backoff[1]),
        triesMax: Math.max(options.triesMax ?? Infinity, 1),
      },
      runtime: { ...runtime, fetch: options.fetch ?? runtime.fetch },
    });
  }

  /** The same client, sharing `close` and what it knows, but its calls may take this long. */
  withDeadline(deadline: number): Client {
    const other = Object.create(Client.prototype) as Client;
    return Object.assign(other, this, { deadline: checkedTime("deadline", deadline) });
  }

  /**
   * The same client, but its calls are made in this span of yours: the `traceparent` of the request
   * that you answer. A value that is malformed, or none, changes nothing.
   */
  withTrace(traceparent: string | null | undefined): Client {
    const parent = parsed(traceparent);
    if (parent === undefined) return this;
    const other = Object.create(Client.prototype) as Client;
    return Object.assign(other, this, { cluster: this.cluster.traced(() => parent) });
  }

  /**
   * A store of handles. Stores of the same name on the same cluster are one.
   *
   * `store`: 1 to 64 bytes of `[a-z0-9_-]`; it is made by its first mint. Names are checked by the
   * first call.
   */
  handles<T>(store: string, options: HandleOptions<T>): HandleStore<T> {
    const { owner, codec = json<T>(), idPrefix = "", ...defaults } = options;
    const settings: HandleSettings<T> = { store, owner, codec, idPrefix, defaults };
    return new HandleStore(this.cluster, this.deadline, settings);
  }

  /** Values under keys of the caller's choosing. */
  keys<T>(options: KeyOptions<T>): Keys<T> {
    const { owner, codec = json<T>(), ...defaults } = options;
    return new Keys(this.cluster, this.deadline, { owner, codec, defaults });
  }

  /** Claims on side effects that must happen once. A store of claims holds nothing else. */
  claims<T>(store: string, options: ClaimsOptions<T>): Claims<T> {
    const { owner, codec = json<T>(), lease = LEASE, defaultTtl } = options;
    return new Claims(this.cluster, this.deadline, { store, owner, codec, lease, defaultTtl });
  }

  /** A transaction over handles and keys, still empty. */
  transaction(): Transaction {
    return new Transaction(this.cluster, this.deadline);
  }

  /**
   * The cluster's time in milliseconds since the Unix epoch, as replies have told it. Before the
   * first reply it is this machine's.
   */
  clockMs(): number {
    return this.cluster.clockMs();
  }

  /**
   * Ends the work of this client and its stores.
   *
   * Calls from now on fail as ClosedError, and so do those under way, but for writes that were sent
   * and not answered: they fail as AmbiguousError. Closing again does nothing.
   */
  close(): void {
    this.cluster.close();
  }
}

function checkedTime(name: string, ms: number): number {
  if (typeof ms === "number" && ms >= 0) return ms;
  throw refused("BAD_REQUEST", `${name}: ${String(ms)} is no time in milliseconds`);
}
