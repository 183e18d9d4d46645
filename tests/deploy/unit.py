"""The unit for systemd: its keys are known, and it gives the service no more than it needs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from checks import expect

UNIT = Path(__file__).resolve().parents[2] / "deploy/helve.service"
# Of 10, by `systemd-analyze security`: lower is safer. The unit has 1.4.
EXPOSURE_MAX = 1.5


def analyzed(*arguments: str) -> str:
    ended = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True)
    expect(ended.returncode == 0, f"{' '.join(arguments)}: {ended.stdout[-300:]}{ended.stderr}")
    return ended.stdout + ended.stderr


def unit_is_known_to_systemd(helve: Path, directory: Path) -> str:
    """systemd ignores a key that it does not know, and says so. It looks for the binary."""
    text = UNIT.read_text().replace("/usr/local/bin/helve", str(helve))
    right, wrong = directory / "helve.service", directory / "helve-wrong.service"
    right.write_text(text)
    said = analyzed("verify", str(right))
    expect(said == "", said)
    wrong.write_text(text.replace("ProtectSystem=", "ProtectSystems="))
    expect("ProtectSystems" in analyzed("verify", str(wrong)), "a misspelt key is not found")
    return UNIT.name


def unit_is_hardened(directory: Path) -> str:
    said = analyzed("security", "--offline=true", str(directory / "helve.service"))
    exposure = float(re.search(r"exposure level for \S+: ([\d.]+)", said).group(1))
    expect(exposure <= EXPOSURE_MAX, f"exposure {exposure}, at most {EXPOSURE_MAX}")
    return f"exposure {exposure}"
