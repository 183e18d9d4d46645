"""Makes the client for threads, `helve/_sync/`, of the one for asyncio, `helve/_async/`.

Two clients that are written by hand drift apart. This one only drops `async` and `await`; what
waits differently is in `io.py`, of which each has its own.

Usage: python tools/unasync.py (or with --check: fails if they differ), or
python tools/unasync.py FROM TO for two directories.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "helve"
NOTE = "# Made of `{}` by tools/unasync.py: do not edit.\n"
RULES = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b_async\b", "_sync"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAwaitable, ", ""),
    (r"\bAwaitable\[(\w+)\]", r"\1"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"__a(enter|exit|iter|next)__", r"__\1__"),
    (r"\basyncio client\b", "client for threads"),
    (r"\baiter\(", "iter("),
]


def translated(name: str, text: str) -> str:
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return NOTE.format(name) + text


def translations(source: Path) -> dict[str, str]:
    return {
        path.name: translated(path.name, path.read_text())
        for path in sorted(source.glob("*.py"))
        if path.name not in ("io.py", "__init__.py")
    }


def main() -> None:
    places = [Path(argument) for argument in sys.argv[1:] if argument != "--check"]
    source, target = places or (SOURCE / "_async", SOURCE / "_sync")
    target.mkdir(exist_ok=True)
    stale = []
    for name, text in translations(source).items():
        path = target / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in sys.argv:
            path.write_text(text)
    if stale and "--check" in sys.argv:
        raise SystemExit(f"{target}: {', '.join(stale)} are stale: run tools/unasync.py")


if __name__ == "__main__":
    main()
