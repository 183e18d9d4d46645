"""Whose records a store's calls are about."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Union

from ._core import parts
from .errors import Reason, refused


class Shared(Enum):
    """No one: all callers of the store share its records."""

    SHARED = "shared"


#: For what a server keeps for itself, and where there is only one user.
SHARED = Shared.SHARED
#: An end user's name, of at most 256 bytes, or `SHARED`; or a function that says which. Each call
#: asks the function, so that a server's stores are those of the caller that it serves.
Owner = Union[str, Shared, Callable[[], Union[str, Shared]]]


def on_wire(owner: Owner) -> str:
    """The owner as requests have it. Raises InvalidError if the name is empty, or none of a node.

    A caller whose name was lost on the way must not end up among the records that all share.
    """
    if callable(owner):
        owner = owner()
    if owner is SHARED:
        return ""
    if not isinstance(owner, str) or not owner:
        message = "the owner's name is empty: name the end user whose records these are, or SHARED"
        raise refused(Reason.BAD_REQUEST, message)
    return parts.owner(owner)
