"""Makes `helve/state_tool.json`: the tools as `helve mcp` lists them.

Usage: python tools/state_tool.py HELVE (or with --check: fails if the schemas differ). It needs no
cluster: the list of tools is the server's own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TARGET = Path(__file__).parents[1] / "src" / "helve" / "state_tool.json"


def listed(helve: str) -> list[dict[str, object]]:
    """What `tools/list` answers with everything enabled."""
    command = [helve, "mcp", "--stdio", "--enable-writes", "--enable-delete"]
    command += ["--endpoints", "127.0.0.1:9"]
    client = {"name": "tools", "version": "1"}
    start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
    said = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": start},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in said:
            server.stdin.write(json.dumps(message) + "\n")
        server.stdin.flush()
        for line in server.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2:
                server.kill()
                tools: list[dict[str, object]] = answer["result"]["tools"]
                return sorted(tools, key=lambda tool: str(tool["name"]))
    raise SystemExit(f"{helve} mcp ended without a list of tools")


def without_texts(value: object) -> object:
    """The schemas alone: what they are told in may differ by a word."""
    if isinstance(value, list):
        return [without_texts(each) for each in value]
    if isinstance(value, dict):
        return {
            name: without_texts(each)
            for name, each in value.items()
            if not (name in ("description", "title") and isinstance(each, str))
        }
    return value


def main() -> None:
    helve = next(argument for argument in sys.argv[1:] if argument != "--check")
    found = listed(helve)
    if "--check" not in sys.argv:
        TARGET.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    elif without_texts(json.loads(TARGET.read_text())) != without_texts(found):
        raise SystemExit("the state tool's schemas are not those of helve mcp: run this tool")


if __name__ == "__main__":
    main()
