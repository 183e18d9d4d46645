/** What a client takes from the platform. Tests give their own. */

export interface Runtime {
  /** Makes a request. It must not retry, and need not follow redirects. */
  fetch(url: string, init: RequestInit): Promise<Response>;
  /** A clock that never goes back, in milliseconds. */
  monotonicMs(): number;
  /** The time of day, in milliseconds since the Unix epoch. */
  wallMs(): number;
  /** Calls back after a time in milliseconds; the function that it returns cancels that. */
  after(ms: number, callback: () => void): () => void;
  /** A number from 0 up to 1: it spreads out pauses. */
  random(): number;
}

/** The platform's own. */
export const platform: Runtime = {
  fetch: (url, init) => fetch(url, init),
  monotonicMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/**
 * A body that this platform sends once.
 *
 * Deno repeats a request by itself if a connection that it kept open breaks before the answer, and
 * then tells how the second one ended alone: a write that the first one made would count as never
 * sent. No platform can repeat a stream. Others are given the text, since a stream has no length.
 */
export function sentOnce(text: string, agent = userAgent()): RequestInit {
  if (!agent.startsWith("Deno/")) return { body: text };
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode(text));
      controller.close();
    },
  });
  const init = { body, duplex: "half" as const };
  return init;
}

/** The first version of Bun that repeats no POST. */
const BUN_ONCE = [1, 3, 14] as const;

/**
 * Whether this platform sends a write a second time by itself, and then tells how that one ended
 * alone. Bun before 1.3.14 does, be the body a text or a stream: there no error of `fetch` says
 * that nothing was sent.
 */
export function repeatsWrites(agent = userAgent()): boolean {
  const version = /^Bun\/(\d+)\.(\d+)\.(\d+)/.exec(agent)?.slice(1).map(Number);
  const at = BUN_ONCE.findIndex((part, place) => part !== version?.[place]);
  return version !== undefined && at >= 0 && (version[at] ?? 0) < (BUN_ONCE[at] ?? 0);
}

/** What the platform calls itself. Node 20 has no `navigator`. */
function userAgent(): string {
  const { navigator } = globalThis as { navigator?: { userAgent?: string } };
  return navigator?.userAgent ?? "";
}
