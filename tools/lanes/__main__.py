"""Run the tests of a command, some lanes side by side.

    python -m tools.lanes check [--lane NAME ...] [PYTEST OPTION ...]
    python -m tools.lanes test [--lane NAME ...] [PYTEST OPTION ...]
    python -m tools.lanes all [--lane NAME ...] [PYTEST OPTION ...]

What these lanes need is fetched and built first (`python -m tools.prepare`); with COLD=1 into an
empty cache, which is removed at the end.

Logs, reports, the page of results and what failed tests left are in out/check, out/test or
out/test-all. The exit code is 0 if all lanes passed, and for `all` the branches were counted. On a
failure, the last line names the folder. A lane whose needs cannot be fetched or built fails without
a test; the others run.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Final

from di_cluster.errors import ClusterError
from di_cluster.preflight import GIB, require_disk
from tools.lanes import branches, page, table
from tools.lanes.lane import Lane, Outcome, version
from tools.lanes.progress import clock
from tools.lanes.run import Runner, ended_by_signals
from tools.prepare import cold
from tools.prepare.__main__ import prepare
from tools.prepare.items import Group

_LINES: Final = 150
"""How many of the last lines of a failed lane's log are shown."""


def main(arguments: Sequence[str]) -> int:
    """Run what the arguments ask for; returns the exit code."""
    try:
        with ended_by_signals(), cold.cache() as cache:
            return _run(arguments, cache)
    except KeyboardInterrupt:
        print("interrupted: the lanes that ran have ended")
        return 130


def _run(arguments: Sequence[str], cache: Path) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.lanes")
    parser.add_argument("command", choices=[*table.COMMANDS])
    parser.add_argument("--lane", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--at-once", type=int, help="lanes side by side")
    parser.add_argument("--no-coverage", action="store_true", help="of `all`: measure no branches")
    asked, options = parser.parse_known_args(arguments)
    everything = asked.command == "all"
    try:
        lanes = table.chosen(table.COMMANDS[asked.command], asked.lane)
    except LookupError as error:
        parser.error(str(error))
    name = "test-all" if everything else asked.command
    needs = sorted({each for lane in lanes for each in lane.needs})
    broken = prepare(asked.command, needs) if asked.command != "check" and needs else set()
    ready = [lane for lane in lanes if broken.isdisjoint(lane.needs)]
    if objection := _objection(ready, cache, f"make {name}"):
        print(f"no test ran: {objection}")
        return 1
    out = Path("out") / name
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    measured = everything and not asked.no_coverage
    title = f"make {name}, Python {version(Path(sys.executable))}"
    results = out / "index.html"
    coverage: branches.Branches | None = None
    unready = [_without(broken, lane, out) for lane in lanes if lane not in ready]

    def write(ended: Sequence[Outcome]) -> None:
        page.write(results, title, lanes, [*unready, *ended], coverage)

    runner = Runner(
        python=Path(sys.executable),
        out=out,
        options=[*([] if everything else ["-m", f"not {table.EXTENDED}"]), *options],
        variables={"DI_HYPOTHESIS_PROFILE": table.PROFILES[asked.command]},
        measured=measured,
        at_once=asked.at_once or table.AT_ONCE,
        on_end=write,
    )
    print(f"{title}: {', '.join(lane.name for lane in lanes)}", flush=True)
    began = time.monotonic()
    ran = runner.run(ready)
    uncounted = ""
    if measured:
        try:
            coverage = branches.combine(out)
        except branches.CoverageFailed as error:
            uncounted = str(error)
    write(ran)
    ended = [*unready, *ran]
    failed = [each for each in ended if not each.passed]
    for each in failed:
        print(f"\nThe end of {each.log}:")
        print("\n".join(each.log.read_text(errors="replace").splitlines()[-_LINES:]))
    names = [*(each.lane.name for each in failed), *([uncounted] if uncounted else [])]
    word = f"FAILED: {', '.join(names)}" if names else "passed"
    print(f"\n{word} in {clock(time.monotonic() - began)}; results: {results}")
    if failed:
        print(f"Logs, states and the machine's load at each failure: {out / 'failures'}")
    return 1 if names else 0


def _objection(ready: Sequence[Lane], cache: Path, purpose: str) -> str:
    """Why none of the lanes can run; empty if they can."""
    if not ready:
        return f"{purpose} needs what could not be fetched or built above"
    try:
        require_disk(cache, free=sum(lane.disk for lane in ready) * GIB, purpose=purpose)
    except ClusterError as error:
        return str(error)
    return ""


def _without(broken: Set[Group], lane: Lane, out: Path) -> Outcome:
    """The failure of a lane whose needs could not be prepared."""
    missing = ", ".join(sorted(broken & {*lane.needs}))
    log = out / f"{lane.name}.log"
    log.write_text(f"not run: what it needs could not be fetched or built ({missing})\n")
    print(f"FAILED: {lane.name}, {log.read_text().strip()}", flush=True)
    return Outcome(lane=lane, code=1, seconds=0.0, log=log)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
