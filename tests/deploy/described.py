"""Calls in JSON: what a secured cluster answers, against the OpenAPI document, by schemathesis."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from checks import expect
from secured import TOP, Secured

DOCUMENT = TOP / "docs/clients/openapi.json"
# A leader that is moved about, a key that is given up, and a level that is held are no answer's fault.
LEFT_ALONE = (
    "ClusterService_TransferLeader",
    "ClusterService_SetDataKey",
    "ClusterService_SetUpgradeHold",
)
CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "unsupported_method,allow_header_conformance"
)
EXAMPLES = 5


def schemathesis(cluster: Secured, directory: Path, document: Path, *selection: str) -> subprocess.CompletedProcess[str]:
    """Calls the cluster by a document. What schemathesis remembers of it stays in the directory."""
    token = Path(cluster.credentials["HELVE_TOKEN_FILE"]).read_text().strip()
    address = cluster.endpoints.split(",")[0].removeprefix("https://")
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "run", str(document), "--url", f"https://{address}",
        "--tls-verify", cluster.credentials["HELVE_TLS_CA"], "--header", f"Authorization: Bearer {token}",
        "--checks", CHECKS, "--phases", "coverage,fuzzing", "--max-examples", str(EXAMPLES), "--seed", "1",
        # A deadline that has passed is answered with 503 or 504, as it should be.
        "--header", "Connect-Timeout-Ms: 20000", "--request-retries", "3", "--suppress-health-check", "all", "--warnings", "off", *selection,
    ]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True)


def calls_in_json_answer_as_described(cluster: Secured, directory: Path) -> str:
    excluded = [part for operation in LEFT_ALONE for part in ("--exclude-operation-id", operation)]
    ended = schemathesis(cluster, directory, DOCUMENT, *excluded)
    expect(ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:])
    generated = re.search(r"(\d+) generated", ended.stdout)
    return f"{generated.group(1)} calls" if generated else "all calls"


def wrong_document_is_found(cluster: Secured, directory: Path) -> str:
    """Shows that an answer which the document does not describe fails the check."""
    wrong = json.loads(DOCUMENT.read_text())
    wrong["components"]["schemas"]["Error"]["required"] = ["unheard_of"]
    document = directory / "openapi.json"
    document.write_text(json.dumps(wrong))
    ended = schemathesis(cluster, directory, document, "--include-operation-id", "HandleService_Get")
    expect(ended.returncode == 1 and "unheard_of" in ended.stdout, f"it passed:\n{ended.stdout[-3000:]}")
    return "an error without what it requires"
