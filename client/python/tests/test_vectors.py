"""The test vectors of "writing a client": every client that follows that page passes them."""

import json
import random
import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from scripted import refusal

from helve import Client, CodecError, HelveError, InvalidError, Ttl, digest_of
from helve._core import exact
from helve._core.identity import Session, uuid7
from helve._core.ordered import ordered
from helve._core.pool import Pool
from helve._core.tries import Pace, Tries
from helve._core.verdict import no_reply, of_status
from helve._wire import messages as wire
from helve.ttl import Defaults

VECTORS = Path(__file__).parents[3] / "docs" / "clients" / "vectors"

FAULTS = {
    "silence": (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
    "broken": (grpc.StatusCode.UNAVAILABLE, "recvmsg:Connection reset by peer"),
    "unconnected": (
        grpc.StatusCode.UNAVAILABLE,
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to "
        "connect to remote host: connect: Connection refused (111)",
    ),
    "mistrusted": (
        grpc.StatusCode.UNAVAILABLE,
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Ssl handshake "
        "failed (TSI_PROTOCOL_FAILURE): SSL_ERROR_SSL: CERTIFICATE_VERIFY_FAILED",
    ),
}


def vectors(name, part):
    return json.loads((VECTORS / f"{name}.json").read_text())[part]


def status(answer):
    """What grpcio raises for an answer."""
    code, details, trailers = grpc.StatusCode.FAILED_PRECONDITION, "scripted", ()
    if "reason" in answer:
        pause = answer.get("retry_info_ms", 0) / 1000
        trailers = refusal(answer["reason"], answer.get("metadata"), pause)
        code = grpc.StatusCode[answer.get("code", "FAILED_PRECONDITION")]
        details = answer.get("message", details)
    elif "fault" in answer:
        code, details = FAULTS[answer["fault"]]
    elif "http" in answer:
        code, details = (
            grpc.StatusCode.UNKNOWN,
            f"Received http2 header with status: {answer['http']}",
        )
    else:
        code, details = grpc.StatusCode[answer["code"]], answer.get("message", "")
    if "retry_after_s" in answer:
        trailers = (("retry-after", str(answer["retry_after_s"])),)
    trailers += tuple(answer.get("headers", {}).items())
    return SimpleNamespace(
        code=lambda: code, details=lambda: details, trailing_metadata=lambda: trailers
    )


@pytest.mark.parametrize("case", vectors("identities", "request_ids"))
def test_request_id(case):
    made = uuid7(case["time_ms"], bytes.fromhex(case["random"]))
    assert made.hex() == case["id"]


@pytest.mark.parametrize("case", vectors("identities", "sessions"))
def test_session_numbers(case):
    session = Session(bytes(16), case["window"])
    numbers, under_way = [], []
    for step in case["steps"]:
        if step == "b":
            numbers.append(session.begin())
            under_way += [number for number in numbers[-1:] if number is not None]
        else:
            session.release(int(step[1:]))
            under_way.remove(int(step[1:]))
    assert numbers == case["numbers"]
    sends = []
    for number in under_way:
        identity = wire.CallIdentity()
        session.stamp(identity, number)
        sends.append([identity.session.seq, identity.session.first_incomplete])
    assert sends == case["sends"]


def is_hidden(answer):
    """Whether grpcio does not show what tells: it drops HTTP's status beside one of gRPC."""
    return "http" in answer and "code" in answer


VERDICTS = [case for case in vectors("verdicts", "cases") if not is_hidden(case["answer"])]


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: str(case["answer"]))
def test_verdict(case):
    if case["answer"].get("code") == "OK":
        verdict = no_reply("a:1")
    else:
        verdict = of_status("a:1", status(case["answer"]), has_values=case.get("has_values", False))
    found = (verdict.effect.name.lower(), verdict.error.kind.value, verdict.health.name.lower())
    assert found == (case["effect"], case["kind"], case["health"])
    assert round(verdict.pause * 1000) == case.get("pause_ms", 0)
    if "revision" in case:
        assert verdict.error.revision == case["revision"]
        assert verdict.error.operation == case["operation"]


def test_a_pause_may_be_asked_for_until_a_date():
    for code, details in (
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "too many requests"),
        (grpc.StatusCode.UNAVAILABLE, "Received http2 header with status: 503"),
    ):

        def pause(text, code=code, details=details):
            error = SimpleNamespace(
                code=lambda: code,
                details=lambda: details,
                trailing_metadata=lambda: (("retry-after", text),),
            )
            return of_status("a:1", error).pause

        century = 100 * 365 * 24 * 3600
        assert pause("Fri, 31 Dec 9999 23:59:59 GMT") > century
        for over in (
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "1.5",
            "soon",
        ):
            assert pause(over) == 0, over


@pytest.mark.parametrize("case", vectors("tries", "cases"), ids=lambda case: str(case["answers"]))
def test_tries(case):
    pool = Pool([f"n{at}:1" for at in range(case["nodes"])], str, is_tls=False, learns=False)
    clock = SimpleNamespace(now=0.0)
    pace = Pace(tries_max=case.get("tries_max"))
    tries = Tries(pool, 20.0, pace, is_lasting=case["lasting"], clock=lambda: clock.now)
    on, ends = [], None
    for answer in case["answers"]:
        tries.timeout()
        on.append(tries.node.index)
        if answer == "ok":
            ends = "ok"
            break
        try:
            tries.failed(of_status(tries.node.address, status(answer)))
        except HelveError as error:
            ends = error.kind.value
            break
    if ends is None:
        clock.now = 20.0
        with pytest.raises(HelveError) as raised:
            tries.timeout()
        ends = raised.value.kind.value
    assert (on, ends) == (case["on"], case["ends"])


@pytest.mark.parametrize(
    ("is_lasting", "left", "is_tried_again"),
    [(True, 0.01, False), (True, 0.04, True), (False, 0.01, True)],
)
def test_write_that_was_refused_is_not_sent_too_late_for_an_answer(
    is_lasting, left, is_tried_again
):
    pool = Pool(["a:1"], str, is_tls=False, learns=False)
    tries = Tries(pool, 1 + left, Pace(), is_lasting=is_lasting, clock=lambda: 0.0)
    refused = of_status("a:1", status({"http": 503, "retry_after_s": 1}))
    tries.timeout()
    if is_tried_again:
        assert tries.failed(refused) == 1
    else:
        with pytest.raises(HelveError) as raised:
            tries.failed(refused)
        assert raised.value.kind.value == "Unavailable"


@pytest.mark.parametrize("text", vectors("values", "kept"))
def test_value_is_kept(text):
    value = exact.decode(text.encode())
    assert repr(exact.decode(exact.encode(value))) == repr(value)


@pytest.mark.parametrize("text", vectors("values", "read"))
def test_value_of_a_former_version_is_read(text):
    assert repr(exact.decode(text.encode())) == text
    with pytest.raises(CodecError, match="64 bits: write it as a string"):
        exact.encode(exact.decode(text.encode()))


@pytest.mark.parametrize("text", vectors("values", "refused"))
def test_value_is_refused(text):
    with pytest.raises(CodecError):
        exact.encode(exact.decode(text.encode()))


@pytest.mark.parametrize("case", vectors("digests", "digests"), ids=lambda case: case["value"])
def test_digest(case):
    value = exact.decode(case["value"].encode())
    assert ordered(value) == case["text"]
    assert digest_of(value).hex() == case["sha256"]


@pytest.mark.parametrize("text", vectors("digests", "refused"))
def test_value_has_no_digest(text):
    with pytest.raises(CodecError):
        digest_of(json.loads(text))


@pytest.mark.parametrize("case", vectors("lifetimes", "cases"))
def test_lifetime(case):
    def span(ns):
        return None if ns is None else ns / 1e9

    defaults = Defaults(span(case.get("default_ttl_ns")), span(case.get("idle_ttl_ns")))
    ttl = Ttl[case["ttl"].upper()] if "ttl" in case else span(case["ttl_ns"])
    if "refused" in case:
        with pytest.raises(InvalidError) as raised:
            defaults.lifetime(ttl)
        assert raised.value.reason == case["refused"]
        return
    assert defaults.lifetime(ttl) == wire.Lifetime(**case["sent"])
    if "ttl_ns" in case and case["ttl_ns"] % 1000 == 0:
        exactly = timedelta(microseconds=case["ttl_ns"] // 1000)
        assert defaults.lifetime(exactly) == wire.Lifetime(**case["sent"])


@pytest.mark.parametrize("case", vectors("addresses", "taken"))
def test_address_is_taken(case):
    pool = Pool([case["endpoint"]], str, is_tls=False, learns=False)
    assert pool.nodes[0].address == case["address"]


@pytest.mark.parametrize("case", vectors("addresses", "refused"))
def test_address_is_refused_with_the_remedy(case):
    with pytest.raises(InvalidError, match=re.escape(case["remedy"])) as raised:
        Pool([case["endpoint"]], str, is_tls=False, learns=False)
    assert raised.value.reason == "BAD_REQUEST"


@pytest.mark.parametrize(
    "endpoint",
    [
        "a:" + "1" * 5_000,
        "[fe80::1%eth0]:1",
        "[::1%a b]:1",
        *("x" * 100_000 + end for end in ("", ":1", "://a:1", "@a")),
        "[" + "x" * 100_000,
        "::1%" + "x" * 100_000,
        "user:password@a:1",
        "user:password@x://b:1",
        "https://password@a@b:1/",
    ],
    ids=lambda endpoint: endpoint[:30],
)
def test_address_of_a_stranger_is_refused_with_a_bounded_part_and_no_password(endpoint):
    with pytest.raises(InvalidError) as raised:
        Pool([endpoint], str, is_tls=False, learns=False)
    assert raised.value.reason == "BAD_REQUEST"
    assert len(str(raised.value)) < 300
    assert "password" not in str(raised.value)


@pytest.mark.parametrize(
    "endpoints", ["http://u:s3cret,x@h:1", "http://u:7400,s3cret@h:1", "a:1,u:s3cret,x@h:1,b:2"]
)
def test_comma_in_a_password_parts_no_endpoints_of_which_one_is_repeated(endpoints):
    for given in (endpoints, endpoints.split(",")):
        with pytest.raises(InvalidError, match="no user name") as raised:
            Client(given)
        assert "s3cret" not in str(raised.value)
        assert "u:" not in str(raised.value)


@pytest.mark.parametrize("endpoint", vectors("addresses", "loopback"))
def test_a_token_may_go_to_this_machine_in_plain_text(endpoint):
    Pool([endpoint], str, is_tls=False, learns=False, guards_token=True)


@pytest.mark.parametrize("endpoint", vectors("addresses", "beyond"))
def test_no_token_goes_beyond_this_machine_in_plain_text(endpoint):
    Pool([endpoint], str, is_tls=False, learns=False)
    with pytest.raises(InvalidError, match="in plain text") as raised:
        Pool([endpoint], str, is_tls=False, learns=False, guards_token=True)
    assert raised.value.reason == "BAD_REQUEST"


def test_whatever_answer_is_made_up_there_is_a_verdict():
    """Details that are cut, flipped or random, numbers of any size, texts of any kind."""
    draw = random.Random(1)
    codes = list(grpc.StatusCode)
    whole = dict(refusal("CONFLICT", {"revision": "7"}, 1.5))["grpc-status-details-bin"]
    for _ in range(10_000):
        encoded = bytearray(whole)
        for _ in range(draw.randrange(4)):
            encoded[draw.randrange(len(encoded))] = draw.randrange(256)
        kind = draw.randrange(4)
        if kind == 0:
            encoded = encoded[: draw.randrange(len(encoded))]
        elif kind == 1:
            encoded = bytearray(draw.randbytes(draw.randrange(40)))
        digits = "9" * draw.choice((1, 20, 21, 5000))
        metadata = dict.fromkeys(("revision", "operation", "retry_after_ms"), digits)
        reason = draw.choice(("CONFLICT", "OVERLOADED", "A_NEW_REASON", "", "\0"))
        trailers = draw.choice(
            (
                (("grpc-status-details-bin", bytes(encoded)),),
                refusal(reason, metadata, draw.random() * 10),
                (("retry-after", digits),),
            )
        )
        code = draw.choice(codes)
        details = draw.choice(("", "x" * 5000, "Received http2 header with status: 999", None))
        error = SimpleNamespace(
            code=lambda code=code: code,
            details=lambda details=details: details,
            trailing_metadata=lambda trailers=trailers: trailers,
        )
        verdict = of_status("a:1", error)
        assert verdict.pause >= 0
        assert isinstance(verdict.error, HelveError)
