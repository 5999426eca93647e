"""Ports that tests give to programs."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.ports import free_port

MANY = 300
"""More than a block."""
PROGRAM = f"""
import json, sys
from tests.ports import free_port
print(json.dumps([free_port() for _ in range({MANY})]), flush=True)
sys.stdin.read()
"""


def test_runs_side_by_side_are_never_given_the_same_port() -> None:
    with (
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as one,
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other,
    ):
        given: list[list[int]] = []
        for process in (one, other):
            assert process.stdout is not None
            given.append(json.loads(process.stdout.readline()))
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.close()
    mine = [free_port() for _ in range(MANY)]
    assert len(set(given[0]) | set(given[1])) == 2 * MANY
    assert len(set(mine)) == MANY


def test_threads_are_given_a_port_each() -> None:
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: free_port(), range(MANY)))
    assert len(set(given)) == MANY
