"""What waits and what reaches nodes, for asyncio. `helve/_sync/io.py` has the same for threads."""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import grpc
import grpc.aio

from .._core.dial import Dial
from .._core.verdict import Failed, no_reply, of_status, silence, takes, unconnected
from .._wire.methods import Method, Rep, Req
from ..errors import ClosedError

S = TypeVar("S")


class Scopes(Generic[S]):
    """What belongs to one event loop: connections, locks and the replay session."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._scopes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, S] = (
            weakref.WeakKeyDictionary()
        )

    def here(self) -> S:
        """That of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._scopes.get(loop)
        if found is None:
            found = self._scopes[loop] = self._make()
        return found

    def all(self) -> list[S]:
        """Those of the running loop: others end with their loops."""
        found = self._scopes.get(asyncio.get_running_loop())
        return [] if found is None else [found]


class Event:
    """Something that happens once."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._children: weakref.WeakSet[Event] = weakref.WeakSet()

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()
        for each in list(self._children):
            each.set()

    def child(self) -> Event:
        """One that happens with this one, or before it."""
        made = Event()
        self._children.add(made)
        if self.is_set():
            made.set()
        return made

    async def wait(self, timeout: float) -> bool:
        """Waits for it, for at most this many seconds; true if it happened."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except asyncio.TimeoutError:
            return False
        return True


class Lock:
    """A lock that is waited for with a bound."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def acquire(self, timeout: float) -> bool:
        try:
            await asyncio.wait_for(self._lock.acquire(), timeout)
        except asyncio.TimeoutError:
            return False
        return True

    def release(self) -> None:
        self._lock.release()


async def sleep(seconds: float) -> None:
    """Pauses."""
    await asyncio.sleep(seconds)


def bound() -> float:
    """Until when the calls of this task may take; a step that is late is cancelled instead."""
    return math.inf


async def within(seconds: float, task: Any, late: Callable[[], Exception]) -> Any:
    """What the task answers; if it takes longer, it is cancelled, and `late` is raised."""
    try:
        return await asyncio.wait_for(task(), max(seconds, 0.0))
    except asyncio.TimeoutError:
        raise late() from None


_OVER = (grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN)


class Line:
    """A connection to one node, made when it is needed."""

    def __init__(self, address: str, dial: Dial) -> None:
        self.address = address
        self._dial = dial
        self._is_closed = False
        self._calls: dict[str, Any] = {}
        credentials, options = dial.credentials(), dial.options()
        self._channel: grpc.aio.Channel = (
            grpc.aio.insecure_channel(address, options=options)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, options=options)
        )

    async def unary(self, method: Method[Req, Rep], request: Req, timeout: float) -> Rep:
        """One try of one call. Raises Failed."""
        left = await self._connected(timeout)
        call = self._calls.get(method.path)
        if call is None:
            call = self._calls[method.path] = self._channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.reply.FromString,
            )
        try:
            reply = await call(request, timeout=left, metadata=self._dial.metadata())
        except grpc.aio.AioRpcError as error:
            verdict = of_status(self.address, error, has_values=takes(request))
            raise Failed(verdict) from None
        except asyncio.CancelledError:
            # Closing a channel cancels its calls, and is no cancellation of the caller.
            if self._is_closed:
                raise Failed(silence(self.address)) from None
            raise
        if reply is None or reply is grpc.aio.EOF:
            raise Failed(no_reply(self.address))
        return cast(Rep, reply)

    async def stream(
        self, method: Method[Req, Rep], request: Req, timeout: float, whole: float | None
    ) -> Parts[Rep]:
        """Begins a stream: `timeout` bounds the connection, `whole` all of it. Raises Failed."""
        await self._connected(timeout)
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        metadata = self._dial.metadata()
        return Parts(self.address, call(request, timeout=whole, metadata=metadata))

    async def close(self) -> None:
        """Ends its calls."""
        self._is_closed = True
        await self._channel.close()

    async def _connected(self, timeout: float) -> float:
        """Waits for the connection, and answers what is left of the time.

        What was not connected was not sent, which a timeout of the call itself could not tell. A
        connection that fails is left to the call: its error says why.
        """
        if self._is_closed:
            raise ClosedError("this store or its client was closed")
        loop = asyncio.get_running_loop()
        began = loop.time()
        bound = min(timeout, self._dial.connect_timeout)
        while True:
            state = self._channel.get_state(try_to_connect=True)
            if state is grpc.ChannelConnectivity.READY or state in _OVER:
                return max(timeout - (loop.time() - began), 0.001)
            left = bound - (loop.time() - began)
            try:
                await asyncio.wait_for(self._channel.wait_for_state_change(state), max(left, 0.0))
            except asyncio.TimeoutError:
                why = f"no connection within {bound:.1f} s"
                raise Failed(unconnected(self.address, why)) from None


class Parts(Generic[Rep]):
    """The parts of a stream, as they come."""

    def __init__(self, address: str, call: Any) -> None:
        self._address = address
        self._call = call
        self._loop = asyncio.get_running_loop()

    def __del__(self) -> None:
        # grpcio keeps a stream whose reader was dropped; the loop may be another thread's.
        if not (self._call.done() or self._loop.is_closed()):
            self._loop.call_soon_threadsafe(self._call.cancel)

    async def next(self, timeout: float) -> Rep | None:
        """The next part; None: there is none. Raises Failed."""
        reading = asyncio.ensure_future(self._call.read())
        # What is read is lost with its reader, which then says so itself.
        reading.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        try:
            await asyncio.wait({reading}, timeout=max(timeout, 0.0))
        finally:
            if not reading.done():
                reading.cancel()
                self._call.cancel()
        # It is also cancelled with its stream, which is no cancellation of the caller.
        if not reading.done() or reading.cancelled():
            raise Failed(silence(self._address))
        try:
            part = reading.result()
        except grpc.aio.AioRpcError as error:
            raise Failed(of_status(self._address, error)) from None
        return None if part is grpc.aio.EOF else part

    def cancel(self) -> None:
        """Reads no further."""
        self._call.cancel()
