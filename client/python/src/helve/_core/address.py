"""Where a node is reached."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from ..errors import HelveError, Reason, refused

_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}")
_PORT = re.compile(r"[0-9]{1,20}")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]{2,45}")
_SHOWN_CHARS_MAX = 100
_SCHEME_CHARS_MAX = 20


@dataclass(frozen=True)
class Address:
    """`HOST:PORT`, `[IPv6]:PORT`, or either behind `http://` or `https://`. No port is assumed."""

    host_and_port: str
    scheme: str | None

    @classmethod
    def parse(cls, text: str) -> Address:
        """Reads an address. Raises InvalidError that says what to write instead."""
        text = text.strip()
        scheme, separator, rest = text.partition("://")
        if not separator:
            scheme, rest = "", text
        elif scheme not in ("http", "https"):
            # What is before an `@` may be a password.
            shown = scheme.rpartition("@")[2][:_SCHEME_CHARS_MAX]
            raise _no_endpoint(text, f"a node is reached over http or https, not {shown!r}")
        rest = rest[:-1] if rest.endswith("/") else rest
        remedy = _remedy(rest)
        if remedy:
            raise _no_endpoint(text, remedy)
        return cls(rest, scheme or None)

    @property
    def is_of_this_machine(self) -> bool:
        """Whether it is loopback, so that what goes there crosses no network."""
        host = self.host_and_port.rpartition(":")[0].strip("[]")
        return is_loopback(host)


def _remedy(text: str) -> str | None:
    """What to write instead, if this is not `HOST:PORT`."""
    if any(mark in text for mark in "/?#"):
        return "a node has no path: give HOST:PORT alone"
    if "@" in text:
        return "a node takes no user name: give HOST:PORT, and a token by itself"
    if _is_ipv6(text):
        return f"give an IPv6 address in brackets, and a port, as in [{text}]:7400"
    host, separator, port = text.rpartition(":")
    if not separator or "]" in port:
        return f"give a port, as in {_example(text)}:7400"
    if host.startswith("["):
        if not _is_bracketed(host):
            return "an IPv6 address belongs between the brackets, as in [::1]:7400"
    elif ":" in host:
        return "give an IPv6 address in brackets, as in [::1]:7400"
    elif not host:
        return "give a host before the port, as in 127.0.0.1:7400"
    elif not _HOST.fullmatch(host):
        return "a host is a name or an IP address, as in helve-1:7400"
    if not port:
        return f"give a port, as in {host}:7400"
    if not (_PORT.fullmatch(port) and 1 <= int(port) <= 65535):
        return "a port is a number from 1 to 65535"
    return None


def _example(text: str) -> str:
    """The host of an example: the one that was given, if it is one."""
    host = text.rstrip(":")
    if not host:
        return "127.0.0.1"
    return host if _HOST.fullmatch(host) or _is_bracketed(host) else "helve-1"


def _is_bracketed(host: str) -> bool:
    return host.startswith("[") and host.endswith("]") and _is_ipv6(host[1:-1])


def _is_ipv6(text: str) -> bool:
    # The library takes a zone behind a `%`, of any length: it is of one machine, and no URL has it.
    if not _IPV6.fullmatch(text):
        return False
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a host, without brackets, is this machine: `localhost`, or a loopback address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def _no_endpoint(text: str, remedy: str) -> HelveError:
    # It may be anything, a secret in the wrong place included: before an `@` may be a password.
    _, at, told = text.rpartition("@")
    shown = told[:_SHOWN_CHARS_MAX] + ("..." if len(told) > _SHOWN_CHARS_MAX else "")
    shown = f"...@{shown}" if at else shown
    return refused(Reason.BAD_REQUEST, f"{shown!r} is no endpoint: {remedy}")
