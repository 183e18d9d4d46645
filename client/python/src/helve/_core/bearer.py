"""The token that says who calls, on every call."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from pathlib import Path

from ..errors import HelveError, Reason, refused
from . import limits
from .files import exposed, read

_log = logging.getLogger("helve")
_QUOTES = (b'"', b"'", b"`")


class Bearer:
    """Puts a token into each call's `authorization` (RFC 6750). It is never shown."""

    def __init__(self, token: str | None = None, token_file: str | os.PathLike[str] | None = None):
        """Takes a token, or the path of a file with one.

        A file is read again when it has changed, within a second. A file that cannot be read
        then leaves the token of before. Raises InvalidError if the first reading fails.
        """
        if token is not None and token_file is not None:
            raise refused(Reason.BAD_REQUEST, "token and token_file together: give one of them")
        self._path = None if token_file is None else Path(token_file)
        self._lock = threading.Lock()
        self._header = None if token is None else _header(token)
        self._changed: float | None = None
        self._looked_at = time.monotonic()
        if self._path is not None:
            self._header, self._changed = _read(self._path)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call bears."""
        if self._path is not None:
            with self._lock:
                self._refresh(self._path)
        return () if self._header is None else (("authorization", self._header),)

    @property
    def is_given(self) -> bool:
        """Whether there is a token."""
        return self._path is not None or self._header is not None

    def __repr__(self) -> str:
        kind = "file" if self._path else "none" if self._header is None else "given"
        return f"Bearer({kind})"

    def _refresh(self, path: Path) -> None:
        now = time.monotonic()
        if now - self._looked_at < limits.TOKEN_FRESH:
            return
        self._looked_at = now
        try:
            found = path.stat()
            # A pipe gives its token once, and would be waited for.
            if stat.S_ISFIFO(found.st_mode) or found.st_mtime == self._changed:
                return
            self._header, self._changed = _read(path)
        except (OSError, HelveError) as error:
            _log.warning("the token of before is used on: %s", error)


def _read(path: Path) -> tuple[str, float]:
    def wrong(what: str) -> HelveError:
        return refused(Reason.BAD_REQUEST, f"the token file {path}: {what}")

    try:
        data, found = read(path, limits.TOKEN_BYTES_MAX)
    except OSError as error:
        raise wrong(f"it cannot be read ({error.strerror})") from error
    if (why := exposed(path, found.st_mode)) is not None:
        raise wrong(why)
    # The beginning of a longer file would be another token.
    if len(data) > limits.TOKEN_BYTES_MAX:
        raise wrong("it is over 4096 bytes, and holds something else")
    if (flaw := _flaw(data)) is not None:
        raise wrong(flaw)
    return _header(data.decode("utf-8").strip()), found.st_mtime


def _flaw(data: bytes) -> str | None:
    """Why a file's content is no token, though it may hold one; None if it may be one."""
    text = data.strip()
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return "it starts with a byte-order mark: save it as ASCII, without a mark"
    if b"-----BEGIN " in text:
        return "it is a PEM file, not a token"
    if text.startswith((b"{", b"[")):
        return "it is JSON: write the token alone into a file"
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return "it is not text, and so no token"
    lines = sum(1 for line in text.replace(b"\r", b"\n").split(b"\n") if line)
    if lines > 1:
        return f"it has {'two' if lines == 2 else lines} lines: a token is one line"
    if text[:1] in _QUOTES or text[-1:] in _QUOTES:
        return "the token is in quotes: remove them"
    if text.lower().startswith(b"bearer "):
        return "it begins with `Bearer`: leave the token alone"
    if b"=hlv_" in text:
        return "it is a line NAME=VALUE: leave the value alone"
    return None


def _header(token: str) -> str:
    if not token or not all("!" <= character <= "~" for character in token):
        raise refused(Reason.BAD_REQUEST, "there is no token: it is one line of visible characters")
    return f"Bearer {token}"
