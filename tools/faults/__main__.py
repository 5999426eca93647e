"""All plans, or those asked for: `python -m tools.faults`.

Prints a progress bar and writes a report to out/faults.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.faults import trace
from tools.faults.generate import generate, part_of_day, sample
from tools.faults.plan import Plan
from tools.faults.report import write_report
from tools.faults.session import LANES, Verdict, api_server, api_server_with_kueue, carry_out
from tools.faults.workloads import QUEUED, STORIES, WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the number of the process: 1 if any plan found a bug."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="plans whose id contains this")
    parser.add_argument(
        "--queued", action="store_true", help="plans of jobs with a queue, beside a real Kueue"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="about so many of them, evenly")
    parser.add_argument(
        "--daily", type=int, metavar="N", help="at most so many, others each day until all have run"
    )
    parser.add_argument("--lanes", type=int, default=LANES, help="plans side by side")
    parser.add_argument("--out", type=Path, default=Path("out/faults"), help="the report's folder")
    parser.add_argument("--list", action="store_true", help="only say which plans there are")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record traces of clean runs anew, of workloads whose name contains --only",
    )
    options = parser.parse_args(arguments)
    workloads = QUEUED if options.queued else WORKLOADS
    plans = _clean_runs(workloads, options.only) if options.record else _chosen(workloads, options)
    if options.list:
        print(*plans, sep="\n")
        return 0
    out: Path = options.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    started = time.monotonic()
    serve = api_server_with_kueue if options.queued else api_server
    with serve(out) as config, _progress() as progress:
        bar = progress.add_task("plans", total=len(plans), bugs=0)
        bugs = 0

        def on_verdict(verdict: Verdict) -> None:
            nonlocal bugs
            if verdict.wrong:
                bugs += 1
                progress.console.print(
                    f"[red]{verdict.run.plan}[/]", *verdict.wrong[:4], sep="\n  "
                )
            progress.update(bar, advance=1, bugs=bugs)

        results = carry_out(config, out, plans, lanes=options.lanes, on_verdict=on_verdict)
    if options.record:
        trace.save({**trace.load(STORIES), **results.traces})
    file = write_report(results, out, seconds=time.monotonic() - started)
    print(f"{len(plans)} plans, {bugs} found something: {file}")
    return 1 if bugs else 0


def _chosen(workloads: Collection[str], options: argparse.Namespace) -> tuple[Plan, ...]:
    found = generate(trace.load(workloads))
    plans = tuple(plan for plan in found if options.only in plan.id)
    if options.daily:
        part = part_of_day(plans, options.daily, datetime.now(UTC).toordinal())
        print(f"{len(part)} of {len(plans)} plans, the part of today; all of them: make faults")
        return part
    return sample(plans, options.sample) if options.sample else plans


def _clean_runs(workloads: Collection[str], only: str) -> tuple[Plan, ...]:
    return tuple(Plan(workload=name) for name in workloads if only in name)


def _progress() -> Progress:
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bugs]} found something"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


if __name__ == "__main__":
    sys.exit(main())
