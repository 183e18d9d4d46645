"""The cases of the Rust suite (`client/conformance`), by both clients, on three nodes.

Left out are those of what this client does not have: versions, event logs and prefixes of the
state tool, and state that MCP clients carry.
"""

import importlib
import inspect

import pytest

MODULES = [
    "mcpkit",
    "lifetimes",
    "handles",
    "claims",
    "transact",
    "replay",
    "keys",
    "bad_input",
    "values",
    "state_tool",
]
#: What the cases are made of, and is none.
PARTS = {"opened", "clock_ms"}


def cases(module):
    """The functions that take a setup alone."""
    found = importlib.import_module(f"conformance._async.{module}")
    return [
        name
        for name, function in inspect.getmembers(found, inspect.iscoroutinefunction)
        if list(inspect.signature(function).parameters) == ["setup"] and name not in PARTS
    ]


def runs():
    """Each case by both clients; where identities matter, under both of them."""
    for module in MODULES:
        for case in cases(module):
            yield "_async", "session", module, case
            yield "_sync", "session", module, case
            if module in ("mcpkit", "replay"):
                yield "_async", "request-id", module, case


@pytest.mark.parametrize(("flavour", "identities", "module", "case"), list(runs()))
def test_case(endpoints, flavour, identities, module, case):
    cases = importlib.import_module(f"conformance.{flavour}.{module}")
    setup = importlib.import_module(f"conformance.{flavour}.setup")
    io = importlib.import_module(f"conformance.{flavour}.io")
    # A case that says nothing of a deadline must not fail on a busy machine.
    options = {"identities": identities, "deadline": setup.PATIENCE}
    io.run(getattr(cases, case), setup.Setup(endpoints, **options))
