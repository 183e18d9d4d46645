"""The commands in the pages for operators: each is one that `helve` or `kubectl` knows, with flags that it has."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from checks import expect

TOP = Path(__file__).resolve().parents[2]
PAGES = [*sorted((TOP / "docs/operations").glob("*.md")), TOP / "deploy/k8s/README.md"]


def lines(page: Path) -> Iterator[list[str]]:
    """Words of each command of `helve` in a page, after what runs it, such as `kubectl exec helve-1 --`."""
    for line in page.read_text().replace("\\\n", "").splitlines():
        found = re.search(r"^ *\$ (?:(?:docker|kubectl) .* exec (?:[^|]* )?)?(helve [a-z].*)", line)
        if found:
            # Without what an example leaves out, says beside the command, or hands to the shell.
            text = re.split(r" [#<|>] ", found.group(1).replace("...", ""))[0]
            yield shlex.split(text)


def unknown(binary: Path, words: list[str]) -> str | None:
    """Why the binary does not take a command. It says so before it shows the help that is asked for last."""
    asked = subprocess.run([binary, *words[1:], "--help"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return None if asked.returncode == 0 else asked.stderr.strip().splitlines()[0]


def kubectl_lines(page: Path) -> Iterator[list[str]]:
    """Words of each command of `kubectl` in a page, without the command that it runs in a pod."""
    for line in page.read_text().replace("\\\n", "").splitlines():
        found = re.search(r"^ *\$ (kubectl .*)", line)
        for text in found.group(1).split(" | ") if found else []:
            yield shlex.split(text.split(" -- ")[0])


def kubectl_commands_in_pages_are_known() -> str:
    kubectl = Path(sys.executable).parent / "kubectl"
    found = [(page, words) for page in PAGES for words in kubectl_lines(page)]
    expect(len(found) > 20, f"only {len(found)} commands were found")
    for page, words in found:
        why = unknown(kubectl, words)
        expect(why is None, f"{page.name}: `{' '.join(words)}`: {why}")
    expect(unknown(kubectl, "kubectl scale statefulset helve --replica 5".split()) is not None, "it takes a wrong flag")
    return f"{len(found)} commands"


def commands_in_pages_are_known(helve: Path) -> str:
    found = [(page, words) for page in PAGES for words in lines(page)]
    expect(len(found) > 40, f"only {len(found)} commands were found")
    for page, words in found:
        why = unknown(helve, words)
        expect(why is None, f"{page.name}: `{' '.join(words)}`: {why}")
    return f"{len(found)} commands in {len(PAGES)} pages"


def misspelt_commands_are_found(helve: Path) -> str:
    """Shows that a wrong flag and a wrong word would be."""
    wrong = ("helve member add --seat 4 --peers node4:7401", "helve members list", "helve status --exit")
    for text in wrong:
        expect(unknown(helve, text.split()) is not None, f"the binary takes `{text}`")
    return f"{len(wrong)} commands"
