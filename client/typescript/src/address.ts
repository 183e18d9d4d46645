/** Where a node is reached. */

import { refused } from "./errors.js";

const SHOWN_CHARS_MAX = 100;
const SCHEME_CHARS_MAX = 20;
/** A name of a host, or an IPv4 address. */
const NAME = /^[A-Za-z0-9._-]{1,255}$/;

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
    // What is before an `@` may be a password.
    const told = scheme.slice(scheme.lastIndexOf("@") + 1);
    const shown = JSON.stringify(told.slice(0, SCHEME_CHARS_MAX));
    throw noEndpoint(text, `a node is reached over http or https, not ${shown}`);
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

/**
 * Whether an address is loopback, so that what is sent there crosses no network: `localhost`, or an
 * address of `127.0.0.0/8` or `::1`, also as IPv6 writes it. Forms such as `127.1` are not recognized.
 */
export function isLoopback(hostAndPort: string): boolean {
  const host = hostAndPort.slice(0, hostAndPort.lastIndexOf(":")).toLowerCase();
  if (!host.startsWith("[")) return host === "localhost" || isIpv4Loopback(host);
  // It is written in one way by now, `::ffff:127.0.0.1` as two groups of hexadecimal digits.
  const { hostname } = new URL(`http://${host}/`);
  return hostname === "[::1]" || /^\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]$/.test(hostname);
}

function isIpv4Loopback(host: string): boolean {
  const parts = host.split(".");
  const isPart = (part: string): boolean => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255;
  return parts.length === 4 && parts[0] === "127" && parts.every(isPart);
}

/** What to write instead, if this is not `HOST:PORT`. */
function remedyFor(text: string): string | undefined {
  const colon = text.lastIndexOf(":");
  const [host, port] = [text.slice(0, Math.max(colon, 0)), text.slice(colon + 1)];
  const hasPort = colon >= 0 && !port.includes("]");
  const isPort = /^[0-9]{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65535;
  const isBracketed = host.startsWith("[");
  const isNoIpv6 = isBracketed && !isInBrackets(host);
  const isName = NAME.test(host);
  const remedies: readonly (readonly [isNeeded: boolean, remedy: string])[] = [
    [/[/?#]/.test(text), "a node has no path: give HOST:PORT alone"],
    [text.includes("@"), "a node takes no user name: give HOST:PORT, and a token by itself"],
    [isIpv6(text), `give an IPv6 address in brackets, and a port, as in [${text}]:7400`],
    [!hasPort, `give a port, as in ${example(text)}:7400`],
    [isNoIpv6, "an IPv6 address belongs between the brackets, as in [::1]:7400"],
    [!isBracketed && host.includes(":"), "give an IPv6 address in brackets, as in [::1]:7400"],
    [host === "", "give a host before the port, as in 127.0.0.1:7400"],
    [!isBracketed && !isName, "a host is a name or an IP address, as in helve-1:7400"],
    [port === "", `give a port, as in ${host}:7400`],
    [!isPort, "a port is a number from 1 to 65535"],
  ];
  return remedies.find(([isNeeded]) => isNeeded)?.[1];
}

/** The host of an example: the one that was given, if it is one. */
function example(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === ":") end -= 1;
  const host = text.slice(0, end);
  if (host === "") return "127.0.0.1";
  return NAME.test(host) || isInBrackets(host) ? host : "helve-1";
}

function isInBrackets(host: string): boolean {
  return host.startsWith("[") && host.endsWith("]") && isIpv6(host.slice(1, -1));
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
  // It may be anything, a secret in the wrong place included: before an `@` may be a password.
  const at = text.lastIndexOf("@");
  const told = text.slice(at + 1);
  const head = told.slice(0, SHOWN_CHARS_MAX) + (told.length > SHOWN_CHARS_MAX ? "..." : "");
  const shown = at < 0 ? head : `...@${head}`;
  return refused("BAD_REQUEST", `${JSON.stringify(shown)} is no endpoint: ${remedy}`);
}
