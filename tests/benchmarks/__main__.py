"""All benchmarks of the operator and its services.

python -m tests.benchmarks [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path

from tests.benchmarks import report, throughput
from tests.benchmarks.field import control_plane
from tests.benchmarks.processes import ROOT
from tests.benchmarks.workloads import Workload

OUT = ROOT / "out/bench"
FOUR = Workload(name="200 jobs x 4 pods", jobs=200, replicas=4)
# A quick run starts no further round that would end later than this.
QUICK_SECONDS = 40


async def quick(out: Path) -> str:
    """200 jobs of four pods under both contestants; one line."""
    until = time.monotonic() + QUICK_SECONDS
    async with control_plane(out / "logs", quiet=True) as field, field.kubelet():
        runs = await throughput.compare(field, FOUR, rounds=3, until=until)
    (out / "quick.json").write_text(json.dumps(throughput.as_json(runs), indent=2) + "\n")
    return report.quick_line(runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--quick", action="store_true", help="one workload, one line, 50 s")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if options.quick:
        print(asyncio.run(quick(OUT)))


if __name__ == "__main__":
    main()
