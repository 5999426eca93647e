"""Command `di-certs`: a CA and a serving certificate in a folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from di_certs.files import CA_CERTIFICATE, write_certificates


def main(arguments: Sequence[str] | None = None) -> None:
    """Write ca.crt, ca.key, tls.crt and tls.key; keep certificates that are still valid."""
    parser = argparse.ArgumentParser(
        prog="di-certs",
        description="Write a CA and a serving certificate (ca.crt, ca.key, tls.crt, tls.key) "
        "into a folder. What is there and still good is kept.",
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--host",
        dest="hosts",
        action="append",
        required=True,
        metavar="NAME",
        help="DNS name or IP address of the server; may be given several times",
    )
    parser.add_argument(
        "--authority",
        type=Path,
        metavar="FOLDER",
        help="keep the CA's private key in this folder, not beside what a server reads",
    )
    parser.add_argument("--days", type=_days, default=90, help="lifetime (default: 90)")
    parser.add_argument("--force", action="store_true", help="create all certificates again")
    options = parser.parse_args(arguments)
    try:
        written = write_certificates(
            options.folder,
            options.hosts,
            now=datetime.now(UTC),
            lifetime=timedelta(days=options.days),
            authority_folder=options.authority,
            force=options.force,
        )
    except (OSError, ValueError) as error:
        sys.exit(f"di-certs: {error}")
    state = "new" if written.authority else "kept"
    serving = "new" if written.serving else "kept"
    print(f"{options.folder / CA_CERTIFICATE}: {state}; serving certificate: {serving}")


def _days(text: str) -> int:
    days = int(text)
    if not 1 <= days <= 800:
        raise argparse.ArgumentTypeError("must be 1 to 800")
    return days


if __name__ == "__main__":
    main()
