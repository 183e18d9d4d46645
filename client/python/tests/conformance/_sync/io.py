"""What the cases wait with, for threads."""

import time
from concurrent.futures import ThreadPoolExecutor

_pool = ThreadPoolExecutor(64)


def sleep(seconds):
    time.sleep(seconds)


def together(calls):
    """Makes all calls at once. Each is a function."""
    begun = [_pool.submit(call) for call in calls]
    return [each.result() for each in begun]


def begin(call):
    """Makes a call beside what follows."""
    return _pool.submit(call)


def ended(begun):
    """What a call answered that was begun."""
    return begun.result()


def give_way():
    time.sleep(0)


def run(case, setup):
    try:
        case(setup)
    finally:
        setup.close()
