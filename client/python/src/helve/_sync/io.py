"""What waits and what reaches nodes, for threads. `helve/_async/io.py` has the same for asyncio."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import grpc

from .._core.dial import Dial
from .._core.verdict import Failed, Health, no_reply, of_status, silence, takes, unconnected
from .._wire.methods import Method, Rep, Req
from ..errors import ClosedError

S = TypeVar("S")


class Scopes(Generic[S]):
    """What belongs to one process: a fork must neither share connections nor a replay session."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._scopes: dict[int, S] = {}

    def here(self) -> S:
        """That of this process."""
        found = self._scopes.get(os.getpid())
        if found is None:
            with self._lock:
                found = self._scopes.get(os.getpid())
                if found is None:
                    found = self._make()
                    self._scopes = {os.getpid(): found}
        return found

    def all(self) -> list[S]:
        """That of this process, if there is one."""
        found = self._scopes.get(os.getpid())
        return [] if found is None else [found]


class Event:
    """Something that happens once."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._children: weakref.WeakSet[Event] = weakref.WeakSet()

    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        self._event.set()
        with self._lock:
            children = list(self._children)
        for each in children:
            each.set()

    def child(self) -> Event:
        """One that happens with this one, or before it."""
        made = Event()
        with self._lock:
            self._children.add(made)
        if self.is_set():
            made.set()
        return made

    def wait(self, timeout: float) -> bool:
        """Waits for it, for at most this many seconds; true if it happened."""
        return self._event.wait(timeout)


class Lock:
    """A lock that is waited for with a bound."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, timeout: float) -> bool:
        return self._lock.acquire(timeout=max(timeout, 0.0))

    def release(self) -> None:
        self._lock.release()


def sleep(seconds: float) -> None:
    """Pauses."""
    time.sleep(seconds)


_bounds = threading.local()


def bound() -> float:
    """Until when the calls of this thread may take: it is within a step of a longer call."""
    until: float = getattr(_bounds, "until", math.inf)
    return until


def within(seconds: float, task: Any, late: Callable[[], Exception]) -> Any:
    """What the task answers. No thread can be stopped: the calls that it makes are bounded."""
    if seconds <= 0:
        raise late()
    before = bound()
    _bounds.until = min(before, time.monotonic() + seconds)
    try:
        return task()
    finally:
        _bounds.until = before


_OVER = (
    grpc.ChannelConnectivity.READY,
    grpc.ChannelConnectivity.TRANSIENT_FAILURE,
    grpc.ChannelConnectivity.SHUTDOWN,
)


#: grpcio's thread that watches a connection looks this often whether it still has to, in seconds.
#: A channel that is closed before prints its traceback.
_WATCH = 0.25


class Line:
    """A connection to one node, made when it is needed."""

    def __init__(self, address: str, dial: Dial) -> None:
        self.address = address
        self._dial = dial
        self._is_closed = False
        self._is_connected = False
        self._watched_at = 0.0
        self._calls: dict[str, Any] = {}
        credentials, options = dial.credentials(), dial.options()
        self._channel = (
            grpc.insecure_channel(address, options=options)
            if credentials is None
            else grpc.secure_channel(address, credentials, options=options)
        )

    def unary(self, method: Method[Req, Rep], request: Req, timeout: float) -> Rep:
        """One try of one call. Raises Failed."""
        left = self._connected(timeout)
        call = self._calls.get(method.path)
        if call is None:
            call = self._calls[method.path] = self._channel.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.reply.FromString,
            )
        try:
            reply = call(request, timeout=left, metadata=self._dial.metadata())
        except grpc.RpcError as error:
            raise self._failed(error, takes(request)) from None
        except ValueError:
            # A channel that was closed between takes no more calls.
            if self._is_closed:
                raise ClosedError("this store or its client was closed") from None
            raise
        if reply is None:
            raise Failed(no_reply(self.address))
        self._is_connected = True
        return cast(Rep, reply)

    def stream(
        self, method: Method[Req, Rep], request: Req, timeout: float, whole: float | None
    ) -> Parts[Rep]:
        """Begins a stream: `timeout` bounds the connection, `whole` all of it. Raises Failed."""
        self._connected(timeout)
        call = self._channel.unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        metadata = self._dial.metadata()
        try:
            return Parts(self.address, call(request, timeout=whole, metadata=metadata))
        except ValueError:
            # As with a call: the channel was closed between.
            if self._is_closed:
                raise ClosedError("this store or its client was closed") from None
            raise

    def close(self) -> None:
        """Ends its calls."""
        self._is_closed = True
        time.sleep(max(self._watched_at + _WATCH - time.monotonic(), 0.0))
        self._channel.close()

    def _failed(self, error: Any, has_values: bool) -> Failed:
        verdict = of_status(self.address, error, has_values=has_values)
        if verdict.health is not Health.SOUND:
            self._is_connected = False
        return Failed(verdict)

    def _connected(self, timeout: float) -> float:
        """Waits for the connection, and answers what is left of the time.

        What was not connected was not sent, which a timeout of the call itself could not tell. A
        connection that fails is left to the call: its error says why.
        """
        if self._is_closed:
            raise ClosedError("this store or its client was closed")
        if self._is_connected:
            return timeout
        began = time.monotonic()
        over = threading.Event()

        def watch(state: grpc.ChannelConnectivity) -> None:
            if state in _OVER:
                over.set()

        bound = min(timeout, self._dial.connect_timeout)
        self._channel.subscribe(watch, try_to_connect=True)
        try:
            if not over.wait(bound):
                why = f"no connection within {bound:.1f} s"
                raise Failed(unconnected(self.address, why))
        finally:
            self._channel.unsubscribe(watch)
            self._watched_at = time.monotonic()
        return max(timeout - (time.monotonic() - began), 0.001)


class Parts(Generic[Rep]):
    """The parts of a stream, as they come."""

    def __init__(self, address: str, call: Any) -> None:
        self._address = address
        self._call = call

    def next(self, timeout: float) -> Rep | None:
        """The next part; None: there is none. Raises Failed."""
        stalled = threading.Event()

        def stall() -> None:
            stalled.set()
            self._call.cancel()

        timer = threading.Timer(max(timeout, 0.0), stall)
        timer.daemon = True
        timer.start()
        try:
            return cast(Rep, next(self._call))
        except StopIteration:
            return None
        except grpc.RpcError as error:
            if stalled.is_set():
                raise Failed(silence(self._address)) from None
            raise Failed(of_status(self._address, error)) from None
        finally:
            timer.cancel()

    def cancel(self) -> None:
        """Reads no further."""
        self._call.cancel()
