"""A payment that happens once, however many processes are asked: `python pay_once.py ORDER CENTS`.

HELVE_ENDPOINTS names the cluster. The provider is a directory here, which PROVIDER names: each
payment is a file in it. Kill a process when you like, and ask again.
"""

import os
import sys
import uuid
from pathlib import Path

from helve import SHARED, Client, HelveError, Lease, digest_of

LEASE = 10


class Provider:
    """Carries out every payment that it is asked for, and can be asked which it has made."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)
        self._directory.mkdir(parents=True, exist_ok=True)

    def pay(self, key: str, cents: int) -> str:
        """Pays, and answers the number of the payment."""
        number = uuid.uuid4().hex
        being_written = self._directory / f".{number}"
        being_written.write_text(f"{key}\n{cents}\n")
        being_written.rename(self._directory / number)
        return number

    def find(self, key: str) -> str | None:
        """The number of the payment with this key, if there is one."""
        for file in self._directory.glob("[!.]*"):
            if file.read_text().splitlines()[0] == key:
                return file.name
        return None


def main(order: str, cents: int) -> None:
    """Pays for an order, or says what was paid."""
    provider = Provider(os.environ.get("PROVIDER", "payments"))
    key = f"{order}/pay"

    def pay(lease: Lease) -> dict:
        return {"number": provider.pay(lease.key, cents), "cents": cents}

    def recover(lease: Lease) -> dict:
        # An earlier process had the lease, and died: before it paid, or after.
        number = provider.find(lease.key)
        return pay(lease) if number is None else {"number": number, "cents": cents}

    with Client.from_environment() as client:
        payments = client.claims("payment", owner=SHARED, lease=LEASE)
        digest = digest_of({"order": order, "cents": cents})
        receipt = payments.once(key, digest, pay, recover=recover, patience=2 * LEASE)
    print(f"{order} is paid: {receipt['cents']} cents, number {receipt['number']}")


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except HelveError as error:
        sys.exit(f"{error.message}. {error.advice}")
