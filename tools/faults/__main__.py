"""All plans, or those asked for: `python -m tools.faults`.

Shows a progress bar, or a line of progress twice a minute where the output is no terminal, and
writes a report to out/faults.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tools.faults import trace
from tools.faults.generate import generate, part_of_day, sample
from tools.faults.plan import Plan
from tools.faults.report import write_report
from tools.faults.session import (
    CLEAN_RUNS,
    LANES,
    Count,
    Verdict,
    api_server,
    api_server_with_kueue,
    carry_out,
    workloads_of,
)
from tools.faults.workloads import QUEUED, STORIES, WORKLOADS
from tools.lanes.progress import shown


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
    console = Console()
    with serve(out) as config:
        count = Count(plans=len(plans), clean=CLEAN_RUNS * len(workloads_of(plans)))

        def on_verdict(verdict: Verdict) -> None:
            if verdict.wrong:
                console.print(f"[red]{verdict.run.plan}[/]", *verdict.wrong[:4], sep="\n  ")
            count.judged(found=bool(verdict.wrong))

        with _shown(count, console):
            results = carry_out(
                config,
                out,
                plans,
                lanes=options.lanes,
                on_clean=count.cleaned,
                on_verdict=on_verdict,
            )
    if options.record:
        trace.save({**trace.load(STORIES), **results.traces})
    file = write_report(results, out, seconds=time.monotonic() - started)
    print(f"{len(plans)} plans, {count.bugs} found something: {file}")
    return 1 if count.bugs else 0


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


@contextmanager
def _shown(count: Count, console: Console) -> Iterator[None]:
    """Show how far the plans are: a bar on a terminal, else lines."""
    if not console.is_terminal:
        with shown(count.state):
            yield
        return
    bar = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[bugs]} found something"),
        TimeRemainingColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("runs", total=count.total, bugs=0)
        count.on_change = lambda: bar.update(task, completed=count.done, bugs=count.bugs)
        yield


if __name__ == "__main__":
    sys.exit(main())
