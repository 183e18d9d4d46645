"""The token that says who calls, on every call."""

from __future__ import annotations

import logging
import os
import threading
import time
from pathlib import Path

from ..errors import HelveError, Reason, refused
from . import limits
from .files import exposed

_log = logging.getLogger("helve")


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
            if path.stat().st_mtime == self._changed:
                return
            self._header, self._changed = _read(path)
        except (OSError, HelveError) as error:
            _log.warning("the token of before is used on: %s", error)


def _read(path: Path) -> tuple[str, float]:
    def wrong(what: str) -> HelveError:
        return refused(Reason.BAD_REQUEST, f"the token file {path}: {what}")

    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(limits.TOKEN_BYTES_MAX + 1)
    except OSError as error:
        raise wrong(f"it cannot be read ({error.strerror})") from error
    if (why := exposed(path, found.st_mode)) is not None:
        raise wrong(why)
    # The beginning of a longer file would be another token.
    if len(data) > limits.TOKEN_BYTES_MAX:
        raise wrong("it is over 4096 bytes, and holds something else")
    return _header(data.decode("utf-8", "replace").strip()), found.st_mtime


def _header(token: str) -> str:
    if not token or not all("!" <= character <= "~" for character in token):
        raise refused(Reason.BAD_REQUEST, "there is no token: it is one line of visible characters")
    return f"Bearer {token}"
