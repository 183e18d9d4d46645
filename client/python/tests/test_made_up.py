"""Bytes that others stored or a node sent, made up from seeds: read exactly, or refused."""

import json
import os
import random
from types import SimpleNamespace

import grpc

from helve import CodecError
from helve._core import exact
from helve._core.verdict import DETAILS, DOMAIN, of_status
from helve._wire import messages as wire

CASES = int(os.environ.get("HELVE_CASES", "10000"))
PIECES = [
    *'{}[],:"\\ -\n',
    *('"a"', '"\\u0061"', '"\\ud800"', "0", "-0", "1.5", "1e400", "4e-400", "null", "true", "nul"),
    *("9007199254740993", "18446744073709551616", "1e16", "NaN", "-Infinity", "\u00e9", "\0"),
]
SCALARS = ['"a"', '"\\n\\u00e9"', "null", "true", "0", "-1", "1.5", "1e3", "9007199254740993"]


def document(seeded, depth=0):
    """A text of JSON, though not always one that comes back as it is."""
    kind = 0 if depth > 3 else seeded.randrange(4)
    several = range(seeded.randrange(4))
    if kind == 1:
        return f"[{','.join(document(seeded, depth + 1) for _ in several)}]"
    if kind == 2:
        names = ['"a"', '"b"', '"\\u0061"']
        members = (f"{seeded.choice(names)}:{document(seeded, depth + 1)}" for _ in several)
        return f"{{{','.join(members)}}}"
    return seeded.choice([*SCALARS, "1e400", '"\\ud800"'])


def made(seeded):
    kind, length = seeded.randrange(3), seeded.randrange(12)
    if kind == 0:
        return document(seeded).encode()
    if kind == 1:
        return seeded.randbytes(length)
    return "".join(seeded.choices(PIECES, k=length)).encode()


def test_values_that_a_client_makes_up_are_read_exactly_or_refused():
    seeded, held = random.Random(7), 0
    for _ in range(CASES):
        data = made(seeded)
        try:
            value = exact.decode(data)
        except CodecError:
            continue
        held += 1
        assert value == json.loads(data), data
        assert exact.decode(exact.encode(value)) == value, data
    assert held > CASES / 10


def test_details_that_a_node_makes_up_leave_a_verdict():
    seeded = random.Random(8)
    info = wire.ErrorInfo(reason="CONFLICT", domain=DOMAIN, metadata={"revision": "7"})
    status = wire.Status(code=10, message="m")
    status.details.add(
        type_url="type.googleapis.com/google.rpc.ErrorInfo", value=info.SerializeToString()
    )
    real = status.SerializeToString()
    for _ in range(CASES):
        details = bytearray(real)
        details[seeded.randrange(len(details))] = seeded.randrange(256)
        cut = bytes(details[: seeded.randrange(len(details) + 1)])
        sent = seeded.choice([bytes(details), cut, seeded.randbytes(12)])
        error = SimpleNamespace(
            code=lambda: grpc.StatusCode.ABORTED,
            details=lambda: "m",
            trailing_metadata=lambda sent=sent: ((DETAILS, sent),),
        )
        assert of_status("a:1", error).error is not None, sent
