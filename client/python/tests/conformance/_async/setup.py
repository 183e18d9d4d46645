"""The clients and names that one run of one case uses, and how a case waits."""

import secrets
import time
from dataclasses import replace

from helve import SHARED, AsyncClient, HelveError

from .io import sleep

HOUR = 3600
HOUR_MS = 3_600_000
#: Short enough to wait for, in seconds.
SHORT = 0.2
#: What a case waits for comes within this time, or it fails. Ample, for slow machines.
PATIENCE = 30.0
POLL = 0.02


class Setup:
    """Stores of its own, so that no other case sees what this one does."""

    def __init__(self, endpoints, **options):
        self.endpoints = endpoints
        self.options = options
        self.name = f"case-{secrets.token_hex(8)}"
        self.clients = {}

    def client(self, node=0):
        """A client that begins with this node."""
        first = node % len(self.endpoints)
        if first not in self.clients:
            self.clients[first] = self.own_client(first)
        return self.clients[first]

    def own_client(self, first=0):
        """A client that a case may close."""
        return AsyncClient(self.endpoints[first:] + self.endpoints[:first], **self.options)

    def handles(self, node=0, owner=SHARED, **options):
        return self.client(node).handles(self.name, owner=owner, **options)

    def keys(self, node=0, **options):
        return self.client(node).keys(owner=self.name, **options)

    def with_request_ids(self, dial):
        """The same settings, but mutations bear request ids."""
        return replace(dial, has_session=False)

    async def close(self):
        for client in self.clients.values():
            await client.close()


async def wait_until(what, ask):
    """Asks until the answer is yes."""
    until = time.monotonic() + PATIENCE
    while not await ask():
        assert time.monotonic() < until, f"waited in vain: {what}"
        await sleep(POLL)


async def error_of(call):
    """The error that a call must end with."""
    try:
        answer = await call()
    except HelveError as error:
        return error
    raise AssertionError(f"it was answered: {answer!r}")


async def kind_of(call):
    return (await error_of(call)).kind


async def refused(call, reason, what=""):
    error = await error_of(call)
    assert (error.kind, error.reason) == ("Invalid", reason), f"{what}: {error!r}"
