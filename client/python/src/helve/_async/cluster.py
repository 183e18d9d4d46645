"""The calls of a client to its cluster: identities, tries and lists."""

from __future__ import annotations

import time
from typing import Any, cast

from .._core import limits
from .._core.dial import Dial
from .._core.identity import Clock, Session, entropy
from .._core.pool import Node, Pool
from .._core.tries import Tries
from .._core.verdict import Effect, Failed, no_reply
from .._wire import messages as wire
from .._wire import methods
from .._wire.methods import Method, Rep, Req
from ..errors import (
    ClosedError,
    HelveError,
    OverloadedError,
    Reason,
    UnavailableError,
    closed,
    refused,
)
from .io import Event, Line, Lock, Parts, bound

#: Between two looks for room in a replay session's window.
_ROOM_PAUSE = 0.005


class AsyncCluster:
    """The connections to one cluster, and the replay session of its client."""

    def __init__(self, dial: Dial) -> None:
        self._dial = dial
        self._pool: Pool[Line] = Pool(
            dial.endpoints,
            lambda address: Line(address, dial),
            is_tls=dial.tls is not None,
            learns=dial.follows_leader,
            guards_token=dial.guards_token,
        )
        self._closed = Event()
        self._clock = Clock()
        self._opening = Lock()
        self._session: Session | None = None

    async def call(self, method: Method[Req, Rep], request: Req, deadline: float) -> Rep:
        """Makes one call. A mutation without identity is given one, which every try repeats."""
        _check_size(request.ByteSize())
        until = _until(deadline)
        if not method.mutates:
            return await self._answer(method, request, until, is_lasting=False)
        if request.HasField("identity"):
            return await self._answer(method, request, until, is_lasting=True)
        if self._dial.has_session:
            return await self._in_session(method, request, until)
        return await self._under_request_id(method, request, until)

    async def listed(
        self,
        method: Method[Req, Rep],
        request: Req,
        deadline: float,
        *,
        after: str = "",
        limit: int = 0,
    ) -> tuple[wire.ReplyHeader, list[Any]]:
        """All records of one stream, which is one view, and the header that names it.

        `deadline` bounds the wait for the first part; of a request with a limit, for all of them.
        A node of an older version ignores `after` and the limit: what they leave out is dropped.
        """
        _check_size(request.ByteSize())
        until = _until(deadline)
        while True:
            node, first, parts = await self._begin(method, request, until, limit)
            by = until if limit else time.monotonic() + limits.LIST
            try:
                return await self._collect(first, parts, by, after, limit)
            except Failed as failed:
                parts.cancel()
                verdict = failed.verdict
                if verdict.effect in (Effect.REFUSED, Effect.BARRED):
                    raise verdict.error from None
                if self._closed.is_set():
                    raise closed() from None
                self._pool.suspect(node)
                if time.monotonic() >= until:
                    message = f"a list broke off: {verdict.error.message}"
                    raise UnavailableError(message, address=verdict.error.address) from None
            except BaseException:
                parts.cancel()
                raise

    def clock_ms(self) -> int:
        """The cluster's time, as replies have told it."""
        return self._clock.now_ms()

    async def close(self) -> None:
        """Ends the calls under way."""
        self._closed.set()
        for node in list(self._pool.nodes):
            await node.line.close()

    async def _in_session(self, method: Method[Req, Rep], request: Req, until: float) -> Rep:
        """Numbers a mutation in the replay session.

        One that meets an expired session before any try may have had an effect gets another
        number in a new session; one that was in doubt never does.
        """
        while True:
            session = await self._opened(until)
            number = session.begin()
            while number is None:
                if time.monotonic() >= until:
                    raise OverloadedError("too many calls of this client are under way")
                await self._closed.wait(_ROOM_PAUSE)
                number = session.begin()
            try:
                return await self._answer(
                    method, request, until, is_lasting=True, session=session, number=number
                )
            except HelveError as error:
                if error.reason is not Reason.SESSION_EXPIRED:
                    raise
                if self._session is session:
                    self._session = None
            finally:
                session.release(number)

    async def _under_request_id(self, method: Method[Req, Rep], request: Req, until: float) -> Rep:
        """Gives a mutation a request id of the cluster's time.

        A client whose clock is wrong hears so before any try had an effect: then it asks the
        cluster for its time, once.
        """
        identity = cast(Any, request).identity
        identity.request_id = self._clock.request_id()
        try:
            return await self._answer(method, request, until, is_lasting=True)
        except HelveError as error:
            if error.reason not in (Reason.TOO_EARLY, Reason.REQUEST_TOO_OLD):
                raise
        ask = wire.ExistsRequest(key="clock")
        await self._answer(methods.EXISTS, ask, until, is_lasting=False)
        identity.request_id = self._clock.request_id()
        return await self._answer(method, request, until, is_lasting=True)

    async def _answer(
        self,
        method: Method[Req, Rep],
        request: Req,
        until: float,
        *,
        is_lasting: bool,
        session: Session | None = None,
        number: int = 0,
    ) -> Rep:
        tries = Tries(self._pool, until, self._dial.pace, is_lasting=is_lasting)
        while True:
            self._check_open(tries)
            timeout = tries.timeout()
            if session is not None:
                session.stamp(cast(Any, request).identity, number)
            try:
                reply = await tries.node.line.unary(method, request, timeout)
            except Failed as failed:
                await self._pause(tries, failed)
                continue
            except ClosedError:
                raise tries.closed() from None
            header = cast(Any, reply).header
            self._clock.learn(header.clock_ms)
            self._pool.answered(tries.node, header.leader_hint)
            return reply

    async def _pause(self, tries: Tries[Line], failed: Failed) -> None:
        if self._closed.is_set() and failed.verdict.effect is Effect.UNKNOWN:
            tries.in_doubt = True
        self._check_open(tries)
        await self._closed.wait(tries.failed(failed.verdict))

    def _check_open(self, tries: Tries[Line]) -> None:
        if self._closed.is_set():
            raise tries.closed()

    async def _opened(self, until: float) -> Session:
        """The replay session. The first mutation opens it, and others wait for that one."""
        session = self._session
        if session is not None:
            return session
        if not await self._opening.acquire(until - time.monotonic()):
            raise UnavailableError("no replay session could be opened within the deadline")
        try:
            if self._session is None:
                ask = wire.OpenSessionRequest(session_id=entropy(16))
                reply = await self._answer(methods.OPEN_SESSION, ask, until, is_lasting=False)
                self._session = Session(ask.session_id, reply.window_calls_max)
            return self._session
        finally:
            self._opening.release()

    async def _begin(
        self, method: Method[Req, Rep], request: Req, until: float, limit: int
    ) -> tuple[Node[Line], Rep, Parts[Rep]]:
        """Opens the stream of a list, and waits for its first part."""
        tries = Tries(self._pool, until, self._dial.pace, is_lasting=False)
        while True:
            self._check_open(tries)
            timeout = tries.timeout()
            whole = until - time.monotonic() if limit else limits.LIST
            began = time.monotonic()
            parts: Parts[Rep] | None = None
            try:
                parts = await tries.node.line.stream(method, request, timeout, max(whole, 0.001))
                first = await parts.next(timeout - (time.monotonic() - began))
                if first is None:
                    # A node names its view in a first part, even if there is no record.
                    raise Failed(no_reply(tries.node.address))
                return tries.node, first, parts
            except Failed as failed:
                if parts is not None:
                    parts.cancel()
                await self._pause(tries, failed)
            except ClosedError:
                raise tries.closed() from None

    async def _collect(
        self, first: Rep, parts: Parts[Rep], by: float, after: str, limit: int
    ) -> tuple[wire.ReplyHeader, list[Any]]:
        header: wire.ReplyHeader | None = None
        records: list[Any] = []
        size = 0
        part: Rep | None = first
        while part is not None:
            named = cast(Any, part)
            header = header or named.header
            self._clock.learn(named.header.clock_ms)
            size += part.ByteSize()
            if size > limits.LIST_BYTES_MAX:
                message = "the list is too large for one answer: list pages, or without values"
                raise refused(Reason.TOO_LARGE, message)
            found = named.handles if isinstance(part, wire.ListReply) else named.records
            records += [record for record in found if record.info.name > after]
            if limit and len(records) >= limit:
                parts.cancel()
                return header, records[:limit]
            left = by - time.monotonic()
            if left <= 0 and not limit:
                message = "the list took longer than 60 s: list less at once"
                raise refused(Reason.LIST_LAPSED, message)
            part = await parts.next(min(left, limits.LIST_STALL))
        return header or wire.ReplyHeader(), records


def _until(deadline: float) -> float:
    return min(time.monotonic() + min(deadline, limits.DEADLINE_MAX), bound())


def _check_size(count: int) -> None:
    """Whether a request of this many bytes can be within the limits at all."""
    if count > limits.REQUEST_BYTES_MAX:
        message = (
            f"the request has {count} bytes, and {limits.REQUEST_BYTES_MAX} are allowed: "
            "write less at once"
        )
        raise refused(Reason.TOO_LARGE, message)
