"""Request states of the official SDK, sealed under rings of keys on three nodes."""

import base64
import contextlib
import dataclasses
import functools
import json
import os
import secrets

import pytest

pytest.importorskip("mcp")

from processes import until

from helve import Client, InvalidError, UnavailableError
from helve._core import files, key_ring


@pytest.fixture
def ring(cluster, endpoints, tmp_path):
    """A ring of keys: its name, its key file, and `helve key` on it."""
    name, path = f"ring-{secrets.token_hex(4)}", tmp_path / "operator-key"
    path.touch(0o600)
    path.write_text(secrets.token_hex(32))

    def key(*arguments):
        flags = ("--ring", name, "--key-file", str(path), "--endpoints", cluster.endpoints)
        ended = cluster.run("key", *arguments, *flags, "--output", "json")
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    return name, path, key


@contextlib.contextmanager
def codecs(endpoints, ring):
    """Those of two replicas."""
    module = pytest.importorskip("helve.mcp_request_state", exc_type=ImportError)
    name, path, _ = ring
    with Client(endpoints) as one, Client(endpoints[::-1]) as other:
        made = [module.RequestStateCodec(each, name, key_file=path) for each in (one, other)]
        try:
            yield made
        finally:
            for each in made:
                each.close()


def test_a_state_opens_at_any_replica_and_is_sealed_whole(endpoints, ring):
    state = pytest.importorskip("mcp.server.request_state")
    ring[2]("add")
    with codecs(endpoints, ring) as (one, other):
        token = one.seal(b"payload")
        assert other.unseal(token) == b"payload"
        assert other.unseal(one.seal(b"")) == b""
        assert one.seal(b"payload") != token
        odd = ["", "p1.", "p1", "v1.AAAA", token + "A", token[:-1], token.upper(), f"{token}\n"]
        odd += ["p1." + "A" * 200_000, "p1.é"]
        odd += [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
                for at in range(len(token))]  # fmt: skip
        for each in odd:
            with pytest.raises(state.InvalidRequestState):
                other.unseal(each)


def test_a_rotation_refuses_no_state_of_a_replica(endpoints, ring):
    state = pytest.importorskip("mcp.server.request_state")
    key = ring[2]
    key("add")
    with codecs(endpoints, ring) as (one, other):
        old = one.seal(b"old")
        key("add")
        ids = [each["id"] for each in json.loads(key("list"))["keys"]]
        until("both to hold both keys", lambda: all(len(c._ring.keys) == 2 for c in (one, other)))
        assert {each.hex() for each in one._ring.keys} == set(ids)
        assert one.seal(b"")[:12] == old[:12], "a verifying key does not seal"
        key("activate", ids[1], "--force")
        until("one to seal under the new key", lambda: one._ring.active.id.hex() == ids[1])
        for codec in (one, other):
            assert codec.unseal(old) == b"old"
            assert codec.unseal(one.seal(b"new")) == b"new"
        key("remove", ids[0], "--force")
        until("one to forget the old key", lambda: len(one._ring.keys) == 1)
        with pytest.raises(state.InvalidRequestState, match="unknown key"):
            one.unseal(old)


def test_a_ring_that_is_older_or_was_not_read_is_not_used(endpoints, ring, monkeypatch):
    state = pytest.importorskip("mcp.server.request_state")
    ring[2]("add")
    with codecs(endpoints, ring) as (codec, _):
        held = codec._ring
        older = dataclasses.replace(held, generation=held.generation - 1)
        monkeypatch.setattr(codec, "_read", lambda: older)
        with pytest.raises(InvalidError, match="went back"):
            codec._replace()
        assert codec._ring is held
        token = codec.seal(b"payload")
        codec._read_at -= 300
        with pytest.raises(UnavailableError, match="too long"):
            codec.seal(b"payload")
        with pytest.raises(state.InvalidRequestState, match="too long"):
            codec.unseal(token)


def test_a_ring_that_is_not_there_or_not_ours_is_said(endpoints, ring, tmp_path):
    module = pytest.importorskip("helve.mcp_request_state", exc_type=ImportError)
    name, path, key = ring
    with Client(endpoints) as client:
        with pytest.raises(InvalidError, match="has no key"):
            module.RequestStateCodec(client, name, key_file=path)
        key("add")
        with pytest.raises(InvalidError, match="does not open"):
            module.RequestStateCodec(client, name, operator_key=bytes(range(32)))
        for arguments in ({}, {"key_file": path, "operator_key": bytes(32)}):
            with pytest.raises(InvalidError, match="one of"):
                module.RequestStateCodec(client, name, **arguments)
        with pytest.raises(InvalidError, match="no name"):
            module.RequestStateCodec(client, "No Name", key_file=path)


def test_a_key_file_is_read_as_the_nodes_read_it(tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "key"
    path.touch(0o600)
    secret = bytes(range(32))
    line = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    for content in (secret.hex(), secret.hex().upper(), f" {line}=\r\n", line, secret):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert key_ring.read_operator_key(path) == secret
    der = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="
    texts = [f'"{line}="', f"0x{secret.hex()}", secret.hex()[:60], f"{secret.hex()}0", der]
    texts += [f"{line}==", f"{secret.hex()} {secret.hex()}", "a passphrase of 32 bytes, no more"]
    for content in [*map(str.encode, texts), bytes(32), secret + b"\n", secret[:31], bytes(5000)]:
        path.write_bytes(content)
        with pytest.raises(InvalidError, match="holds no key"):
            key_ring.read_operator_key(path)
    path.write_bytes(secret)
    path.chmod(0o604)
    with pytest.raises(InvalidError, match="chmod 600"):
        key_ring.read_operator_key(path)


#: The base point of P-256, as a Web Push key is sent: published, and in the form of 65 bytes.
POINT = bytes.fromhex(
    "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"
    "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
)
DER = base64.b64decode("MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")
SSH = b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + DER[-32:]
JWKS = b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "axfR8uEsQkf4vOblY6RA8ncDfYE"}]}'


@pytest.mark.parametrize(
    "content",
    [
        DER.hex(),
        base64.b64encode(DER.hex().encode()),
        base64.b64encode(SSH),
        SSH.hex(),
        b"ssh-ed25519 " + base64.b64encode(SSH),
        base64.b64encode(b"-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(DER)),
        base64.b64encode(JWKS),
        base64.urlsafe_b64encode(base64.b64encode(JWKS)),
        base64.b64encode(b"<!doctype html><title>Log in to the shop</title>"),
        base64.b64encode(b"HTTP/1.1 404 Not Found\r\n\r\nthere is no such page"),
        base64.b64encode(b"hlv_" + b"A" * 43),
        "0" * 64,
        base64.b64encode(bytes(32)),
        base64.b64encode(b"abc" * 16),
        bytes(range(32)).hex().encode("utf-16-le"),
        bytes(range(32)).hex().encode("utf-16-be"),
        POINT,
        POINT.hex(),
        base64.b64encode(POINT),
        base64.urlsafe_b64encode(POINT).rstrip(b"="),
        b'"' + base64.b64encode(POINT) + b'"',
        (b"\x04" + bytes(range(96))).hex(),
        (b"\x04" + bytes(range(132))).hex(),
        b"-_+/" + base64.b64encode(bytes(range(33))),
        bytes(range(32)).hex() + " " * 4096,
    ],
)
def test_what_others_know_or_guess_is_no_key(tmp_path, content):
    pytest.importorskip("cryptography")
    path = tmp_path / "key"
    path.touch(0o600)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidError, match="holds no key"):
        key_ring.read_operator_key(path)


def test_a_key_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    pytest.importorskip("cryptography")
    path = tmp_path / "pipe"
    os.mkfifo(path, 0o600)
    monkeypatch.setattr(key_ring, "read", functools.partial(files.read, patience=0.001))
    with pytest.raises(InvalidError, match="writer did not end in time"):
        key_ring.read_operator_key(path)
    with pytest.raises(InvalidError, match="name a file"):
        key_ring.read_operator_key("/dev/zero")
