"""All tests in two lanes side by side: those that compute, and then have an API server of their
own, and those that wait for clusters.

    python -m tests.lanes [PYTEST OPTION ...]

What the second lane says is seen at once, what the first one says when both have ended.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

_INTEGRATION = Path("tests/integration")
APART = (
    f"{_INTEGRATION}/kueue",
    *(
        str(each)
        for service in ("operator", "server")
        for each in sorted(_INTEGRATION.glob(f"test_{service}_*.py"))
    ),
)
"""Of the folder's tests those that share nothing with the others but an API server, of which each
lane has its own; so many that both lanes end at about the same time."""
FIRST = ("tests/unit", "tests/golden", "tests/poison", "tests/chart", "tests/faults", *APART)
SECOND = ("tests/integration", "tests/e2e")
_NO_TESTS = 5
"""pytest's exit code where options choose none."""


def run(lanes: Sequence[Sequence[str]]) -> int:
    """Run pytest on each lane's folders and options; returns 0 if all of them passed.

    The last lane has this process's output.
    """
    codes = []
    with ExitStack() as stack:
        started = [
            (lane, stack.enter_context(tempfile.TemporaryFile()), time.monotonic())
            for lane in lanes[:-1]
        ]
        processes = [_begin(stack, lane, said) for lane, said, _ in started]
        last = _begin(stack, lanes[-1], None)
        codes.append(last.wait())
        for process, (lane, said, _) in zip(processes, started, strict=True):
            codes.append(process.wait())
            said.seek(0)
            print(f"\nbeside these: {' '.join(lane)}", flush=True)
            sys.stdout.buffer.write(said.read())
            sys.stdout.flush()
    return 0 if set(codes) <= {0, _NO_TESTS} else 1


def _begin(
    stack: ExitStack, arguments: Sequence[str], output: IO[bytes] | None
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        stdout=output,
        stderr=subprocess.STDOUT if output else None,
    )
    return stack.enter_context(process)


if __name__ == "__main__":
    options = sys.argv[1:]
    raise SystemExit(
        run([[*FIRST, *options], [*SECOND, *(f"--ignore={each}" for each in APART), *options]])
    )
