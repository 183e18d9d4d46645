"""For servers of FastMCP 4: sessions that lose no change, callers, and errors of tools.

Needs `pip install 'helve[fastmcp]'`. For events use `helve.mcp.EventStore`, for everything else
that FastMCP keeps (OAuth clients, tokens, cached responses) `helve.key_value.HelveStore`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, SupportsFloat
from urllib.parse import urlsplit

from fastmcp.exceptions import ToolError as FastMcpToolError
from fastmcp.server.auth.providers.jwt import JWTVerifier
from fastmcp.server.dependencies import get_access_token
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.server.sessions import InvalidSession
from fastmcp.tools import ToolResult

from ._core.address import is_loopback
from .errors import AmbiguousError, ConflictError, DeniedError, HelveError
from .key_value import HelveStore
from .owner import Shared
from .tools import ToolError

#: What this task has read last of each session: the base of its changes.
_Base = dict[tuple[int, str, str], "dict[str, Any] | None"]
_bases: ContextVar[_Base | None] = ContextVar("helve_session_bases", default=None)
#: Sessions whose base a task remembers.
_BASES_MAX = 64


class SessionStore(HelveStore):
    """What `FastMCP(session_state_store=...)` takes: sessions that lose no change.

    FastMCP's sessions read all of their state, change it, and write it back; on another store the
    last of several writers wins. This store writes the difference between what the task read and
    what it writes, over what is there by then: keys that others set meanwhile stay, and one that
    two set at once has the value of the one that the cluster wrote later. So a change of a session
    is lost neither to another task nor to another replica. A session that was ended meanwhile stays
    ended: the change raises `InvalidSession`.
    """

    async def get(self, key: str, *, collection: str | None = None) -> dict[str, Any] | None:
        """The value under a key, or None. That of a session is remembered for the next `put`."""
        value: dict[str, Any] | None = await super().get(key, collection=collection)
        if _is_session(key):
            self._remember(collection, key, value)
        return value

    async def put(
        self,
        key: str,
        value: Mapping[str, Any],
        *,
        collection: str | None = None,
        ttl: SupportsFloat | None = None,
    ) -> None:
        """Stores a value; of a session, its difference from what this task has read of it."""
        place = self._place(collection, key)
        bases = _bases.get()
        if not _is_session(key) or bases is None or place not in bases:
            await super().put(key, value, collection=collection, ttl=ttl)
            return
        base = bases[place]

        def change(found: dict[str, Any] | None) -> dict[str, Any]:
            if found is None and base is not None:
                raise InvalidSession
            return _merged(base or {}, dict(value), found or {})

        written = await self.update(key, change, collection=collection)
        self._remember(collection, key, written)

    def _place(self, collection: str | None, key: str) -> tuple[int, str, str]:
        return id(self), collection or self.default_collection, key

    def _remember(self, collection: str | None, key: str, value: dict[str, Any] | None) -> None:
        # A new dictionary each time: tasks that were begun from this one have its older one.
        bases = dict(_bases.get() or {})
        bases.pop(self._place(collection, key), None)
        while len(bases) >= _BASES_MAX:
            del bases[next(iter(bases))]
        bases[self._place(collection, key)] = value
        _bases.set(bases)


class ToolErrors(Middleware):
    """The `middleware` that tells models what to do about errors, and programs why.

    A tool raises `helve.ToolError(reason, message)`, or lets the client's errors through. The
    answer is an error with that message, and the reason in `_meta` under `helve.v1/reason`.
    """

    def __init__(self, *, repeatable: bool = False) -> None:
        """`repeatable`: each tool may be called again as it was, in whatever doubt."""
        self._repeatable = repeatable

    async def on_call_tool(
        self, context: MiddlewareContext[Any], call_next: CallNext[Any, ToolResult]
    ) -> ToolResult:
        """Calls a tool."""
        try:
            return await call_next(context)
        except FastMcpToolError as raised:
            told = raised.__cause__
            if isinstance(told, HelveError):
                told = self._of(told)
            if not isinstance(told, ToolError):
                raise
        meta = {"helve.v1/reason": told.reason}
        return ToolResult(content=told.message, meta=meta, is_error=True)

    def _of(self, error: HelveError) -> ToolError:
        if not isinstance(error, (AmbiguousError, ConflictError)):
            return ToolError.of(error)
        if self._repeatable:
            return ToolError("UNAVAILABLE", "make the same call again")
        if isinstance(error, ConflictError):
            return ToolError("CONFLICT", f"nothing was done. {error.advice}")
        return ToolError("AMBIGUOUS", f"it may have been done. {error.advice}")


def caller(*, without_token: str | Shared | None = None) -> Callable[[], str | Shared]:
    """The `owner=` of stores that are each caller's own: the subject of the request's token.

    `without_token` is the owner for a server without `auth`; else a request without a subject
    raises DeniedError. Such stores are used within requests alone.
    """

    def subject() -> str | Shared:
        token = get_access_token()
        if token is None and without_token is not None:
            return without_token
        found = token.claims.get("sub") if token else None
        if not isinstance(found, str) or not found:
            raise DeniedError("the request bears no token that names a subject")
        return found

    return subject


def verifier_from_environment(prefix: str) -> JWTVerifier | None:
    """The `auth=` of a server whose callers bear JWTs, as the environment says; None: it is open.

    With the prefix `SHOP`: `SHOP_SECRET` for HS256, or `SHOP_JWKS_URI` for the keys of an issuer;
    with either, `SHOP_ISSUER` and `SHOP_AUDIENCE` too, since a token for another server must not
    do. Raises ValueError if some of them are missing, or if the keys would come over plain HTTP
    from another machine: a machine between could put keys of its own in their place.
    """
    names = [f"{prefix}_{name}" for name in ("SECRET", "JWKS_URI", "ISSUER", "AUDIENCE")]
    secret, jwks_uri, issuer, audience = (os.environ.get(name) or None for name in names)
    if not (secret or jwks_uri or issuer or audience):
        return None
    if bool(secret) == bool(jwks_uri) or not issuer or not audience:
        raise ValueError(f"{names[0]} or {names[1]}, and {names[2]} and {names[3]}: set all three")
    if jwks_uri:
        _check_keys_url(names[1], jwks_uri)
    algorithm = "HS256" if secret else None
    return JWTVerifier(
        public_key=secret, jwks_uri=jwks_uri, algorithm=algorithm, issuer=issuer, audience=audience
    )


def _check_keys_url(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        raise ValueError(f"{name} is no URL: {error}") from error
    if not host or parts.scheme not in ("http", "https"):
        raise ValueError(f"{name} is no https URL: name the one of the issuer's JWK set")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(
            f"{name} is an http URL of another machine, and the keys could be replaced on the way: "
            "name an https URL"
        )


def _is_session(key: str) -> bool:
    return key.startswith("session:")


def _merged(
    base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any], depth: int = 2
) -> dict[str, Any]:
    """What mine changed of base, over theirs: by member, two levels of objects deep.

    That is how deep FastMCP's own objects go around the values of a session's keys.
    """
    merged = dict(theirs)
    for name in base.keys() - mine.keys():
        merged.pop(name, None)
    for name, value in mine.items():
        if name in base and base[name] == value:
            continue
        was, now = base.get(name) or {}, merged.get(name) or {}
        if depth and all(isinstance(each, dict) for each in (was, value, now)):
            merged[name] = _merged(was, value, now, depth - 1)
        else:
            merged[name] = value
    return merged
