"""Request states of the official MCP SDK 2.x that every replica opens.

Needs `pip install 'helve[mcp]'` with `mcp` 2.0 or newer.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref

from cryptography.exceptions import InvalidTag
from mcp.server.request_state import InvalidRequestState

from ._async.client import AsyncClient
from ._core import key_ring
from ._core.identity import entropy
from ._core.key_ring import KEY_ID_BYTES, NONCE_BYTES, SALT_BYTES, TAG_BYTES, Ring
from ._sync.client import Client
from .errors import HelveError, InvalidError, UnavailableError
from .owner import SHARED
from .records import Live

_PREFIX = "p1."
_DOMAIN = b"helve request-state p1"
_HEAD_BYTES = KEY_ID_BYTES + SALT_BYTES + NONCE_BYTES
#: Longer states are refused before they are decoded.
_TOKEN_BYTES_MAX = 128 << 10
_REFRESH = 5.0
#: A state under an unknown key has the ring read, but not more often: anybody can make one up.
_REFRESH_AFTER = 1.0
#: A replica that could not read the ring for this long seals and opens nothing.
_STALE_AFTER = 300.0
_LOG = logging.getLogger("helve")


class RequestStateCodec:
    """Seals states under the keys of a ring that `helve key` keeps in the cluster.

    It is the `codec` of `RequestStateSecurity`. All replicas with the operator's key open each
    other's states, through every phase of a rotation, and none is restarted for one:

        keys = RequestStateCodec(client, "shop", key_file="operator-key")
        MCPServer("shop", request_state_security=RequestStateSecurity(codec=keys))

    The ring is read at once, and every five seconds by a thread of its own, until `close()`.
    """

    def __init__(
        self,
        client: Client | AsyncClient,
        ring: str,
        *,
        key_file: str | os.PathLike[str] | None = None,
        operator_key: bytes | None = None,
    ) -> None:
        """Takes the name of the ring, and the operator's key or the file that holds it.

        `client` says how to reach the cluster; this has connections of its own. Raises InvalidError
        if the ring has no key, or does not open; and those of every read.
        """
        if (key_file is None) == (operator_key is None):
            raise InvalidError("give the operator's key as one of key_file and operator_key")
        if key_file is not None:
            operator_key = key_ring.read_operator_key(key_file)
        if operator_key is None or len(operator_key) < 32:
            raise InvalidError("the operator's key must be at least 32 bytes long")
        self._name = key_ring.checked_name(ring)
        self._operator = operator_key
        self._client = Client.like(client)
        self._handles = self._client.handles(key_ring.STORE, owner=SHARED)
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._ended = threading.Event()
        began = time.monotonic()
        try:
            self._ring = self._read()
        except BaseException:
            self._client.close()
            raise
        self._read_at = began
        arguments = (weakref.ref(self), self._wanted, self._ended)
        threading.Thread(
            target=_refresh, args=arguments, name="helve key ring", daemon=True
        ).start()

    def seal(self, payload: bytes) -> str:
        """A token that protects the payload, which clients can neither read nor change.

        Raises UnavailableError if the ring could not be read for five minutes.
        """
        ring = self._held()
        if ring is None:
            raise UnavailableError(f"key ring {self._name!r} could not be read for too long")
        key = ring.active
        salt, nonce = entropy(SALT_BYTES), entropy(NONCE_BYTES)
        sealed = key.for_one(salt).encrypt(nonce, payload, _DOMAIN + key.id + salt)
        return _PREFIX + key_ring.to_base64(key.id + salt + nonce + sealed)

    def unseal(self, token: str) -> bytes:
        """What a token protects. Raises `InvalidRequestState` if no replica made it as it is."""
        if not token.startswith(_PREFIX) or len(token) > _TOKEN_BYTES_MAX:
            raise InvalidRequestState("malformed")
        try:
            blob = key_ring.from_base64(token[len(_PREFIX) :])
        except ValueError as error:
            raise InvalidRequestState("malformed") from error
        if len(blob) < _HEAD_BYTES + TAG_BYTES:
            raise InvalidRequestState("malformed")
        key_id, salt = blob[:KEY_ID_BYTES], blob[KEY_ID_BYTES : KEY_ID_BYTES + SALT_BYTES]
        ring = self._held()
        if ring is None:
            raise InvalidRequestState("the key ring could not be read for too long")
        key = ring.keys.get(key_id)
        if key is None:
            # A rotation gives replicas 30 s to pick up a key before it seals, so only one that was
            # forced comes here. This must not wait: it is called in the server's event loop.
            self._wanted.set()
            raise InvalidRequestState("unknown key")
        nonce = blob[_HEAD_BYTES - NONCE_BYTES : _HEAD_BYTES]
        try:
            opened: bytes = key.for_one(salt).decrypt(
                nonce, blob[_HEAD_BYTES:], _DOMAIN + key_id + salt
            )
        except InvalidTag:
            raise InvalidRequestState("seal") from None
        return opened

    def close(self) -> None:
        """Ends the thread and the connections. States are sealed and opened on for five minutes."""
        self._ended.set()
        self._wanted.set()
        self._client.close()

    def _held(self) -> Ring | None:
        with self._lock:
            is_stale = time.monotonic() - self._read_at > _STALE_AFTER
            return None if is_stale else self._ring

    def _read(self) -> Ring:
        found = self._handles.resolve(self._name)
        if not isinstance(found, Live):
            raise key_ring.empty(self._name)
        return Ring.open(found.record.value, self._name, self._operator)

    def _replace(self) -> None:
        began = time.monotonic()
        ring = self._read()
        with self._lock:
            if ring.generation < self._ring.generation:
                raise InvalidError(
                    f"key ring {self._name!r} went back from generation {self._ring.generation} to "
                    f"{ring.generation}: somebody put an old one in its place"
                )
            self._ring, self._read_at = ring, began


def _refresh(
    codec: weakref.ref[RequestStateCodec], wanted: threading.Event, ended: threading.Event
) -> None:
    """Reads the ring, until its codec is closed or dropped."""
    was_read = True
    while not ended.wait(_REFRESH_AFTER):
        wanted.wait(_REFRESH - _REFRESH_AFTER)
        wanted.clear()
        held = codec()
        if held is None or ended.is_set():
            return
        try:
            held._replace()
        except HelveError as error:
            if was_read and not ended.is_set():
                _LOG.warning("the key ring is not read, its last keys are kept: %s", error)
            was_read = False
        else:
            was_read = True
        del held
