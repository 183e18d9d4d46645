"""Runs a case in all four variants at once: two clients, and two kinds of identities.

Cases on scripted nodes mostly wait for pauses and deadlines.
"""

import asyncio
import importlib
import inspect
import itertools
from concurrent.futures import ThreadPoolExecutor

VARIANTS = list(itertools.product(("_async", "_sync"), ("session", "request-id")))


def run(module, name, options=None):
    """Runs a case of a module of `conformance`. `options(variant)` returns more options for it."""
    calls = []
    for flavour, identities in VARIANTS:
        case = getattr(importlib.import_module(f"conformance.{flavour}.{module}"), name)
        given = options(f"{flavour}-{identities}") if options else {}
        calls.append((case, {"identities": identities, **given}))
    for variant, error in zip(VARIANTS, asyncio.run(_errors(calls)), strict=True):
        if error is not None:
            raise AssertionError(f"{name}: {variant}") from error


async def _errors(calls):
    """Returns the error of each call, or None."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(len(calls)) as pool:

        def begun(case, options):
            # gRPC is made for one event loop in a process, so the asyncio variants share one.
            if inspect.iscoroutinefunction(case):
                return case(options)
            return loop.run_in_executor(pool, case, options)

        calls = [begun(*call) for call in calls]
        return await asyncio.gather(*calls, return_exceptions=True)
