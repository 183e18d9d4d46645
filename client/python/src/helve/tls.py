"""How a client knows its cluster, and how the cluster may know the client."""

from __future__ import annotations

import os

from ._core.files import exposed, read
from .errors import Reason, refused

#: Bytes of a file: a bundle of CAs has some hundred KiB.
_BYTES_MAX = 1 << 20


class Tls:
    """TLS to a cluster: whose certificates the client trusts and, if it has one, its own.

    Nothing that the operating system trusts is trusted here: a cluster has a CA of its own. Each
    of `ca`, `certificate` and `key` is PEM, as bytes, or the path of a file. `server_name` is
    expected in the nodes' certificates, whatever address they are reached at. The key's file must
    not be open to other users of the machine.
    """

    def __init__(
        self,
        ca: bytes | str | os.PathLike[str],
        *,
        certificate: bytes | str | os.PathLike[str] | None = None,
        key: bytes | str | os.PathLike[str] | None = None,
        server_name: str | None = None,
    ) -> None:
        if (certificate is None) != (key is None):
            raise refused(Reason.BAD_REQUEST, "certificate and key belong together: give both")
        self.ca = _pem(ca, "CERTIFICATE", "the CA")
        self.certificate = (
            None if certificate is None else _pem(certificate, "CERTIFICATE", "the certificate")
        )
        self.key = None if key is None else _pem(key, "PRIVATE KEY", "the key", is_secret=True)
        self.server_name = server_name

    def __repr__(self) -> str:
        return "Tls(...)"


def _pem(
    given: bytes | str | os.PathLike[str], label: str, what: str, *, is_secret: bool = False
) -> bytes:
    if isinstance(given, bytes):
        data = given
    else:
        try:
            data, found = read(given, _BYTES_MAX)
        except OSError as error:
            message = f"{what} {given} cannot be read ({error.strerror})"
            raise refused(Reason.BAD_REQUEST, message) from error
        if is_secret and (why := exposed(given, found.st_mode)) is not None:
            raise refused(Reason.BAD_REQUEST, f"{what} {given}: {why}")
        if len(data) > _BYTES_MAX:
            message = f"{what} {given}: it has over 1 MiB, and holds something else"
            raise refused(Reason.BAD_REQUEST, message)
    if b"-----BEGIN " not in data or label.encode() not in data:
        raise refused(Reason.BAD_REQUEST, f"{what} is no {label.lower()} in PEM: give the file")
    if (why := _without_line_ends(data)) is not None:
        raise refused(Reason.BAD_REQUEST, f"{what}: {why}")
    return data


def _without_line_ends(data: bytes) -> str | None:
    """What is wrong with PEM that lost its line ends, as in JSON; `None` if it has them."""
    for line in data.splitlines():
        if b"-----BEGIN " not in line:
            continue
        if b"\\n" in line:
            return r"its line ends are written as `\n`, as in JSON: write it with line ends"
        if b"-----END " in line:
            return "its line ends are missing: write it with line ends"
    return None
