"""Files that a caller named: a wrong name ends with an error, in bounded time and memory."""

from __future__ import annotations

import os
import select
import stat
import time
from pathlib import Path

#: Permissions of users who neither own a file nor are in its group.
_OTHERS = 0o007
#: How long the writer of a pipe may take until it has written all.
_PIPE_PATIENCE = 10.0


def read(
    path: str | os.PathLike[str], bytes_max: int, patience: float = _PIPE_PATIENCE
) -> tuple[bytes, os.stat_result]:
    """What a file holds, or a pipe whose writer ends within ten seconds, and the file's state.

    It reads one byte more than `bytes_max` at most, by which the caller sees that it is too
    large. Raises OSError if it cannot be read, or is a device, a directory or a socket.
    """
    # To open a pipe must not wait for its writer, who may never come.
    flags = ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
    file = os.open(path, sum((getattr(os, flag, 0) for flag in flags), os.O_RDONLY))
    try:
        found = os.fstat(file)
        if stat.S_ISFIFO(found.st_mode):
            return _piped(file, bytes_max + 1, time.monotonic() + patience), found
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is a device, a directory or a socket: name a file")
        data = bytearray()
        while part := os.read(file, bytes_max + 1 - len(data)):
            data += part
        return bytes(data), found
    finally:
        os.close(file)


def _piped(pipe: int, wanted: int, until: float) -> bytes:
    poll = select.poll()
    # A pipe that had no writer yet is not at its end: it is once one has come and gone.
    poll.register(pipe, select.POLLIN | select.POLLHUP)
    data = bytearray()
    while len(data) < wanted:
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise OSError(0, "it is a pipe whose writer did not end in time")
        try:
            part = os.read(pipe, wanted - len(data))
        except BlockingIOError:
            continue
        if not part:
            break
        data += part
    return bytes(data)


def exposed(path: str | os.PathLike[str], mode: int) -> str | None:
    """Why a file of this mode must hold no secret; None if it may.

    Its group may read it: Kubernetes mounts secrets as root's, for the group of the pod.
    """
    if os.name != "posix" or not mode & _OTHERS:
        return None
    shown = f"{mode & 0o777:03o}"
    return (
        f"other users of this machine may read or write it (mode {shown}): "
        f"chmod 600 {os.fspath(Path(path))}"
    )
