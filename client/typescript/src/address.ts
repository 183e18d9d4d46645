/** Where a node is reached. */

import { refused } from "./errors.js";

const SHOWN_CHARS_MAX = 100;

/** `HOST:PORT`, `[IPv6]:PORT`, or either behind `http://` or `https://`. No port is assumed. */
export interface Address {
  readonly hostAndPort: string;
  readonly scheme: "http" | "https" | undefined;
}

/** Reads an address. Throws InvalidError that says what to write instead. */
export function parseAddress(given: string): Address {
  const text = given.trim();
  const [, scheme, rest = ""] = /^(?:([^/]*):\/\/)?(.*)$/s.exec(text) ?? [];
  if (scheme !== undefined && scheme !== "http" && scheme !== "https") {
    throw noEndpoint(text, `a node is reached over http or https, not ${JSON.stringify(scheme)}`);
  }
  const hostAndPort = rest.endsWith("/") ? rest.slice(0, -1) : rest;
  const remedy = remedyFor(hostAndPort);
  if (remedy !== undefined) throw noEndpoint(text, remedy);
  return { hostAndPort, scheme };
}

/** The address of an endpoint of a client with or without TLS. Throws as `parseAddress`. */
export function endpoint(given: string, isTls: boolean): string {
  const { hostAndPort, scheme } = parseAddress(given);
  if (scheme === "https" && !isTls) {
    throw noEndpoint(given, "it asks for TLS: make the client with `tls: true`");
  }
  if (scheme === "http" && isTls) {
    throw noEndpoint(given, "it asks for plain text, and the client for TLS: give HOST:PORT");
  }
  return hostAndPort;
}

/** What to write instead, if this is not `HOST:PORT`. */
function remedyFor(text: string): string | undefined {
  const colon = text.lastIndexOf(":");
  const [host, port] = [text.slice(0, Math.max(colon, 0)), text.slice(colon + 1)];
  const hasPort = colon >= 0 && !port.includes("]");
  const isPort = /^[0-9]{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65535;
  const portless = text.replace(/:+$/, "") || "127.0.0.1";
  const isBracketed = host.startsWith("[");
  const isNoIpv6 = isBracketed && !(host.endsWith("]") && isIpv6(host.slice(1, -1)));
  const isName = /^[A-Za-z0-9._-]{1,255}$/.test(host);
  const remedies: readonly (readonly [isNeeded: boolean, remedy: string])[] = [
    [/[/?#]/.test(text), "a node has no path: give HOST:PORT alone"],
    [text.includes("@"), "a node takes no user name: give HOST:PORT, and a token by itself"],
    [isIpv6(text), `give an IPv6 address in brackets, and a port, as in [${text}]:7400`],
    [!hasPort, `give a port, as in ${portless}:7400`],
    [isNoIpv6, "an IPv6 address belongs between the brackets, as in [::1]:7400"],
    [!isBracketed && host.includes(":"), "give an IPv6 address in brackets, as in [::1]:7400"],
    [host === "", "give a host before the port, as in 127.0.0.1:7400"],
    [!isBracketed && !isName, "a host is a name or an IP address, as in helve-1:7400"],
    [port === "", `give a port, as in ${host}:7400`],
    [!isPort, "a port is a number from 1 to 65535"],
  ];
  return remedies.find(([isNeeded]) => isNeeded)?.[1];
}

function isIpv6(text: string): boolean {
  if (!/^[0-9a-fA-F:.]{2,45}$/.test(text) || !text.includes(":")) return false;
  try {
    new URL(`http://[${text}]/`);
    return true;
  } catch {
    return false;
  }
}

function noEndpoint(text: string, remedy: string): Error {
  // It may be anything, a secret in the wrong place included.
  const shown = text.slice(0, SHOWN_CHARS_MAX) + (text.length > SHOWN_CHARS_MAX ? "..." : "");
  return refused("BAD_REQUEST", `${JSON.stringify(shown)} is no endpoint: ${remedy}`);
}
