/** `traceparent` of W3C Trace Context: in which span of the caller's a call is made. */

/**
 * The `traceparent` of now: the header of the request that is answered, or what an exporter says of
 * its current span.
 */
export type TraceParent = () => string | null | undefined;

/** Characters of a value of version 00, with which those of later versions begin. */
const CHARACTERS = 55;
const FORM = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
/** What names nothing. */
const ZEROS = /^0+$/;

/** The value, rewritten as version 00; undefined if it is malformed. */
export function parsed(text: unknown): string | undefined {
  if (typeof text !== "string") return undefined;
  const [, version, traceId, spanId, flags] = FORM.exec(text.slice(0, CHARACTERS)) ?? [];
  if (version === undefined || traceId === undefined || spanId === undefined) return undefined;
  const next = text.charAt(CHARACTERS);
  // A later version may have more fields, and FF is none.
  const isOfForm = next === "" || (version !== "00" && next === "-");
  if (!isOfForm || version === "ff" || ZEROS.test(traceId) || ZEROS.test(spanId)) return undefined;
  const isSampled = parseInt(flags ?? "", 16) % 2 === 1;
  return `00-${traceId}-${spanId}-${isSampled ? "01" : "00"}`;
}
