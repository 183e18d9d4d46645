/** Bytes as text: base64 (RFC 4648, section 4) and hex. */

// Arguments of one call of `String.fromCharCode`.
const CHUNK = 8_192;

/** Bytes as base64, padded. */
export function toBase64(data: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < data.length; at += CHUNK) {
    binary += String.fromCharCode(...data.subarray(at, at + CHUNK));
  }
  return btoa(binary);
}

/** The bytes of base64, padded or not; undefined if it is none. */
export function ofBase64(text: string): Uint8Array | undefined {
  let binary: string;
  try {
    binary = atob(text);
  } catch {
    return undefined;
  }
  const data = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) data[at] = binary.charCodeAt(at);
  return data;
}

/** Bytes as lower-case hex. */
export function toHex(data: Uint8Array): string {
  return Array.from(data, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
