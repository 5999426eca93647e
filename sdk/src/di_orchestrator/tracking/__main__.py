"""Runs a program and follows its trackers."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from di_orchestrator.tracking.follow import follow


def main() -> None:
    """Run a Python program, or a module after -m, as Python does, and follow its trackers."""
    is_module = sys.argv[1:2] == ["-m"]
    words = sys.argv[2:] if is_module else sys.argv[1:]
    if not words:
        sys.exit("usage: python -m di_orchestrator.tracking [-m MODULE | PROGRAM.py] ARGUMENTS")
    program = Path(words[0])
    if not is_module and not program.is_file():
        sys.exit(f"{program}: no such file")
    follow()
    sys.argv = words
    if is_module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        return
    # As Python does with a program: its own folder is searched first, and not this one.
    sys.path[0] = str(program.resolve().parent)
    runpy.run_path(str(program), run_name="__main__")


if __name__ == "__main__":
    main()
