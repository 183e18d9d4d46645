"""A token crosses no network in plain text, unless the caller vouches for that network."""

import pytest

from helve import Client, HelveError, InvalidError
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
    for word in ("", "false", "0"):
        monkeypatch.setenv("HELVE_INSECURE_TOKEN", word)
        with pytest.raises(InvalidError, match="plain text"):
            Client.from_environment()
    for word in ("true", "1"):
        monkeypatch.setenv("HELVE_INSECURE_TOKEN", word)
        Client.from_environment()


def test_a_leader_beyond_this_machine_is_no_hint_to_follow():
    pool = Pool(["127.0.0.1:1"], str, is_tls=False, learns=True, guards_token=True)
    pool.answered(pool.nodes[0], "10.0.0.1:7400")
    assert [node.address for node in pool.nodes] == ["127.0.0.1:1"]
    with pytest.raises(HelveError):
        Pool(["10.0.0.1:7400"], str, is_tls=False, learns=True, guards_token=True)
