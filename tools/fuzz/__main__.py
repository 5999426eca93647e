"""Input of strangers without end, and whether anything gives way.

    python -m tools.fuzz [--seconds 600] [--runs 1000000] [--only admission,rest] [--lanes 2]

Each target gets as many seconds, or as many inputs, whichever comes first. Logs, inputs that broke
something and a report are written to out/fuzz; prints a line a target and one at the end, and
twice a minute how far all targets are.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.integration.conftest import api_server_with_crd, fresh_namespace
from tools.fuzz import campaign, rest
from tools.fuzz.campaign import Limits
from tools.fuzz.outcome import Outcome
from tools.fuzz.targets import TARGETS
from tools.fuzz.turns import Turns
from tools.lanes.progress import shown

REST = "rest"
LONG_SECONDS = 3600
LONG_RUNS = 1_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns the number of the process: 1 if anything broke."""
    options = _parser().parse_args(arguments)
    names = [name for name in options.only.split(",") if name] or [*TARGETS, REST]
    limits = Limits(seconds=options.seconds, runs=options.runs)
    out: Path = options.out.absolute()
    started = time.monotonic()
    targets = [TARGETS[name] for name in names if name != REST]
    turns = Turns(
        targets=[target.name for target in targets],
        aside=[each for each in names if each == REST],
        seconds=options.seconds,
        lanes=options.lanes,
    )

    def on_outcome(outcome: campaign.Fed) -> None:
        _tell(outcome)
        turns.end(outcome.target)

    with shown(turns.state), ThreadPoolExecutor(1) as aside:
        served = aside.submit(_fuzz_rest, options.seconds, out, turns) if REST in names else None
        found: list[Outcome] = [
            *campaign.run(
                targets,
                limits,
                out,
                lanes=options.lanes,
                on_start=lambda target: turns.start(target.name),
                on_outcome=on_outcome,
            ),
            *(served.result() if served else ()),
        ]
    wrong = sum(len(each.wrong) for each in found)
    report = out / "report.json"
    report.write_text(json.dumps([dataclasses.asdict(each) for each in found], indent=2) + "\n")
    print(
        f"fuzz: {sum(each.inputs for each in found)} inputs to {len(found)} targets in "
        f"{time.monotonic() - started:.0f} s, {wrong} findings: {report}"
    )
    return 1 if wrong else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", default="", metavar="NAMES", help=f"with commas: {', '.join([*TARGETS, REST])}"
    )
    parser.add_argument("--seconds", type=int, default=LONG_SECONDS, help="of each target at most")
    parser.add_argument("--runs", type=int, default=LONG_RUNS, help="inputs of each at most")
    parser.add_argument("--lanes", type=int, default=2, help="targets side by side, beside rest")
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"), help="the report's folder")
    return parser


def _fuzz_rest(seconds: int, out: Path, turns: Turns) -> list[rest.Asked]:
    with (
        api_server_with_crd("fuzz") as (cluster, config),
        fresh_namespace(config) as namespace,
    ):
        kubectl = cluster.binary("kubectl")
        turns.start(REST)
        found = rest.run(
            cluster.kubeconfig, kubectl, namespace, out, seconds=seconds, on_outcome=_tell
        )
        turns.end(REST)
        return found


def _tell(outcome: Outcome) -> None:
    print(outcome.line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
