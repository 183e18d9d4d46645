"""Holders of claims that are killed, and the example, on real nodes."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helve import SHARED, AmbiguousError, Client, digest_of

EXAMPLE = Path(__file__).parents[1] / "examples" / "pay_once.py"
#: A holder that carries its side effect out, says so, and never finishes. Tests wait until its
#: lease ends.
HOLDER = """
import sys, time
from helve import SHARED, Client, digest_of

def effect(lease):
    print(lease.fence, flush=True)
    time.sleep(600)

with Client(sys.argv[1]) as client:
    client.claims(sys.argv[2], owner=SHARED, lease=1).once("k", digest_of(1), effect)
"""


def run(endpoints, provider, *arguments):
    environment = os.environ | {"HELVE_ENDPOINTS": ",".join(endpoints), "PROVIDER": str(provider)}
    return subprocess.run(
        [sys.executable, EXAMPLE, *arguments],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_the_example_pays_once_for_six_processes(endpoints, tmp_path):
    order = f"order-{time.time_ns()}"
    with ThreadPoolExecutor(6) as pool:
        ended = list(pool.map(lambda _: run(endpoints, tmp_path, order, "1250"), range(6)))
    assert [each.returncode for each in ended] == [0] * 6, [each.stderr for each in ended]
    (said,) = {each.stdout for each in ended}
    (payment,) = tmp_path.iterdir()
    assert payment.name in said
    other = run(endpoints, tmp_path, order, "1300")
    assert (other.returncode, other.stdout) == (1, "")
    assert "another request" in other.stderr
    assert "Traceback" not in other.stderr
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("has_recovery", [False, True])
def test_a_killed_holder_is_recovered_from_or_said(endpoints, has_recovery):
    store = f"killed-{time.time_ns()}"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, ",".join(endpoints), store], stdout=subprocess.PIPE
    )
    try:
        fence = int(holder.stdout.readline())
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()

    def never(lease):
        raise AssertionError("the side effect is carried out again")

    with Client(endpoints) as client:
        claims = client.claims(store, owner=SHARED, lease=4)
        if not has_recovery:
            with pytest.raises(AmbiguousError, match="recover"):
                claims.once("k", digest_of(1), never, patience=60)
        else:
            recovered = claims.once(
                "k", digest_of(1), never, recover=lambda lease: lease.fence, patience=60
            )
            assert recovered > fence
            assert claims.once("k", digest_of(1), never) == recovered
