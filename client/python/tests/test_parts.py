"""Names and keys that no node takes are refused before anything is sent."""

import pytest

from helve import SHARED, Client, InvalidError, Watch

#: Nothing listens there: what is sent is UNAVAILABLE.
NOWHERE = "127.0.0.1:9"


def refused(call, reason):
    with pytest.raises(InvalidError) as raised:
        call()
    assert raised.value.reason == reason
    assert not raised.value.maybe_done


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "BAD"),
        ("nul\0", "BAD"),
        ("\ud800", "BAD"),
        (b"bytes", "BAD"),
        (7, "BAD"),
        (None, "BAD"),
        ("\xe4" * 600, "TOO_LARGE"),
    ],
)
def test_ids_and_keys_of_no_node_are_refused_unsent(text, reason):
    with Client(NOWHERE, deadline=0.2) as client:
        store, keys = client.handles("s", owner=SHARED), client.keys(owner=SHARED)
        claims = client.claims("s", owner=SHARED)
        bad_id, bad_key = ("BAD_ID", "BAD_KEY") if reason == "BAD" else (reason, reason)
        for call in (
            lambda: store.put(text, 1),
            lambda: store.get(text),
            lambda: store.take(text),
            lambda: store.renew(text),
            lambda: store.delete(text),
            lambda: client.transaction().put(store, text, 1),
            lambda: client.transaction().take(store, text),
            lambda: claims.claim(text, b"d" * 32),
            lambda: client.watch(Watch.handle("s", text, owner=SHARED)),
        ):
            refused(call, bad_id)
        for call in (
            lambda: keys.put(text, 1),
            lambda: keys.get(text),
            lambda: keys.delete(text),
            lambda: keys.exists(text),
            lambda: keys.put_many({text: 1}),
            lambda: keys.get_many([text]),
            lambda: client.transaction().put_key(keys, text, 1),
            lambda: client.transaction().delete_key(keys, text),
        ):
            refused(call, bad_key)


@pytest.mark.parametrize("name", ["", "Upper", "dot.", "\xfc", "nul\0", "n" * 65, "a\n", 7, None])
def test_stores_and_prefixes_of_no_node_are_refused_unsent(name):
    with Client(NOWHERE, deadline=0.2) as client:
        store = client.handles(name, owner=SHARED)
        refused(lambda: store.mint(1), "BAD_NAME")
        refused(lambda: store.get("h"), "BAD_NAME")
        refused(lambda: store.count(), "BAD_NAME")
        refused(lambda: client.watch(Watch.store(name)), "BAD_NAME")
        if name != "":
            prefixed = client.handles("s", owner=SHARED, id_prefix=name)
            refused(lambda: prefixed.mint(1), "BAD_NAME")


def test_owners_and_key_prefixes_of_no_node_are_refused_unsent():
    with Client(NOWHERE, deadline=0.2) as client:
        refused(lambda: client.keys(owner="\xe4" * 129).get("k"), "TOO_LARGE")
        refused(lambda: client.keys(owner="\ud800").get("k"), "BAD_REQUEST")
        keys = client.keys(owner="\xe4" * 128)
        refused(lambda: keys.list("nul\0"), "BAD_KEY")
        refused(lambda: keys.list("k" * 1025), "TOO_LARGE")
