"""Ports that tests give to programs."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_runs_and_threads_side_by_side_get_different_ports() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        given = json.loads(cast(IO[bytes], other.stdout).readline())
        with ThreadPoolExecutor(8) as threads:
            mine = list(threads.map(lambda _: free_port(), range(MANY)))
        cast(IO[bytes], other.stdin).close()
    assert len({*given, *mine}) == 2 * MANY
