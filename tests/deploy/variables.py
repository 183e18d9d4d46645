"""The variables in what is deployed are variables that the binary reads: a misspelt one would be ignored."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from checks import expect

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
# Of compose and of the image's build; Kubernetes would set the last by itself.
FOREIGN = {"HELVE_IMAGE", "HELVE_BUILD_IMAGE", "HELVE_PORT_", "HELVE_CART_PORT", "HELVE_PORT"}


def known(helve: Path) -> set[str]:
    """Those in the help texts of all commands."""
    found: set[str] = set()
    waiting: list[list[str]] = [[]]
    while waiting:
        command = waiting.pop()
        text = subprocess.run([helve, *command, "--help"], capture_output=True, text=True, check=True).stdout
        found.update(re.findall(r"\[env: (HELVE_[A-Z0-9_]+)", text))
        below = re.search(r"^Commands:\n((?:(?:  .*)?\n)+)", text, re.MULTILINE)
        words = re.findall(r"^  ([a-z][a-z-]*)", below.group(1), re.MULTILINE) if below else []
        waiting += [[*command, word] for word in words if word != "help"]
    return found


def variables_are_known(helve: Path) -> str:
    readable = known(helve)
    expect({"HELVE_DATA_DIR", "HELVE_TOKEN_FILE"} <= readable, f"the help texts name only {sorted(readable)}")
    files = [path for path in DEPLOY.rglob("*") if path.suffix in {".yaml", ".service"} and path.is_file()]
    used = 0
    for path in files:
        for variable in re.findall(r"\bHELVE_[A-Z0-9_]*", path.read_text()):
            ours = variable.rstrip("0123456789") not in FOREIGN and variable != "HELVE_"
            expect(not ours or variable in readable, f"{path.relative_to(DEPLOY)}: no command reads {variable}")
            used += ours
    return f"{used} uses in {len(files)} files"
