"""Ports that tests give to programs."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import IO, cast

from tests.ports import free_port

MANY = 300
"""More than a block."""
PROGRAM = f"""
import json, sys
from tests.ports import free_port
print(json.dumps([free_port() for _ in range({MANY})]), flush=True)
sys.stdin.read()
"""


def _run() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def test_runs_side_by_side_are_never_given_the_same_port() -> None:
    with ExitStack() as stack:
        runs = [stack.enter_context(_run()) for _ in range(2)]
        # All are given before one ends.
        given = [json.loads(cast(IO[bytes], run.stdout).readline()) for run in runs]
        for run in runs:
            cast(IO[bytes], run.stdin).close()
    mine = [free_port() for _ in range(MANY)]
    assert len(set(given[0]) | set(given[1])) == 2 * MANY
    assert len(set(mine)) == MANY


def test_threads_are_given_a_port_each() -> None:
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: free_port(), range(MANY)))
    assert len(set(given)) == MANY
