"""Runs a program of Python and writes its processor time and its peak memory into a file.

`wait4` does not have the memory: a child that has begun another program counts what its parent had.
Imports nothing else, which would count as the program's.

    python -m tools.benchmarks.used FILE PROGRAM [ARGUMENT...]
"""

from __future__ import annotations

import json
import resource
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Run the program of the command line in this process."""
    found, sys.argv = Path(sys.argv[1]), sys.argv[2:]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        status = dict(
            line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines()
        )
        used = resource.getrusage(resource.RUSAGE_SELF)
        report = {
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
            "peak_mib": round(int(status["VmHWM"].split()[0]) / 1024, 1),
        }
        found.write_text(json.dumps(report))


if __name__ == "__main__":
    main()
