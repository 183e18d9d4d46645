"""The examples of the README run as they are."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
#: Of each example, what it prints.
PRINTS = [
    "order: ['tea']",
    "jobs/1",
    "ordered ['tea']",
    "it was paid before",
    "put flags/beta",
    "",
    "session",
]


def test_there_are_as_many_as_are_run():
    assert len(EXAMPLES) == len(PRINTS)


def named(number):
    return "fastmcp" if "fastmcp" in EXAMPLES[number] else f"{number}"


@pytest.mark.parametrize("number", range(len(PRINTS)), ids=named)
def test_example(endpoints, number, tmp_path):
    text = EXAMPLES[number]
    if "fastmcp" in text and importlib.util.find_spec("fastmcp") is None:
        pytest.skip("FastMCP is not installed here")
    for port, endpoint in zip((7400, 7410, 7420), endpoints, strict=True):
        text = text.replace(f"127.0.0.1:{port}", endpoint)
    script = tmp_path / "example.py"
    script.write_text(text)
    environment = os.environ | {"HELVE_ENDPOINTS": ",".join(endpoints)}
    ended = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert PRINTS[number] in ended.stdout
    assert "Traceback" not in ended.stderr
