/**
 * Pauses that double up to a bound, each drawn from its upper half.
 *
 * The draw spreads out callers that collided once.
 */
export class Backoff {
  private following: number;
  private readonly maximum: number;

  /** Times in milliseconds; `random` draws a number from 0 up to 1. */
  constructor(first: number, maximum: number, private readonly random: () => number) {
    this.following = Math.max(first, 1);
    this.maximum = Math.max(maximum, this.following);
  }

  /** The next pause, in milliseconds. */
  next(): number {
    const half = this.following / 2;
    this.following = Math.min(this.following * 2, this.maximum);
    return half + half * this.random();
  }
}
