"""Fetch and build, in one step, what tests need before the first of them runs.

    python -m tools.prepare [check|test|all|bench] [GROUP ...]

`check`, `test`, `all` and `bench` are the commands `make check`, `make test`, `make test-all` and
`make bench`; groups are those of `tools/prepare/items.py`, all if none is given. The table of all
items is `tools/prepare/table.py`. Items that are ready take no time. A run in which something fails
goes on with the rest, and ends with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Collection, Sequence
from typing import get_args

from di_cluster.reporter import Reporter
from di_cluster.settings import Settings
from tools.prepare import cold
from tools.prepare.display import Lines, Screen
from tools.prepare.items import (
    COMMANDS,
    Command,
    Group,
    Preparation,
    needed_by,
    processors,
    unready,
)
from tools.prepare.table import items


def main(arguments: Sequence[str]) -> int:
    """Prepare for a test command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.prepare", description=__doc__)
    parser.add_argument("command", nargs="?", choices=COMMANDS, default="test")
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    asked = parser.parse_args(arguments)
    if unknown := {*asked.groups} - {*get_args(Group)}:
        parser.error(f"no group {', '.join(unknown)}; there are {', '.join(get_args(Group))}")
    return 1 if prepare(asked.command, asked.groups) else 0


def prepare(command: Command, groups: Collection[Group] = ()) -> set[Group]:
    """Prepare for a test command; returns the groups of the items that have failed.

    Args:
        command: the command.
        groups: those that it needs, all if there are none.
    """
    started = time.monotonic()
    with cold.cache():
        display = Screen(sys.stderr) if sys.stderr.isatty() else Lines(sys.stderr.write)
        reporter = Reporter(display)
        every = items(Settings.from_environment(os.environ), reporter)
        needed = needed_by(every, command, groups)
        missing = unready(needed)
        preparation = Preparation(display=display, workers=processors())
        with display.live():
            preparation.make(missing)
    failed = f", {len(preparation.failed)} FAILED" if preparation.failed else ""
    print(
        f"{len(needed)} items for {command}: {len(needed) - len(missing)} were ready, "
        f"{len(missing) - len(preparation.failed)} made{failed}, "
        f"in {time.monotonic() - started:.1f} s",
        file=sys.stderr,
    )
    return {item.group for item in needed if item.name in preparation.failed}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
