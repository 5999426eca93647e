"""Load for minutes while every service is rolled and killed and the authority changes.

    python -m tools.soak [--seconds 3600] [--admissions 50000] [--requests 100000]

Ends when all is asked or the time is over. Prints a line of progress twice a minute, writes a
report to out/soak and prints one line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.integration.conftest import api_server_with_crd, fresh_namespace
from tools.soak.run import Plan, soak
from tools.soak.stage import ROUTING


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the number of the process: 1 if anything failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="at most")
    parser.add_argument("--admissions", type=int, default=50_000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--admission-rate", type=float, default=200.0, help="a second")
    parser.add_argument("--request-rate", type=float, default=500.0, help="a second")
    parser.add_argument("--seed", type=int, default=secrets.randbits(32))
    parser.add_argument("--out", type=Path, default=Path("out/soak"), help="the report's folder")
    options = parser.parse_args(arguments)
    plan = Plan(
        seconds=options.seconds,
        admissions=options.admissions,
        admissions_a_second=options.admission_rate,
        requests=options.requests,
        requests_a_second=options.request_rate,
        seed=options.seed,
    )
    out: Path = options.out.absolute()
    folder = out / f"run-{secrets.token_hex(3)}"
    folder.mkdir(parents=True)
    report = carry_out(plan, folder)
    file = out / "report.json"
    file.write_text(json.dumps({"seed": plan.seed, **report}, indent=2) + "\n")
    print(line(report), file)
    return 1 if report["wrong"] else 0


def carry_out(plan: Plan, folder: Path) -> dict[str, Any]:
    """Carry a plan out on an API server of its own."""
    with (
        api_server_with_crd("soak", ROUTING) as (cluster, config),
        fresh_namespace(config) as release,
        fresh_namespace(config) as jobs,
    ):
        return asyncio.run(
            soak(
                plan,
                config=config,
                api_server=cluster,
                namespaces=(release, jobs),
                folder=folder,
            )
        )


def line(report: dict[str, Any]) -> str:
    """A report in short."""
    admitted, asked, judged = (
        report["admissions"], report["requests"], report["linearizable"]
    )  # fmt: skip
    return (
        f"soak: {admitted['answered']} admissions ({admitted['a_second']}/s, "
        f"{admitted['failed']} failed), {asked['answered']} requests ({asked['a_second']}/s, "
        f"{asked['failed']} failed), {sum(report['rolled'].values())} rolled, "
        f"{sum(report['killed'].values())} killed, {report['rotations']} rotations; "
        f"{judged['scalings']} scalings in {judged['histories']} histories, "
        f"{len(judged['broken'])} not linearizable:"
    )


if __name__ == "__main__":
    sys.exit(main())
