# Made of `watching.py` by tools/unasync.py: do not edit.
"""A watch on a cluster: one stream after the other, as one."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from .._core import limits
from .._core.backoff import Backoff
from .._core.pool import Node
from .._core.tries import Tries
from .._core.verdict import Effect, Failed, Health, Verdict, elsewhere, no_reply, silence
from .._wire import messages as wire
from .._wire import methods
from ..errors import HelveError, OverloadedError, UnavailableError, closed
from ..watch import Change, change_of
from .io import Line, Parts

if TYPE_CHECKING:
    from .cluster import Cluster

#: After these a watch goes on.
_PASSING = (UnavailableError, OverloadedError)


class Changes:
    """A watch under way: an iterator of `Change`, without an end of its own.

    It tells each change once, in the order of the log, and goes on at another node when its node
    fails. It reads only what is asked for, so a slow caller takes up no memory; one that falls too
    far behind is told so. One task at a time may iterate, and any may close it.

    After `UnavailableError` and `OverloadedError` iterate again: it goes on from where it was.
    After every other error it has ended. `WatchTooOldError` means that no node has all changes that
    follow any more: list again, and watch after the list's revision.
    """

    def __init__(self, cluster: Cluster, request: wire.WatchRequest, deadline: float) -> None:
        """Is made by `Client.watch`."""
        self._cluster = cluster
        self._request = request
        self._deadline = deadline
        self._ended = cluster._closed.child()
        self._stream: tuple[Node[Line], Parts[wire.WatchReply]] | None = None
        self._backoff = self._fresh()
        #: Changes that were read and not told, and the place of the last one that was read.
        self._unread: deque[Change] = deque()
        self._place = (0, 0)
        self._revision = request.after
        self._is_over = False

    @property
    def revision(self) -> int:
        """Every change up to this revision was told: a later watch goes on after it.

        It also grows without changes, as the log does, while a caller waits for one.
        """
        return self._revision

    def open(self) -> Changes:
        """Opens the first stream."""
        try:
            self._take(self._begin())
        except BaseException:
            self._drop()
            raise
        if not self._unread:
            self._told_all()
        return self

    def close(self) -> None:
        """Ends the watch, and a wait for its next change. Closing again does nothing."""
        self._is_over = True
        self._ended.set()
        self._drop()

    def __iter__(self) -> Changes:
        return self

    def __next__(self) -> Change:
        while not self._is_over:
            if self._unread:
                return self._next_unread()
            self._told_all()
            try:
                self._read()
            except BaseException as error:
                # What was read of this stream may be lost with its reader: it is asked for again.
                self._drop()
                if isinstance(error, HelveError) and not isinstance(error, _PASSING):
                    was_closed, self._is_over = self._is_over, True
                    if was_closed:
                        break
                raise
        raise StopIteration

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(after {self._revision})"

    def _read(self) -> None:
        """Reads a part, or leaves a stream that has none."""
        stream = self._stream
        if stream is None:
            self._take(self._begin())
            return
        node, parts = stream
        try:
            part = parts.next(limits.WATCH_SILENCE)
            if part is None:
                # No node ends a watch so: something between did.
                raise Failed(silence(node.address))
        except Failed as failed:
            self._drop()
            self._leave(node, elsewhere(failed.verdict))
            return
        self._backoff = self._fresh()
        self._take(part)

    def _begin(self) -> wire.WatchReply:
        """Opens a stream at any node, and answers its first part."""
        cluster = self._cluster
        until = time.monotonic() + min(self._deadline, limits.DEADLINE_MAX)
        tries = Tries(cluster._pool, until, cluster._dial.pace, is_lasting=False)
        while True:
            self._check_open()
            timeout, began = tries.timeout(), time.monotonic()
            node = tries.node
            try:
                parts = node.line.stream(methods.WATCH, self._request, timeout, None)
                self._stream = (node, parts)
                # One that was closed meanwhile did not see this stream.
                self._check_open()
                first = parts.next(timeout - (time.monotonic() - began))
                if first is None:
                    raise Failed(no_reply(node.address))
                return first
            except Failed as failed:
                self._drop()
                self._check_open()
                self._ended.wait(tries.failed(elsewhere(failed.verdict)))

    def _leave(self, node: Node[Line], verdict: Verdict) -> None:
        """Turns from a node whose stream ended, or raises what ends the watch."""
        self._check_open()
        if verdict.effect in (Effect.REFUSED, Effect.BARRED):
            raise verdict.error
        if verdict.health in (Health.SUSPECT, Health.BEHIND):
            self._cluster._pool.suspect(node)
        self._ended.wait(max(self._backoff.next(), verdict.pause))

    def _take(self, part: wire.WatchReply) -> None:
        """Notes a part, without what was read before.

        A stream goes on after a whole revision, of which a part may have been told.
        """
        for told in part.changes:
            place = (told.info.revision, told.ordinal)
            if place > self._place:
                self._place = place
                self._unread.append(change_of(told))
        self._cluster._clock.learn(part.header.clock_ms)
        self._request.cluster_id = part.cluster_id or self._request.cluster_id
        self._request.after = max(part.revision, self._request.after)

    def _next_unread(self) -> Change:
        change = self._unread.popleft()
        if self._unread:
            # Of its revision more may follow.
            self._revision = max(self._revision, change.revision - 1)
        else:
            self._told_all()
        return change

    def _told_all(self) -> None:
        """Notes that everything that was read was told."""
        self._revision = self._request.after

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream[1].cancel()

    def _check_open(self) -> None:
        if self._ended.is_set():
            raise closed()

    def _fresh(self) -> Backoff:
        """The pauses before streams that follow each other without a part between."""
        pace = self._cluster._dial.pace
        return Backoff(pace.backoff_first, pace.backoff_max)
