"""The request-state codec, held against vectors, against a second implementation, and against the official SDK's rules.

The second implementation is written after the published formats of mcp.d, with another library for the cryptography.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from checks import Report, equal, expect
from conformance import MRTR
from peer import accept, call_tool
from processes import Cluster, Process, Service, free_port, running
from state import REFUSED, write_keys

SECTION = "codec"
KEY = bytes(range(32))
STATE = '{"step":1}'
# Known answers: the key above, the state above, subject alice, until 2030; the nonce is 00 to 0b.
V1 = (
    "v1.eyJzIjoie1wic3RlcFwiOjF9IiwiZXhwIjoxOTAwMDAwMDAwLCJiIjoiOTQ3MWY2YmM3NTM1YTg2NWE2ZTBmOTRkMjI1ZDJlOTg3MTIxNGI2NmY5"
    "MGMyMzNkMDYwYzA3YjNhOGJjMWNhMiJ9.Iu49jAAUVRL9CUTo-WoOXzA6d6o2Ravl-LZYM3lww9o"
)
V1E = (
    "v1e.AAECAwQFBgcICQoLxPMY8OH9SAN9lSTjKd2YCd8-rf5sfKoQsPyDWY06xJBALCDlt9irl_kouqI3_mWbEA24VSOzOsySQjMQob4-DUTzbLM8Ui09"
    "E_NxWRAoljJ9numDvWIUSMIET_42Fv9WJPcdBmVK0vaWXHUT0S7oVgSjBiWMAk4cLWa_DQ"
)


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def derive(part: str) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=bytes(32), info=f"mcp.requestState {part} key".encode()).derive(KEY)


MAC_KEY, AES_KEY = derive("bind-hmac"), derive("aes-256-gcm")


def mac(data: bytes) -> bytes:
    return hmac.new(MAC_KEY, data, hashlib.sha256).digest()


def bind(subject: str) -> str:
    return mac(subject.encode()).hex()


def seal(form: str, subject: str, expires_at: int, state: str = STATE) -> str:
    """What mcp.d's server would give a client."""
    payload = json.dumps({"s": state, "exp": expires_at, "b": bind(subject)}, separators=(",", ":")).encode()
    if form == "v1":
        return f"v1.{b64(payload)}.{b64(mac(payload))}"
    nonce = os.urandom(12)
    return "v1e." + b64(nonce + AESGCM(AES_KEY).encrypt(nonce, payload, bind(subject).encode()))


def unseal(form: str, subject: str, sealed: str) -> str | None:
    """What mcp.d's server would take a client's echo for; None, if it does not hold."""
    parts = sealed.split(".")
    if form == "v1":
        if len(parts) != 3 or parts[0] != "v1" or not hmac.compare_digest(mac(unb64(parts[1])), unb64(parts[2])):
            return None
        payload = json.loads(unb64(parts[1]))
    else:
        if len(parts) != 2 or parts[0] != "v1e":
            return None
        blob = unb64(parts[1])
        try:
            payload = json.loads(AESGCM(AES_KEY).decrypt(blob[:12], blob[12:], bind(subject).encode()))
        except InvalidTag:
            return None
    return payload["s"] if payload["b"] == bind(subject) and payload["exp"] >= time.time() else None


class Inspector:
    """`helve request-state`."""

    def __init__(self, cluster: Cluster, key: Path) -> None:
        self.cluster, self.key = cluster, key

    def run(self, verb: str, form: str, text: str, *more: str) -> tuple[int, dict[str, Any]]:
        command = ["request-state", verb, "--format", form, "--key-file", str(self.key), *more]
        ended = self.cluster.run(*command, stdin=text.encode())
        expect(ended.returncode in (0, 1), f"{command}: {ended.returncode} {ended.stderr.decode()}")
        return ended.returncode, json.loads(ended.stdout) if ended.returncode == 0 else {}

    def seal(self, form: str, *more: str) -> str:
        status, said = self.run("seal", form, STATE, *more)
        equal(status, 0, "a state is sealed")
        return said["request_state"]

    def opens(self, form: str, sealed: str, *more: str) -> str | None:
        status, said = self.run("open", form, sealed, *more)
        return said["state"] if status == 0 else None


ALICE = ("--subject", "alice")


async def vectors(inspector: Inspector) -> None:
    equal(MAC_KEY.hex(), "cc11abd7b47172541a5188d97226b6a9c69aec5d0c59ab52ce213705057b104e", "the key for MACs")
    equal(AES_KEY.hex(), "a74dc0456bb4414d283f2e2402fdd8247cba4eda1da90ce1f4bdb3b1ac052999", "the key for AES")
    for form, vector in (("v1", V1), ("v1e", V1E)):
        equal(inspector.opens(form, vector, *ALICE), STATE, f"the known {form}")
        equal(unseal(form, "alice", vector), STATE, f"the known {form}, by the second implementation")
        equal(inspector.opens(form, vector, "--subject", "bob"), None, f"the known {form} for bob")


async def both_ways(inspector: Inspector) -> None:
    for form in ("v1", "v1e"):
        ours = inspector.seal(form, *ALICE, "--ttl", "5m")
        equal(unseal(form, "alice", ours), STATE, f"our {form}, read by the other")
        equal(unseal(form, "bob", ours), None, f"our {form} for bob, read by the other")
        theirs = seal(form, "alice", int(time.time()) + 300)
        equal(inspector.opens(form, theirs, *ALICE), STATE, f"the other's {form}, read by us")


async def fails_closed(inspector: Inspector) -> str:
    later = int(time.time()) + 300
    refused = 0
    for form, other in (("v1", "v1e"), ("v1e", "v1")):
        good = seal(form, "alice", later)
        prefix, _, rest = good.partition(".")
        middle = len(good) // 2
        bad = {
            "expired": seal(form, "alice", int(time.time()) - 5),
            "another subject's": seal(form, "bob", later),
            "the other mode's": seal(other, "alice", later),
            "another version": "v2." + rest,
            "flipped": good[:middle] + ("A" if good[middle] != "A" else "B") + good[middle + 1 :],
            "appended": good + "-TAMPERED",
            "padded": good + "=",
            "truncated": good[:-2],
            "not base64": f"{prefix}.@@@",
            "empty": "",
            "over-long": good + "A" * 100_000,
        }
        for what, sealed in bad.items():
            equal(inspector.opens(form, sealed, *ALICE), None, f"{form}, {what}")
            refused += 1
        equal(inspector.opens(form, good, *ALICE), STATE, f"{form}, unharmed")
    return f"{refused} states"


async def hardened(inspector: Inspector) -> None:
    bound = (*ALICE, "--tool", "store")
    sealed = inspector.seal("hardened", *bound, "--ttl", "5m")
    expect(STATE not in sealed and b64(STATE.encode())[:8] not in sealed, "a client cannot read it")
    equal(inspector.opens("hardened", sealed, *bound), STATE, "where it was sealed for")
    for what, other in (
        ("bob", ("--subject", "bob", "--tool", "store")), ("another tool", (*ALICE, "--tool", "delete")), ("no tool", ALICE),
    ):
        equal(inspector.opens("hardened", sealed, *other), None, what)
    for what, damaged in (("flipped", sealed[:-1] + ("A" if sealed[-1] != "A" else "B")), ("cut", sealed[:-4]), ("padded", sealed + "=")):
        equal(inspector.opens("hardened", damaged, *bound), None, what)


async def as_the_sdk(ours: Service, theirs: str) -> str:
    """Every client error gets the same answer from both servers: code, message and data."""
    tool, sibling = MRTR + "tampered_state", MRTR + "request_state"
    yes = {"confirm": accept(ok=True)}

    def damages(state: str) -> dict[str, str]:
        return {
            "appended": state + "-TAMPERED", "flipped": state[:-1] + ("A" if state[-1] != "A" else "B"), "cut": state[:-8],
            "plain": '{"asked":"confirm"}', "empty": "", "prefix alone": state.partition(".")[0] + ".", "padded": state + "=",
        }

    compared = 0
    for url in (ours.url, theirs):
        answer = await call_tool(url, tool)
        state = answer.result["requestState"]
        expect("confirm" not in state, f"{url}: a client cannot read the state")
        for what, presented in damages(state).items():
            equal((await call_tool(url, tool, state=presented, responses=yes)).error, REFUSED, f"{what} at {url}")
            compared += 1
        elsewhere = await call_tool(url, sibling, state=state, responses=yes)
        equal(elsewhere.error, REFUSED, f"another tool's state at {url}")
        altered = await call_tool(url, tool, {"more": 1}, state=state, responses=yes)
        equal(altered.error, REFUSED, f"other arguments at {url}")
        equal((await call_tool(url, tool, state=state)).result["resultType"], "input_required", f"no answer at {url}")
        done = await call_tool(url, tool, state=state, responses=yes)
        equal(done.result["content"][0]["text"], "state-ok: true", f"the state itself at {url}")
    return f"{compared // 2 + 4} rules"


async def run(cluster: Cluster, directory: Path, report: Report, fixture: Path) -> None:
    _, key = write_keys(directory)
    inspector = Inspector(cluster, key)
    await report.check(SECTION, "the known answers open", lambda: vectors(inspector))
    await report.check(SECTION, "a second implementation reads ours, and we read its", lambda: both_ways(inspector))
    await report.check(SECTION, "the compat forms fail closed", lambda: fails_closed(inspector))
    await report.check(SECTION, "the hardened form binds subject and tool", lambda: hardened(inspector))
    port = free_port()
    sdk = Process("sdk-peer", [sys.executable, str(Path(__file__).with_name("sdk_server.py")), str(port)], port, directory / "sdk.log")
    environment = {"HELVE_ENDPOINTS": cluster.endpoints, "HELVE_KEY_FILE": str(key)}
    ours = Service("codec", cluster, directory, lambda port: ([str(fixture)], environment | {"PORT": str(port)}))
    with running(ours):
        sdk.start()
        try:
            theirs = f"http://127.0.0.1:{port}/mcp"
            await report.check(SECTION, "the boundary refuses as the SDK's does", lambda: as_the_sdk(ours, theirs))
        finally:
            sdk.kill()
