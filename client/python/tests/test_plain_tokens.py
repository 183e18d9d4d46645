"""A token crosses no network in plain text, unless the caller vouches for that network."""

import os
import threading

import pytest

from helve import Client, HelveError, InvalidError, Tls
from helve._core import files
from helve._core.pool import Pool


def test_a_token_in_plain_text_stays_on_this_machine(tmp_path):
    file = tmp_path / "token"
    file.write_text("hlv_x")
    file.chmod(0o600)
    for given in ({"token": "hlv_x"}, {"token_file": file}):
        for endpoint in ("127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "localhost:1", "http://[::1]:1"):
            Client(endpoint, **given)
        for endpoint in ("helve-1:7400", "10.0.0.1:7400", "http://a:1", "[::]:1", "127.0.0.1.a:1"):
            with pytest.raises(InvalidError, match=r"plain text.*insecure=True") as raised:
                Client(["127.0.0.1:1", endpoint], **given)
            assert raised.value.reason == "BAD_REQUEST"
            assert "hlv_x" not in str(raised.value)
            Client(endpoint, **given, insecure=True)
    # Without a token there is nothing to read.
    Client("helve-1:7400")


def test_the_environment_may_vouch_for_the_network(monkeypatch, tmp_path):
    file = tmp_path / "token"
    file.write_text("hlv_x")
    file.chmod(0o600)
    monkeypatch.setenv("HELVE_ENDPOINTS", "helve-1:7400")
    monkeypatch.setenv("HELVE_TOKEN_FILE", str(file))
    # This one vouches for a listener of `helve serve` or `helve mcp`, and for no client's token.
    monkeypatch.setenv("HELVE_INSECURE", "true")
    for word in ("false", "0"):
        monkeypatch.setenv("HELVE_INSECURE_TOKEN", word)
        with pytest.raises(InvalidError, match="plain text"):
            Client.from_environment()
    for word in ("true", "1"):
        monkeypatch.setenv("HELVE_INSECURE_TOKEN", word)
        Client.from_environment()


@pytest.mark.parametrize("name", ["TOKEN_FILE", "TLS_CA", "ENDPOINTS", "INSECURE_TOKEN"])
def test_a_variable_that_is_set_to_nothing_is_named(monkeypatch, name):
    monkeypatch.setenv(f"HELVE_{name}", "")
    with pytest.raises(InvalidError, match=f"HELVE_{name} is empty: unset it"):
        Client.from_environment()


def test_a_leader_beyond_this_machine_is_no_hint_to_follow():
    pool = Pool(["127.0.0.1:1"], str, is_tls=False, learns=True, guards_token=True)
    pool.answered(pool.nodes[0], "10.0.0.1:7400")
    assert [node.address for node in pool.nodes] == ["127.0.0.1:1"]
    with pytest.raises(HelveError):
        Pool(["10.0.0.1:7400"], str, is_tls=False, learns=True, guards_token=True)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xef\xbb\xbfhlv_x\n", "byte-order mark"),
        (b"hlv_x\nhlv_y\n", "two lines"),
        (b"hlv_x\r# a\rb", "3 lines"),
        (b"-----BEGIN PRIVATE KEY-----\nAA\n", "a PEM file, not a token"),
        (b'{"token": "hlv_x"}\n', "it is JSON"),
        (b'["hlv_x"]', "it is JSON"),
        (b'"hlv_x"\n', "in quotes"),
        (b"Bearer hlv_x\n", "begins with `Bearer`"),
        (b"HELVE_TOKEN=hlv_x\n", "NAME=VALUE"),
        (b"\x80\x01", "not text"),
        (b"", "there is no token"),
    ],
)
def test_what_a_token_file_holds_instead_is_said(tmp_path, content, why):
    file = tmp_path / "token"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(InvalidError, match=why) as raised:
        Client("127.0.0.1:1", token_file=file)
    assert "hlv_x" not in str(raised.value)


def pipe(directory):
    """A pipe in this directory."""
    path = directory / "pipe"
    os.mkfifo(path, 0o600)
    return path


def test_a_pipe_without_a_writer_is_not_waited_for_for_ever(tmp_path):
    with pytest.raises(OSError, match="did not end in time"):
        files.read(pipe(tmp_path), 4, patience=0.001)


def test_a_pipe_with_a_writer_gives_token_and_ca(tmp_path):
    path = pipe(tmp_path)

    def written(content):
        writer = threading.Thread(target=path.write_text, args=(content,))
        writer.start()
        return writer

    writer = written("hlv_x\n")
    client = Client("127.0.0.1:1", token_file=path)
    writer.join()
    # It is not asked for another token.
    other = written("hlv_another")
    client._dial.bearer._looked_at = 0
    client._dial.bearer._changed = None
    assert client._dial.bearer.metadata() == (("authorization", "Bearer hlv_x"),)
    assert path.read_text() == "hlv_another"
    other.join()
    writer = written("-----BEGIN CERTIFICATE-----")
    assert Tls(path).ca == b"-----BEGIN CERTIFICATE-----"
    writer.join()


def test_pem_without_line_ends_is_refused_with_what_to_do():
    pem = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    assert Tls(pem).ca == pem
    for between, why in [(rb"\n", "are written as"), (b" ", "are missing")]:
        with pytest.raises(InvalidError, match=f"the CA: its line ends {why}"):
            Tls(pem.replace(b"\n", between))


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
def test_what_is_no_file_is_refused(path):
    with pytest.raises(InvalidError, match="a device, a directory or a socket: name a file"):
        Tls(path)
    with pytest.raises(InvalidError, match="a device, a directory or a socket: name a file"):
        Client("127.0.0.1:1", token_file=path)
