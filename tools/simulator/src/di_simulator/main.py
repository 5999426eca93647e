"""The command `di-simulate`: recorded workloads under any installed policy.

    di-simulate workloads/workload-1 --policy goodput --output out/simulation
    di-simulate workloads --policy goodput --policy tiresias --policy optimus --plot
    di-simulate workloads/workload-1 --tables made-kinds --cluster slow:8x4,fast:8x4
    di-simulate workloads/workload-1 --pools a:8x4,b:8x4 --job-pools a,b,any

Workloads are CSV files, or folders of them; names without a file are looked up among the recorded
ones that come with the package. Policies are those of the operator (entry points
`di_operator.policies`) and the references `tiresias` and `optimus`. Nothing is random: the same
arguments give the same figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from di_operator.allocator.policies.registry import PolicyError
from di_simulator.application import load_applications
from di_simulator.conditions import Condition
from di_simulator.hardware import Group, parse_groups, parse_pools
from di_simulator.plots import draw_comparison, draw_heat_map, draw_tenants
from di_simulator.results import Result, Summary
from di_simulator.simulation import Setting, run

_WIDTH = 120
RECORDED = Path(__file__).parent / "data" / "pollux-osdi21"


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print a table, and write what was asked for. Returns the exit code."""
    options = _parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        settings = [_parse_policy(text) for text in options.policy or ["goodput"]]
        workloads = [path for name in options.workload for path in find_workloads(name)]
        results = _simulate(options, settings, workloads, console)
    except (OSError, KeyError, ValueError, PolicyError) as error:
        console.print(f"di-simulate: {error}", style="red", markup=False)
        return 1
    summaries = [result.summary for _, result in results]
    # In a pipe there is no width to keep to.
    out = Console()
    printed = Console(width=None if out.is_terminal else _WIDTH)
    printed.print(_table(summaries))
    for _, result in results:
        for tenant, average in result.by_tenant.items():
            name = f"{result.summary.workload}, {result.summary.policy}"
            printed.print(f"{name}: average of {tenant} {average:.0f} s", highlight=False)
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        for setting, result in results:
            result.write(options.output)
            if options.plot:
                stem = f"{result.summary.workload}-{result.summary.policy}"
                draw_heat_map(result, options.output / f"{stem}.png")
                if result.by_tenant:
                    draw_tenants(
                        {stem: result},
                        setting.shares,
                        options.output / f"{stem}-tenants.png",
                    )
        if options.plot:
            draw_comparison(summaries, options.output / "comparison.png")
    return 0


def find_workloads(name: str) -> list[Path]:
    """Return the workload files a name means. Raises ValueError if there are none."""
    for base in (Path(name), RECORDED / name):
        if base.is_dir():
            found = sorted(base.glob("*.csv"))
            if found:
                return found
        for path in (base, base.with_name(base.name + ".csv")):
            if path.is_file():
                return [path]
    raise ValueError(f"no workload {name}, here or among the recorded ones in {RECORDED}")


def find_tables(name: str | None) -> Path | None:
    """Return the folder of step times by kind of node that a name means, of the caller's or of
    those that come with the package. Raises ValueError if there is none.
    """
    if name is None:
        return None
    for folder in (Path(name), RECORDED.parent / name):
        if folder.is_dir():
            return folder
    raise ValueError(f"no folder {name}, here or in {RECORDED.parent}")


def _simulate(
    options: argparse.Namespace,
    settings: Sequence[tuple[str, dict[str, Any]]],
    workloads: Sequence[Path],
    console: Console,
) -> list[tuple[Setting, Result]]:
    applications = load_applications(options.traces, find_tables(options.tables))
    groups = parse_groups(options.cluster) if options.cluster else None
    pools: Sequence[str] = ()
    if options.pools:
        groups = parse_pools(options.pools)
        chosen = options.job_pools or [group.pool for group in groups]
        pools = ["" if name == "any" else name for name in chosen]
    results = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("jobs"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        for workload in workloads:
            for policy, given in settings:
                name = f"{workload.parent.name}/{workload.stem}"
                bar = progress.add_task(f"{name} {policy}", total=None)
                setting = Setting(
                    workload=workload,
                    policy=policy,
                    arguments=given,
                    groups=groups or (Group(nodes=options.nodes, gpus=options.gpus),),
                    kinds_known=not options.kinds_hidden,
                    period=options.period,
                    remaining_known=options.remaining_known,
                    condition=options.condition,
                    tenants=options.tenants,
                    pools=pools,
                )
                result = run(
                    setting,
                    applications,
                    stopwatch=time.process_time,
                    report=partial(_advance, progress, bar),
                )
                results.append((setting, result))
    return results


def _advance(progress: Progress, bar: TaskID, done: int, total: int) -> None:
    progress.update(bar, completed=done, total=total)


def _parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """Split `name` or `name:{"argument": value}`. Raises ValueError."""
    name, colon, given = text.partition(":")
    arguments = json.loads(given) if colon else {}
    if not isinstance(arguments, dict):
        raise ValueError(f"{text}: the arguments of a policy are a JSON object")
    return name, arguments


def _table(summaries: Sequence[Summary]) -> Table:
    table = Table(title="completion times in seconds")
    for column in ("workload", "policy"):
        table.add_column(column)
    for column in ("average", "p50", "p99", "makespan", "restarts", "GPUs used", "decision, ms"):
        table.add_column(column, justify="right")
    for s in summaries:
        times = (f"{value:.0f}" for value in (s.average, s.p50, s.p99, s.makespan))
        rest = (f"{s.restarts:.1f}", f"{s.utilisation:.0%}", f"{s.decision_mean * 1e3:.1f}")
        table.add_row(s.workload, s.policy, *times, *rest)
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="di-simulate", description="Runs allocation policies on recorded workloads."
    )
    parser.add_argument("workload", nargs="+", help="CSV file, folder, or name of a recorded one")
    parser.add_argument(
        "--policy",
        action="append",
        help='name, or name:{"argument": value}; may be given several times (default: goodput)',
    )
    parser.add_argument("--nodes", type=int, default=16, help="default: %(default)s")
    parser.add_argument("--gpus", type=int, default=4, help="of each node; default: %(default)s")
    parser.add_argument(
        "--cluster",
        metavar="KIND:NODESxGPUS[,...]",
        help="nodes of several kinds, instead of --nodes and --gpus; needs --tables",
    )
    parser.add_argument(
        "--pools",
        metavar="POOL:NODESxGPUS[,...]",
        help="nodes in pools that jobs select, instead of --nodes and --gpus",
    )
    parser.add_argument(
        "--job-pools",
        type=lambda text: text.split(","),
        help="the pools that jobs select, by turns; any: all nodes; default: each pool in turn",
    )
    parser.add_argument(
        "--tables",
        metavar="FOLDER",
        help="step times by kind of node: <application>/{placements,scalability}-<kind>.csv",
    )
    parser.add_argument(
        "--kinds-hidden", action="store_true", help="neither policy nor jobs are told the kinds"
    )
    parser.add_argument(
        "--period", type=float, default=60.0, help="seconds between decisions; default: 60"
    )
    parser.add_argument(
        "--remaining-known", action="store_true", help="jobs report how much work is left"
    )
    parser.add_argument(
        "--condition",
        type=Condition,
        choices=list(Condition),
        default=Condition.IDEAL,
        help="what some of the jobs are like; default: %(default)s",
    )
    parser.add_argument(
        "--tenants",
        type=lambda text: text.split(","),
        default=[],
        help="whose the jobs are, by turns: a,b,b gives b two thirds; default: nobody's",
    )
    parser.add_argument("--traces", type=Path, default=RECORDED / "traces", help="recordings")
    parser.add_argument("--output", type=Path, help="folder for JSON and CSV")
    parser.add_argument("--plot", action="store_true", help="PNG as well, in the output folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
