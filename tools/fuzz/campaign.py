"""Targets side by side, each in a process of its own; what libFuzzer says of it is the result."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from typing_extensions import override

from tools.fuzz.outcome import Outcome, growth
from tools.fuzz.targets import Target

ROOT: Final = Path(__file__).resolve().parents[2]
LONGEST: Final = 16 * 1024
"""Bytes of an input."""
SLOWEST_SECONDS: Final = 10
"""Of one input; a longer one is a finding."""
MEMORY_MIB: Final = 1024
"""Of a process; more is a finding at once."""
_STATUS: Final = re.compile(r"^#(?P<runs>\d+)\s.*rss: (?P<rss>\d+)Mb", re.MULTILINE)
_COVERED: Final = re.compile(r"^#\d+\s.*cov: (\d+)", re.MULTILINE)
_DONE: Final = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_WRITTEN: Final = re.compile(r"Test unit written to (.+)")
# Time to start and to write the last statistics, beside the time asked for.
_MORE_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a target has had enough, whichever comes first."""

    seconds: int
    runs: int = -1
    """Inputs; -1: without end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed(Outcome):
    """What a run of one target has shown."""

    target: str
    runs: int
    covered: int
    """Edges of the program that some input has taken."""

    @property
    @override
    def inputs(self) -> int:
        return self.runs

    @property
    @override
    def title(self) -> str:
        return f"{self.target}: {self.runs} inputs, {self.covered} edges"


def run(
    targets: Sequence[Target],
    limits: Limits,
    out: Path,
    *,
    lanes: int,
    on_start: Callable[[Target], None] = lambda _: None,
    on_outcome: Callable[[Fed], None] = lambda _: None,
) -> list[Fed]:
    """Feed each target until its limits; the folder gets logs, corpora and findings."""

    def one(target: Target) -> Fed:
        on_start(target)
        outcome = _run_one(target, limits, out / target.name)
        on_outcome(outcome)
        return outcome

    with ThreadPoolExecutor(lanes) as pool:
        return list(pool.map(one, targets))


def _run_one(target: Target, limits: Limits, folder: Path) -> Fed:
    corpus, log = folder / "corpus", folder / "log"
    corpus.mkdir(parents=True, exist_ok=True)
    options = {
        "max_total_time": limits.seconds,
        "runs": limits.runs,
        "max_len": LONGEST,
        "timeout": SLOWEST_SECONDS,
        "rss_limit_mb": MEMORY_MIB,
        "print_final_stats": 1,
        "artifact_prefix": f"{folder}/",
    }
    command = [
        *(sys.executable, "-m", "tools.fuzz.one", target.name),
        *(f"-{option}={value}" for option, value in options.items()),
        *(str(corpus), str(target.seeds)),
    ]
    with log.open("wb") as output:
        process = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=limits.seconds + _MORE_SECONDS,
            check=False,
        )
    return read_outcome(target.name, process.returncode, log)


def read_outcome(target: str, code: int, log: Path) -> Fed:
    """The outcome of a run that ended with this code, from its log."""
    text = log.read_text(errors="replace")
    seen = [(int(each["runs"]), int(each["rss"])) for each in _STATUS.finditer(text)]
    runs = max([*(int(count) for count in _DONE.findall(text)), *(count for count, _ in seen), 0])
    rss = _early_and_late(seen, runs)
    wrong = list(_findings(target, text))
    if code and not wrong:
        wrong.append(f"ended with {code}, see {log}")
    wrong += growth(rss)
    return Fed(
        target=target,
        runs=runs,
        covered=max(map(int, _COVERED.findall(text)), default=0),
        rss_mib=rss,
        wrong=tuple(wrong),
        log=str(log),
    )


def _early_and_late(seen: Sequence[tuple[int, int]], runs: int) -> tuple[int, int]:
    """Largest size of the process in the first quarter of the inputs, and of all of them."""
    early = [size for count, size in seen if count <= runs / 4]
    return max(early, default=0), max((size for _, size in seen), default=0)


def _findings(target: str, text: str) -> Iterable[str]:
    # A finding of ours is written twice, under the same name.
    for file in dict.fromkeys(_WRITTEN.findall(text)):
        what = re.findall(r"=== Uncaught Python exception: ===\n(.+)", text)
        reason = what[-1] if what else "too slow, too large, or the process ended"
        yield f"{reason}; again by: python -m tools.fuzz.one {target} {file}"
