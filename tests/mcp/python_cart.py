"""The cart server in Python (FastMCP on the Python client), by the flows and the ledger of the Rust one."""

from __future__ import annotations

from pathlib import Path

import cart
from checks import Report
from peer import AUDIENCE, ISSUER, SECRET
from processes import Cluster, Service, running

SECTION = "python"
CLIENT = Path(__file__).parents[2] / "client" / "python"


async def run(cluster: Cluster, directory: Path, report: Report, python: Path, plant: str | None) -> None:
    """Replicas run under `python`, which has FastMCP; the client is that of the checkout."""
    environment = {
        "HELVE_ENDPOINTS": cluster.endpoints, "PYTHONPATH": str(CLIENT / "src"),
        "CART_SECRET": SECRET, "CART_ISSUER": ISSUER, "CART_AUDIENCE": AUDIENCE,
    }
    script = str(CLIENT / "examples" / "cart.py")
    service = Service("python", cluster, directory, lambda port: ([str(python), script, str(port)], environment))
    # Carts of the Rust server's section are in the same store: each section counts its own callers'.
    with running(service):
        await report.check(SECTION, "the SDK discovers it and lists its tools", lambda: cart.negotiated(service))
        await report.check(
            SECTION, "nothing is lost or doubled while replicas and the leader are killed",
            lambda: cart.survives(cluster, service, report, plant, ("dora", "emil")),
        )
