"""What was checked, and how it went: a table for people, JSON for programs."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field


class Failed(AssertionError):
    """A check that does not hold."""


def expect(holds: bool, what: object) -> None:
    """Fails the check that is under way, and says with what."""
    if not holds:
        raise Failed(str(what))


def equal(found: object, expected: object, what: str) -> None:
    """As `expect`, and shows both."""
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


@dataclass
class Check:
    section: str
    fact: str
    ok: bool
    seconds: float
    detail: str


@dataclass
class Report:
    """Every check of a run, in order."""

    quiet: bool = False
    checks: list[Check] = field(default_factory=list)
    figures: dict[str, int] = field(default_factory=dict)

    async def check(self, section: str, fact: str, show: Callable[[], Awaitable[str | None]]) -> bool:
        """Runs a check. What it answers is a detail worth printing; it fails by raising."""
        began = time.monotonic()
        try:
            detail, ok = await show() or "", True
        except Exception as error:  # Whatever it is, the other checks go on, and the run fails.
            detail, ok = describe(error), False
        self.checks.append(Check(section, fact, ok, round(time.monotonic() - began, 1), detail))
        if not self.quiet:
            print(f"{'ok    ' if ok else 'FAILED'} {section:<12} {fact}{f'  [{detail}]' if detail else ''}", flush=True)
        return ok

    def count(self, what: str, number: int = 1) -> None:
        """A figure of the run."""
        self.figures[what] = self.figures.get(what, 0) + number

    @property
    def failed(self) -> list[Check]:
        return [check for check in self.checks if not check.ok]

    def table(self) -> str:
        """By section, with the figures below."""
        sections = dict.fromkeys(check.section for check in self.checks)
        rows = [("section", "checks", "failed", "seconds")]
        for section in sections:
            own = [check for check in self.checks if check.section == section]
            bad = sum(not check.ok for check in own)
            rows.append((section, str(len(own)), str(bad), f"{sum(check.seconds for check in own):.1f}"))
        rows += [("", "", "", ""), *((what, str(number), "", "") for what, number in self.figures.items())]
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        return "\n".join(lines)

    def json(self) -> str:
        return json.dumps(
            {
                "ok": not self.failed,
                "figures": self.figures,
                "checks": [asdict(check) for check in self.checks],
            },
            indent=2,
        )


def describe(error: BaseException) -> str:
    """The innermost error that a task group wraps, with the line that raised it unless it is a failed expectation."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, Failed):
        return str(error)
    where = traceback.extract_tb(error.__traceback__)[-1] if error.__traceback__ else None
    place = f" at {where.filename.rsplit('/', 1)[-1]}:{where.lineno}" if where else ""
    return f"{type(error).__name__}: {error}{place}"
