"""Callers that write all the time, each to records of its own, and know what every node must hold in the end.

They speak JSON over HTTP, which needs no client of either version. A call that is not answered is sent again under its identity, to
the next node, until it is answered: so a write that was lost, or carried out twice, contradicts what its caller was told.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import threading
import time
from typing import Any

# A call is given up after this time: nodes are restarted, and a machine may be busy.
PATIENCE_S = 90.0
# Between two tries.
PAUSE_S = 0.05
# For one try.
TRY_S = 5.0
# Not carried out, and worth another try.
RETRIED = {"NO_LEADER", "OVERLOADED", "STOPPING", "AMBIGUOUS", "LIST_LAPSED"}


class Refused(Exception):
    """A node answered that a call cannot be carried out."""


def identity() -> dict[str, str]:
    """A UUIDv7 of this moment."""
    ms = time.time_ns() // 1_000_000
    tail = bytearray(os.urandom(10))
    tail[0] = 0x70 | tail[0] & 0x0F
    tail[2] = 0x80 | tail[2] & 0x3F
    return {"requestId": base64.b64encode(ms.to_bytes(6, "big") + bytes(tail)).decode()}


def encoded(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def decoded(value: str) -> str:
    return base64.b64decode(value).decode()


class Caller:
    """Calls one of several nodes, and goes on to the next when it gives no answer."""

    def __init__(self, ports: list[int], first: int = 0) -> None:
        self.ports = ports
        self.at = first
        self.retries = 0
        # To the node at `at`; none after an error.
        self.connection: http.client.HTTPConnection | None = None

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The reply of whichever node answers. A write bears its identity in `body`."""
        text = json.dumps(body)
        deadline = time.monotonic() + PATIENCE_S
        why = "no try"
        while time.monotonic() < deadline:
            try:
                status, reply = self._try(path, text)
            except (OSError, http.client.HTTPException) as error:
                why = f"port {self.ports[self.at]}: {error!r}"
            else:
                if status == 200:
                    return reply
                reason = reason_of(reply)
                why = f"port {self.ports[self.at]}: {status} {reason}: {reply.get('message')}"
                if reason not in RETRIED and status not in (502, 503, 504):
                    raise Refused(f"{path}: {why}")
            self.retries += 1
            self._leave()
            self.at = (self.at + 1) % len(self.ports)
            time.sleep(PAUSE_S)
        raise TimeoutError(f"{path} was not answered within {PATIENCE_S:.0f} s: {why}")

    def _try(self, path: str, text: str) -> tuple[int, dict[str, Any]]:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.ports[self.at], timeout=TRY_S)
        self.connection.request("POST", f"/helve.v1.{path}", text, {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")

    def _leave(self) -> None:
        """Another node may be asked from here on, or the same one again over a new connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None


def reason_of(reply: dict[str, Any]) -> str:
    for detail in reply.get("details", []):
        reason = detail.get("debug", {}).get("reason")
        if reason:
            return str(reason)
    return str(reply.get("code", ""))


class Worker:
    """One caller, and what it was told."""

    def __init__(self, number: int, ports: list[int]) -> None:
        self.store = f"up-{number}"
        self.caller = Caller(ports, number % len(ports))
        # Handles that live, by id; handles that were taken.
        self.live: dict[str, str] = {}
        self.taken: set[str] = set()
        self.keys: dict[str, str] = {}
        # Keys that were deleted.
        self.gone: set[str] = set()
        self.rounds = 0
        self.calls = 0
        self.counter_revision = "0"

    def write(self, path: str, **body: Any) -> dict[str, Any]:
        self.calls += 1
        return self.caller.call(path, body | {"identity": identity()})

    def read(self, path: str, **body: Any) -> dict[str, Any]:
        self.calls += 1
        return self.caller.call(path, body)

    def round(self) -> None:
        """Every call that a client of either version can make, once or more."""
        number = self.rounds
        self.handles(number)
        self.counter(number)
        self.batches(number)
        self.reads()
        self.rounds += 1

    def handles(self, number: int) -> None:
        store = self.store
        minted = self.write("HandleService/Mint", store=store, value=encoded(f"minted {number}"))
        handle, revision = minted["info"]["name"], minted["info"]["revision"]
        assert handle not in self.live, f"{handle} was minted twice"
        value = f"put {number}"
        self.write("HandleService/Put", store=store, id=handle, value=encoded(value), ifRevision=revision)
        self.write("HandleService/Renew", store=store, id=handle, lifetime={"keep": {}})
        self.live[handle] = value
        if number % 3 == 1:
            took = self.write("HandleService/Take", store=store, id=handle)
            found = decoded(took.get("value", ""))
            assert found == value, f"took {found!r} from {handle}, not {value!r}"
            del self.live[handle]
            self.taken.add(handle)
        elif number % 3 == 2:
            self.write("HandleService/Delete", store=store, id=handle)
            del self.live[handle]

    def counter(self, number: int) -> None:
        """A chain of writes, each on the revision of the one before: one that is lost or doubled breaks it."""
        key = f"{self.store}-counter"
        stored = self.write("StateService/Store", key=key, value=encoded(str(number)), ifRevision=self.counter_revision)
        self.counter_revision = stored["info"]["revision"]
        self.keys[key] = str(number)

    def batches(self, number: int) -> None:
        names = [f"{self.store}-{number}-{part}" for part in ("a", "b", "c")]
        items = [{"key": name, "value": encoded(name)} for name in names[:2]]
        self.write("StateService/BatchStore", items=items)
        operations = [
            {"mint": {"store": self.store, "value": encoded(names[2])}},
            {"store": {"key": names[2], "value": encoded(names[2])}},
            {"deleteKey": {"key": names[1]}},
        ]
        done = self.write("TransactService/Transact", operations=operations)
        assert "committed" in done, f"a transaction of {self.store} was aborted: {done}"
        self.live[done["committed"]["replies"][0]["info"]["name"]] = names[2]
        self.keys |= {names[0]: names[0], names[2]: names[2]}
        self.gone.add(names[1])
        if number % 4 == 3:
            self.write("StateService/Delete", key=names[0])
            del self.keys[names[0]]
            self.gone.add(names[0])

    def reads(self) -> None:
        """What was acknowledged a moment ago is read through any node."""
        if self.live:
            handle, value = next(reversed(self.live.items()))
            got = self.read("HandleService/Get", store=self.store, id=handle)
            assert decoded(got.get("value", "")) == value, f"{handle}: {got}, not {value!r}"
        key, value = next(reversed(self.keys.items()))
        found = self.read("StateService/Retrieve", key=key)
        assert decoded(found["record"]["value"]) == value, f"{key}: {found}, not {value!r}"
        self.read("StateService/BatchRetrieve", keys=[key])
        assert self.read("StateService/Exists", key=key)["exists"], key
        self.read("HandleService/List", store=self.store, handlesMax=5)
        self.read("StateService/List", prefix=f"{self.store}-", keysMax=5)
        self.read("CallService/OpenSession", sessionId=base64.b64encode(os.urandom(16)).decode())

    def verify(self, port: int) -> None:
        """That a node holds what this caller was told, and nothing besides."""
        node = Caller([port])
        for handle, value in self.live.items():
            got = node.call("HandleService/Get", {"store": self.store, "id": handle})
            assert decoded(got.get("value", "")) == value, f"port {port} lost {handle}: {got}, not {value!r}"
        for handle in self.taken:
            got = node.call("HandleService/Get", {"store": self.store, "id": handle})
            assert got["status"] == "HANDLE_STATUS_TAKEN", f"port {port} has {handle}: {got}"
        count = int(node.call("HandleService/Count", {"store": self.store})["live"])
        assert count == len(self.live), f"port {port} has {count} handles of {self.store}, not {len(self.live)}"
        for key, value in self.keys.items():
            found = node.call("StateService/Retrieve", {"key": key}).get("record") or {}
            assert decoded(found.get("value", "")) == value, f"port {port} lost {key}: {found}, not {value!r}"
        for key in self.gone:
            found = node.call("StateService/Retrieve", {"key": key})
            assert not found.get("record"), f"port {port} has {key}, which was deleted: {found}"


class Load:
    """Some workers, each in a thread of its own, until they are stopped."""

    def __init__(self, workers: int, ports: list[int]) -> None:
        self.workers = [Worker(number, ports) for number in range(workers)]
        self.stopping = threading.Event()
        self.broken: list[BaseException] = []
        self.threads = [threading.Thread(target=self._run, args=(worker,), daemon=True) for worker in self.workers]

    def _run(self, worker: Worker) -> None:
        while not self.stopping.is_set():
            try:
                worker.round()
            except BaseException as error:  # It ends the run, which shows it.
                self.broken.append(error)
                return

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def rounds(self) -> int:
        """Rounds that are whole. Raises what a worker ended with."""
        if self.broken:
            raise self.broken[0]
        return sum(worker.rounds for worker in self.workers)

    def stop(self) -> None:
        """Waits until every worker is at the end of a round, and raises what one ended with."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(2 * PATIENCE_S)
        self.rounds()

    def calls(self) -> int:
        return sum(worker.calls for worker in self.workers)

    def retries(self) -> int:
        return sum(worker.caller.retries for worker in self.workers)
