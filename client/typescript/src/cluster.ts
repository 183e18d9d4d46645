/** The calls of a client to its cluster: identities, tries and their exchanges over HTTP. */

import { toBase64 } from "./bytes.js";
import {
  closed, ClosedError, DeniedError, HelveError, OverloadedError, refused, UnavailableError,
} from "./errors.js";
import { Clock } from "./identity.js";
import { CALLS_MAX, DEADLINE_MAX, REPLY_BYTES_MAX, REQUEST_BYTES_MAX } from "./limits.js";
import { type Node, Pool } from "./pool.js";
import { type Runtime, sentOnce } from "./runtime.js";
import { parsed, type TraceParent } from "./trace.js";
import { type Pace, Tries } from "./tries.js";
import { ofAnswer, ofThrown, silence, tooLarge, type Verdict } from "./verdict.js";
import * as wire from "./wire.js";

/** A bearer token, or a function that gives the one of now. */
export type Token = string | (() => string | Promise<string>);

/** What all calls of a client have in common. */
export interface Dial {
  readonly endpoints: readonly string[];
  readonly isTls: boolean;
  readonly token: Token | undefined;
  /** Whether the token may go beyond loopback in plain text. */
  readonly insecureToken: boolean;
  readonly trace?: TraceParent | undefined;
  readonly pace: Pace;
  readonly runtime: Runtime;
}

/** A call as a store makes it. `until` ends it, on the monotonic clock. */
export interface Call<R extends wire.Reply> {
  readonly method: wire.Method<R>;
  readonly request: object;
  readonly until: number;
}

/** A call as it is sent. Every try sends it alike. */
interface Sent {
  readonly path: string;
  readonly body: string;
  readonly headers: { readonly [name: string]: string };
  readonly hasValues: boolean;
}

/** A try that failed. It never leaves the client. */
class Failed {
  constructor(readonly verdict: Verdict) {}
}

export class Cluster {
  private readonly pool: Pool;
  private readonly clock: Clock;
  private readonly waiting = new Set<() => void>();
  /** What a cluster shares with the ones made of it. */
  private readonly shared = {
    /** Calls that wait for a place among those under way, the longest first. */
    line: [] as (() => void)[],
    callsUnderWay: 0,
    isClosed: false,
  };
  private trace: TraceParent | undefined;

  /** Throws InvalidError if an endpoint is none, or must not be told the token. */
  constructor(private readonly dial: Dial) {
    const { endpoints, isTls, runtime } = dial;
    const guardsToken = dial.token !== undefined && !dial.insecureToken;
    this.pool = new Pool(endpoints, isTls, () => runtime.monotonicMs(), guardsToken);
    this.clock = new Clock(() => runtime.wallMs());
    this.trace = dial.trace;
  }

  /** The same cluster, but its calls are made in these spans. */
  traced(trace: TraceParent): Cluster {
    const other = Object.create(Cluster.prototype) as Cluster;
    return Object.assign(other, this, { trace });
  }

  get runtime(): Runtime {
    return this.dial.runtime;
  }

  /** When a call that begins now ends at the latest, on the monotonic clock. */
  until(deadline: number): number {
    return this.runtime.monotonicMs() + Math.min(deadline, DEADLINE_MAX);
  }

  /** The cluster's time, as replies have told it. */
  clockMs(): number {
    return this.clock.nowMs();
  }

  /**
   * Makes one call, once fewer than `CALLS_MAX` others are under way. A mutation is given an
   * identity, which every try repeats.
   */
  async call<R extends wire.Reply>(call: Call<R>): Promise<R> {
    await this.place(call.until);
    try {
      return await this.made(call);
    } finally {
      const next = this.shared.line.shift();
      if (next === undefined) this.shared.callsUnderWay -= 1;
      else next();
    }
  }

  /** Waits, at most until the client is closed: then the next call says so. */
  async sleep(ms: number): Promise<void> {
    const end = (): void => undefined;
    await this.within(ms, new Promise<void>(end), end).catch(end);
  }

  /** Ends the calls under way. */
  close(): void {
    this.shared.isClosed = true;
    for (const end of [...this.waiting]) end();
  }

  /** Waits for a place among the calls under way, in line. Throws ClosedError. */
  private async place(until: number): Promise<void> {
    if (this.shared.isClosed) throw closed();
    if (this.shared.callsUnderWay < CALLS_MAX) {
      this.shared.callsUnderWay += 1;
      return;
    }
    let enter: () => void = () => undefined;
    const turn = new Promise<void>((resolve) => this.shared.line.push((enter = resolve)));
    const what = `${CALLS_MAX} calls of this client were under way`;
    const late = () => new OverloadedError(`${what} until the deadline ended`);
    try {
      await this.within(until - this.runtime.monotonicMs(), turn, late);
    } catch (error) {
      this.shared.line = this.shared.line.filter((each) => each !== enter);
      throw error;
    }
  }

  private async made<R extends wire.Reply>(call: Call<R>): Promise<R> {
    if (!call.method.mutates) return this.answer(call);
    try {
      return await this.answer(this.identified(call));
    } catch (error) {
      const reason = error instanceof HelveError ? error.reason : undefined;
      if (reason !== "TOO_EARLY" && reason !== "REQUEST_TOO_OLD") throw error;
    }
    // This machine's clock is wrong, and no try had an effect: any reply tells the cluster's time.
    await this.answer({ method: wire.EXISTS, request: { key: "clock" }, until: call.until });
    return this.answer(this.identified(call));
  }

  private identified<R extends wire.Reply>({ request, ...call }: Call<R>): Call<R> {
    const identity = { requestId: toBase64(this.clock.requestId()) };
    return { ...call, request: { identity, ...request } };
  }

  private async answer<R extends wire.Reply>(call: Call<R>): Promise<R> {
    const { pace, runtime } = this.dial;
    const tries = new Tries(this.pool, call.until, pace, call.method.mutates, runtime);
    if (this.shared.isClosed) throw closed();
    const sent = await this.sent(call);
    for (;;) {
      if (this.shared.isClosed) throw tries.closed(false);
      const node = tries.node;
      try {
        const reply = await this.attempt(node, sent, tries.timeout());
        this.clock.learn(wire.integer(reply.header.clockMs));
        this.pool.answered(node, reply.header.leaderHint);
        return reply as R;
      } catch (error) {
        if (error instanceof ClosedError) throw tries.closed(true);
        if (!(error instanceof Failed)) throw error;
        await this.sleep(tries.failed(error.verdict));
      }
    }
  }

  /** The span around a call; none if the tracer fails: no call fails for it. */
  private span(): string | undefined {
    try {
      return parsed(this.trace?.());
    } catch {
      return undefined;
    }
  }

  private async sent({ method, request, until }: Call<wire.Reply>): Promise<Sent> {
    const body = JSON.stringify(request);
    if (body.length > REQUEST_BYTES_MAX) {
      const size = `the request has ${body.length} characters of at most ${REQUEST_BYTES_MAX}`;
      throw refused("TOO_LARGE", `${size}: write less at once`);
    }
    const traceparent = this.span();
    const token = await this.bearer(until);
    const headers = {
      "content-type": "application/json",
      "connect-protocol-version": "1",
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(traceparent === undefined ? {} : { traceparent }),
    };
    const hasValues = method.mutates && wire.takes(method, request);
    return { path: `/helve.v1.${method.path}`, body, headers, hasValues };
  }

  /** The token of now. It is never shown. */
  private async bearer(until: number): Promise<string | undefined> {
    const { token } = this.dial;
    if (typeof token !== "function") return token;
    const given = Promise.resolve().then(token).catch((cause: unknown) => {
      throw new DeniedError(`no token was given: ${String(cause)}`, { cause });
    });
    const late = () => new UnavailableError("no token was given within the deadline");
    return checkedToken(await this.within(until - this.runtime.monotonicMs(), given, late));
  }

  /** One try. Throws Failed, or ClosedError. */
  private async attempt(node: Node, sent: Sent, timeout: number): Promise<wire.Reply> {
    const abort = new AbortController();
    const init: RequestInit = {
      method: "POST",
      headers: { ...sent.headers, "connect-timeout-ms": String(Math.ceil(timeout)) },
      ...sentOnce(sent.body),
      // A redirect would show the token to another server.
      redirect: "manual",
      signal: abort.signal,
    };
    const late = () => new Failed(silence(node.address));
    try {
      return await this.within(timeout, this.exchange(node, sent, init), late);
    } catch (error) {
      abort.abort();
      if (error instanceof Failed || error instanceof ClosedError) throw error;
      throw new Failed(ofThrown(node.address, error));
    }
  }

  private async exchange(node: Node, sent: Sent, init: RequestInit): Promise<wire.Reply> {
    const { address, url } = node;
    const response = await this.runtime.fetch(url + sent.path, init);
    // What is behind a redirect is not told on every platform.
    const status = response.type === "opaqueredirect" ? 302 : response.status;
    const body = await textOf(response);
    if (body === undefined) {
      const message = `${address}: a reply larger than ${REPLY_BYTES_MAX} bytes: ask for less`;
      throw new Failed(tooLarge(address, message, sent.hasValues));
    }
    const reply = status === 200 ? replyOf(body) : undefined;
    if (reply !== undefined) return reply;
    const { headers } = response;
    const nowMs = this.runtime.wallMs();
    throw new Failed(ofAnswer(address, { status, body, headers, nowMs }, sent.hasValues));
  }

  /** What the work gives. Throws what `late` makes once its time ends, ClosedError on `close`. */
  private within<T>(ms: number, work: Promise<T>, late: () => unknown): Promise<T> {
    return new Promise((resolve, reject) => {
      const end = (then: () => void): void => {
        cancel();
        this.waiting.delete(onClose);
        then();
      };
      const onClose = (): void => end(() => reject(closed()));
      const cancel = this.runtime.after(ms, () => end(() => reject(late())));
      this.waiting.add(onClose);
      work.then(
        (value) => end(() => resolve(value)),
        (error: unknown) => end(() => reject(error)),
      );
    });
  }
}

/** A token that is one line of visible characters. Throws InvalidError. */
export function checkedToken(token: unknown): string {
  if (typeof token === "string" && /^[!-~]+$/.test(token)) return token;
  throw refused("BAD_REQUEST", "there is no token: it is one line of visible characters");
}

/** The text of a body; undefined if it is over the bound. */
async function textOf(response: Response): Promise<string | undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let [text, size] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    size += value.length;
    if (size > REPLY_BYTES_MAX) {
      await reader.cancel();
      return undefined;
    }
    text += decoder.decode(value, { stream: true });
  }
}

/** The reply that a body is; undefined if it is none of a node. */
function replyOf(body: string): wire.Reply | undefined {
  const reply = (wire.parsed(body) ?? {}) as Partial<wire.Reply>;
  const { clockMs, leaderHint } = (reply.header ?? {}) as Partial<wire.Header>;
  const isReply = typeof clockMs === "string" && typeof leaderHint === "string";
  return isReply ? (reply as wire.Reply) : undefined;
}
