"""Calls of a unary client in another language (grpcio): many with short deadlines beside a few patient ones, all on one connection.

Usage: short_deadlines.py HOST:PORT. Says `ready` after a first call, waits for a line, makes the calls, and says `given up` when so
many have reached their deadlines. Then it waits for the patient ones, and says how they ended, and how one after them does.
"""

import sys
import threading

import grpc

CALLERS = 50
GIVEN_UP = 1_000
SHORT_S = 0.02
PATIENT_S = 120

# A CountRequest of the store "cart": field 1, a string.
COUNT = b"\x0a\x04cart"


def main() -> None:
    channel = grpc.insecure_channel(sys.argv[1])
    count = channel.unary_unary("/helve.v1.HandleService/Count")
    count(COUNT, timeout=PATIENT_S, wait_for_ready=True)
    print("ready", flush=True)
    sys.stdin.readline()

    patient = [count.future(COUNT, timeout=PATIENT_S) for _ in range(8)]
    room = threading.Semaphore(GIVEN_UP)
    unexpected = []

    def give_up() -> None:
        while room.acquire(blocking=False):
            try:
                count(COUNT, timeout=SHORT_S)
                unexpected.append("OK")
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.DEADLINE_EXCEEDED:
                    unexpected.append(error.code().name)

    callers = [threading.Thread(target=give_up) for _ in range(CALLERS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    print(f"given up, but for {unexpected}", flush=True)

    def ended(call: grpc.Future) -> str:
        error = call.exception()
        return "OK" if error is None else f"{error.code().name}: {error.details()}"

    print("patient:", sorted({ended(call) for call in patient}), flush=True)
    print("after:", ended(count.future(COUNT, timeout=PATIENT_S)), flush=True)


main()
