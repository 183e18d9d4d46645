"""The endpoints of a cluster, and which of them to try next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from ..errors import HelveError, Reason, refused
from . import limits
from .address import Address

#: A connection to one node.
L = TypeVar("L")


class Node(Generic[L]):
    """One node, as its endpoint."""

    def __init__(self, index: int, address: str, line: L) -> None:
        self.index = index
        self.address = address
        self.line = line
        self.suspect_until = 0.0

    @property
    def is_suspect(self) -> bool:
        """Whether it did not answer lately."""
        return time.monotonic() < self.suspect_until


class Pool(Generic[L]):
    """The nodes that a client may talk to. Its methods may be called from several threads."""

    def __init__(
        self,
        endpoints: Collection[str],
        opens: Callable[[str], L],
        *,
        is_tls: bool,
        learns: bool,
        guards_token: bool = False,
    ) -> None:
        if not endpoints:
            raise refused(Reason.BAD_REQUEST, "a cluster needs at least one endpoint, as HOST:PORT")
        self._lock = threading.Lock()
        self._opens = opens
        self._is_tls = is_tls
        self._guards_token = guards_token
        self._learns = learns
        # The comma between two may be of a password: then what is before it is one, too.
        for endpoint in reversed(list(endpoints)):
            if "@" in endpoint:
                Address.parse(endpoint)
        addresses = [self._checked(endpoint) for endpoint in endpoints]
        self.nodes = [Node(at, address, opens(address)) for at, address in enumerate(addresses)]
        self._nodes_max = len(addresses) + limits.LEARNED_ENDPOINTS_MAX
        self._preferred = 0

    def preferred(self) -> Node[L]:
        """The node for the first try of a call."""
        return self.nodes[self._preferred]

    def after(self, node: Node[L], useless: Collection[int]) -> Node[L] | None:
        """The next node that is not suspect, or the next; none that will not do for this call."""
        nodes = self.nodes
        around = [nodes[(node.index + step) % len(nodes)] for step in range(1, len(nodes) + 1)]
        usable = [each for each in around if each.index not in useless]
        sound = [each for each in usable if not each.is_suspect]
        return next(iter(sound or usable), None)

    def suspect(self, node: Node[L]) -> None:
        """Notes that a node did not answer: other calls shall not begin with it."""
        node.suspect_until = time.monotonic() + limits.SUSPECT
        with self._lock:
            # A call that began before the others moved away must not move them again.
            if self._preferred == node.index:
                following = self.after(node, ())
                self._preferred = following.index if following else 0

    def answered(self, node: Node[L], leader: str) -> None:
        """Notes that a node answered, and named the leader; empty: it knows none."""
        node.suspect_until = 0.0
        if not leader:
            return
        with self._lock:
            known = next((each for each in self.nodes if each.address == leader), None)
            known = known or self._learn(leader)
            if known and not known.is_suspect:
                self._preferred = known.index

    def _learn(self, address: str) -> Node[L] | None:
        if not self._learns or len(self.nodes) >= self._nodes_max:
            return None
        try:
            node = Node(len(self.nodes), address, self._opens(self._checked(address)))
        except HelveError:
            # A hint that is no address is a hint not to be followed.
            return None
        self.nodes.append(node)
        return node

    def _checked(self, endpoint: str) -> str:
        address = Address.parse(endpoint)
        if address.scheme == "https" and not self._is_tls:
            message = f"{endpoint!r} asks for TLS: say whom to trust with tls="
            raise refused(Reason.BAD_REQUEST, message)
        if address.scheme == "http" and self._is_tls:
            message = f"{endpoint!r} asks for plain text, and the client for TLS: give HOST:PORT"
            raise refused(Reason.BAD_REQUEST, message)
        if self._guards_token and not address.is_of_this_machine:
            message = (
                f"the token would go to {endpoint!r} in plain text: say whom to trust with tls=, "
                "or insecure=True if you vouch for the network between"
            )
            raise refused(Reason.BAD_REQUEST, message)
        return address.host_and_port
