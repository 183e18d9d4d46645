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
