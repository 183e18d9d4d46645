/** The identities of mutations: every retry of a call repeats one. */

import { EntropyError } from "./errors.js";

/** Random bytes. Throws EntropyError if the platform has none. */
export function entropy(count: number): Uint8Array {
  try {
    return crypto.getRandomValues(new Uint8Array(count));
  } catch (cause) {
    throw new EntropyError(`the platform gave no randomness: ${String(cause)}`, { cause });
  }
}

/** A UUIDv7 (RFC 9562, section 5.7) of a time in milliseconds, with ten random bytes. */
export function uuid7(timeMs: number, random: Uint8Array): Uint8Array {
  const data = new Uint8Array(16);
  let rest = timeMs;
  for (let at = 5; at >= 0; at -= 1) {
    data[at] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  data.set(random, 6);
  data[6] = 0x70 | ((data[6] ?? 0) & 0x0f);
  data[8] = 0x80 | ((data[8] ?? 0) & 0x3f);
  return data;
}

/** The cluster's time, as replies tell it: request ids bear it. */
export class Clock {
  private aheadMs = 0;

  /** `wallMs` is this machine's time, in milliseconds since the Unix epoch. */
  constructor(private readonly wallMs: () => number) {}

  /** Takes over the time that a reply names. */
  learn(clockMs: number): void {
    this.aheadMs = clockMs - this.wallMs();
  }

  /** The cluster's time; before the first reply this machine's. */
  nowMs(): number {
    return Math.max(0, Math.floor(this.wallMs() + this.aheadMs));
  }

  /** A request id of now. Throws EntropyError. */
  requestId(): Uint8Array {
    return uuid7(this.nowMs(), entropy(10));
  }
}
