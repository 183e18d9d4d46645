"""Files that hold secrets."""

from __future__ import annotations

import os
from pathlib import Path

#: Permissions of users who neither own a file nor are in its group.
_OTHERS = 0o007


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
