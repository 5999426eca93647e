"""Freeze leaders under load: `python -m tools.faults.freezes --freezes 40 --jobs 50`.

Each freeze has a namespace of its own, with operators and jobs. While the jobs start, the leader
gets SIGSTOP, and SIGCONT after 20 seconds. Then every replica gets SIGTERM. A zombie is a replica
that neither leads, nor takes over from a leader that ends, nor ends when it is asked to.

Prints a table and writes it to out/freezes/freezes.json. Returns 1 if it found anything.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from tools.faults.freezes.load import LANES, Outcome, freeze_leaders, moments
from tools.faults.session import api_server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the number of the process: 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--freezes", type=int, default=40, help="how many leaders to freeze")
    parser.add_argument("--jobs", type=int, default=50, help="that start at the time of a freeze")
    parser.add_argument("--replicas", type=int, default=2, help="of the operator")
    parser.add_argument("--lanes", type=int, default=LANES, help="freezes side by side")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--out", type=Path, default=Path("out/freezes"), help="the results' folder")
    options = parser.parse_args(arguments)
    out: Path = options.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    chosen = moments(options.freezes, jobs=options.jobs, seed=options.seed)
    done = 0

    def on_outcome(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        wrong = "; ".join(outcome.wrong)[:200] or "all well"
        print(f"{done} of {len(chosen)}: {outcome.namespace}: {wrong}", file=sys.stderr)

    with api_server(out) as config:
        outcomes = freeze_leaders(
            config,
            out,
            chosen,
            jobs=options.jobs,
            replicas=options.replicas,
            lanes=options.lanes,
            on_outcome=on_outcome,
        )
    print(*table(outcomes), sep="\n")
    result = {"python": platform.python_version(), "freezes": [asdict(one) for one in outcomes]}
    (out / "freezes.json").write_text(json.dumps(result, indent=2) + "\n")
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Lines of a table: one for each freeze, and the sums."""
    titles = ("frozen at", "exit", "ended", "other leads", "renewed", "jobs run", "late", "wrong")
    yield "{:>18} {:>5} {:>7} {:>12} {:>8} {:>9} {:>5}  {}".format(*titles)
    for one in outcomes:
        moment = f"{one.moment.pods} pods +{one.moment.delay:.2f} s"
        wrong = "; ".join(one.wrong)[:200]
        yield (
            f"{moment:>18} {_shown(one.exit_code):>5} {_shown(one.ended):>7} "
            f"{_shown(one.succeeded):>12} {_shown(one.renewed):>8} {_shown(one.jobs_ran):>9} "
            f"{one.late_writes:>5}  {wrong}"
        )
    zombies = sum(bool(one.zombies) for one in outcomes)
    waits = [one.renewed for one in outcomes if one.renewed is not None]
    yield (
        f"Python {platform.python_version()}: {len(outcomes)} freezes, {zombies} with zombies, "
        f"{sum(bool(one.wrong) for one in outcomes)} with anything wrong; a leader renews "
        f"{_shown(max(waits, default=None))} s after the thaw at the latest"
    )


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.1f}"


if __name__ == "__main__":
    sys.exit(main())
