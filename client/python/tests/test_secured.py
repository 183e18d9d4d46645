"""A node with TLS and tokens: who is let in, and what is said to those who are not."""

import asyncio
import subprocess
import time

import pytest
from processes import Process, free_port, until

from helve import SHARED, AsyncClient, Client, DeniedError, InvalidError, Tls, UnavailableError


@pytest.fixture(scope="module")
def secured(helve, tmp_path_factory):
    """One node with secrets of its own: its address, and the directory of its callers' files."""
    directory = tmp_path_factory.mktemp("secured")
    secrets = directory / "secrets"

    def run(*arguments):
        ended = subprocess.run([helve, *arguments], capture_output=True, text=True, timeout=60)
        return (ended.returncode == 0 and ended.stdout + ended.stderr) or None

    assert run("init", "--dir", secrets, "--token", "shop")
    port, peer = free_port(), free_port()
    certificate, key = secrets / "node-1.crt", secrets / "node-1.key"
    command = [
        str(helve), "serve", "--id", "1", "--data-dir", str(directory / "node"),
        "--listen", f"127.0.0.1:{port}", "--tls-cert", str(certificate), "--tls-key", str(key),
        "--peer-listen", f"127.0.0.1:{peer}", "--http-listen", f"127.0.0.1:{free_port()}",
        "--peers", f"1=127.0.0.1:{peer}", "--peer-tls-cert", str(certificate),
        "--peer-tls-key", str(key), "--peer-tls-ca", str(secrets / "ca.crt"),
        "--auth", "tokens", "--operator-token-file", str(secrets / "operator.token"),
        "--data-key-file", str(secrets / "data.key"),
    ]  # fmt: skip
    node = Process("secured", command, port, directory / "node.log")
    node.start()
    try:
        grant = [
            "token", "create", "--tenant", "default", "--role", "writer", "--name", "shop",
            "--text-file", secrets / "shop.token", "--tls-ca", secrets / "ca.crt",
            "--token-file", secrets / "operator.token", "--endpoints", f"127.0.0.1:{port}",
        ]  # fmt: skip
        until("the token to be let in", lambda: run(*grant))
        yield f"127.0.0.1:{port}", secrets
    finally:
        node.kill()


def store(client):
    return client.handles("s", owner=SHARED)


def test_a_token_of_a_file_is_let_in_over_tls(secured):
    address, secrets = secured
    options = {"tls": Tls(secrets / "ca.crt"), "token_file": secrets / "shop.token"}
    with Client(f"https://{address}", **options) as client:
        handle = store(client).mint({"a": 1})
        assert store(client).get(handle) == {"a": 1}

    async def run():
        async with AsyncClient(address, **options) as client:
            assert await store(client).get(handle) == {"a": 1}

    asyncio.run(run())


def test_without_a_token_nothing_is_done(secured):
    address, secrets = secured
    for token in (None, "hlv_" + "A" * 43):
        with Client(address, tls=Tls(secrets / "ca.crt"), token=token) as client:
            with pytest.raises(DeniedError) as raised:
                store(client).mint(1)
            assert raised.value.reason == "UNAUTHENTICATED"
            assert not raised.value.maybe_done


def test_another_ca_and_plain_text_are_unavailable_and_say_why(secured, helve, tmp_path):
    address, secrets = secured
    subprocess.run([helve, "init", "--dir", tmp_path / "other"], check=True, capture_output=True)
    token = (secrets / "shop.token").read_text().strip()
    began = time.monotonic()
    tls = Tls(tmp_path / "other" / "ca.crt")
    with Client(address, tls=tls, token=token, deadline=60.0) as client:
        with pytest.raises(UnavailableError, match="CERTIFICATE_VERIFY_FAILED") as raised:
            store(client).mint(1)
        assert raised.value.is_unconnected
        assert not raised.value.maybe_done
    assert time.monotonic() - began < 30, "it is not tried until the deadline"
    with Client(address, token=token, deadline=1.0) as client, pytest.raises(UnavailableError):
        store(client).get("h")


def test_what_cannot_be_used_is_refused_before_any_connection(secured, tmp_path):
    _, secrets = secured
    for ca in (b"", b"no PEM", tmp_path / "missing"):
        with pytest.raises(InvalidError):
            Tls(ca)
    with pytest.raises(InvalidError, match="both"):
        Tls(secrets / "ca.crt", certificate=secrets / "node-1.crt")
    for token in ("", "two words", "a\nb"):
        with pytest.raises(InvalidError):
            Client("127.0.0.1:1", token=token)
    for path, text, mode in (
        ("empty", "", 0o600),
        ("open", "hlv_x", 0o644),
        ("long", "x" * 5000, 0o600),
    ):
        file = tmp_path / path
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(InvalidError):
            Client("127.0.0.1:1", token_file=file)
    key = tmp_path / "open.key"
    key.write_text("-----BEGIN PRIVATE KEY-----")
    key.chmod(0o644)
    with pytest.raises(InvalidError, match=rf"\(mode 644\): chmod 600 {key}"):
        Tls(secrets / "ca.crt", certificate=secrets / "node-1.crt", key=key)
    key.chmod(0o640)
    Tls(secrets / "ca.crt", certificate=secrets / "node-1.crt", key=key)
    assert "hlv_secret" not in repr(Client("127.0.0.1:1", token="hlv_secret"))
