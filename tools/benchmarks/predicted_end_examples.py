"""How often a run of an example ends within the interval that its status foretold.

    python -m tools.benchmarks.predicted_end_examples [--output FOLDER]

Runs programs of the examples that know their last step, without a cluster, by `di run`, in several
lengths and with several numbers of learners, and looks at the status every two seconds. A reading
holds if the run ended in the interval that it had. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

from di_api.expected_completion import ExpectedCompletion

ROOT: Final = Path(__file__).resolve().parents[2]
EXAMPLES: Final = ROOT / "examples"
_DI: Final = Path(sys.executable).with_name("di")
_PERIOD: Final = 2.0
_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A run: so many learners, and the variables of its program."""

    name: str
    replicas: int
    variables: Mapping[str, str]


CASES: Final = tuple(
    Case(
        name=f"share, {replicas} x {steps} steps of {batch} samples",
        replicas=replicas,
        variables={"STEPS": str(steps), "BATCH": str(batch)},
    )
    for replicas in (1, 2)
    for steps, batch in ((300, 64), (600, 64), (1200, 32), (300, 128))
)
"""A minute and a half to three; before half a minute nothing is told of an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Of one run; shares of readings."""

    name: str
    seconds: float
    readings: int
    holds: float
    early: float
    late: float
    off: float


def manifest(case: Case) -> dict[str, Any]:
    """The example's job, of a fixed size and without limits, which a process has none of."""
    body: dict[str, Any] = yaml.safe_load((EXAMPLES / "share" / "job.yaml").read_text())
    (task,) = body["spec"]["tasks"]
    task |= {"replicas": case.replicas, "minReplicas": case.replicas, "maxReplicas": case.replicas}
    body["spec"]["preemptible"] = False
    (container,) = task["template"]["spec"]["containers"]
    container["command"] = [sys.executable, "-m", "di_share.main"]
    container["env"] = [{"name": name, "value": value} for name, value in case.variables.items()]
    return body


def readings(case: Case, home: Path) -> Iterator[tuple[datetime, dict[str, Any]]]:
    """The statuses of a run, each with when it was read; the last one, empty, is its end."""
    path = home / "job.yaml"
    path.write_text(yaml.safe_dump(manifest(case)))
    environment = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(
            (str(EXAMPLES / "share" / "src"), os.environ.get("PYTHONPATH", ""))
        ),
    }
    look = [str(_DI), "get", "share", "--local", "--output", "json"]
    with subprocess.Popen(
        [str(_DI), "run", str(path)], env=environment, cwd=home, stdout=subprocess.DEVNULL
    ) as process:
        deadline = time.monotonic() + _SECONDS
        while process.poll() is None:
            assert time.monotonic() < deadline, case
            said = subprocess.run(look, env=environment, cwd=home, capture_output=True, check=False)
            if said.returncode == 0:
                yield datetime.now(UTC), json.loads(said.stdout).get("status") or {}
            with suppress(subprocess.TimeoutExpired):
                process.wait(_PERIOD)
        yield datetime.now(UTC), {}
        assert process.returncode == 0, case


def score(case: Case, found: Sequence[tuple[datetime, Mapping[str, Any]]]) -> Score:
    """How well the end was foretold."""
    *before, (end, _) = found
    began = before[0][0]
    told = [
        (at, expected)
        for at, status in before
        if (expected := ExpectedCompletion.read(status.get("expectedCompletion"))) is not None
        and at < end
    ]
    # Times are whole seconds.
    early = [(expected.earliest - end).total_seconds() > 1 for _, expected in told]
    late = [(end - expected.latest).total_seconds() > 1 for _, expected in told]
    off = sorted(
        abs((expected.expected - end).total_seconds()) / max(1.0, (end - at).total_seconds())
        for at, expected in told
    )
    count = len(told)
    return Score(
        name=case.name,
        seconds=(end - began).total_seconds(),
        readings=count,
        holds=1 - (sum(early) + sum(late)) / count,
        early=sum(early) / count,
        late=sum(late) / count,
        off=off[count // 2],
    )


def carry_out(case: Case) -> Score:
    """Run one, and score it."""
    with tempfile.TemporaryDirectory() as home:
        return score(case, list(readings(case, Path(home))))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--output", type=Path, default=Path("out/predicted-end"))
    options = parser.parse_args(arguments)
    print("| run | seconds | readings | hold | ended earlier | later | off |")
    print(f"|{'---|' * 7}")
    # Side by side: their learners sleep for most of the time.
    with ThreadPoolExecutor(len(CASES)) as pool:
        scores = list(pool.map(carry_out, CASES))
    for found in scores:
        print(
            f"| {found.name} | {found.seconds:.0f} | {found.readings} | {found.holds:.0%} | "
            f"{found.early:.0%} | {found.late:.0%} | {found.off:.0%} |"
        )
    total = sum(each.readings for each in scores)
    holds = sum(each.holds * each.readings for each in scores) / total
    mean = sum(each.holds for each in scores) / len(scores)
    print(f"{holds:.0%} of {total} readings hold, {mean:.0%} by run")
    options.output.mkdir(parents=True, exist_ok=True)
    text = json.dumps([asdict(each) for each in scores], indent=1)
    (options.output / "examples.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
