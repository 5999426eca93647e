"""The report of `make faults`: how many plans, what they found, how to see it again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tools.faults.session import Results, Verdict


def write_report(results: Results, folder: Path, *, seconds: float) -> Path:
    """Write report.md and, for each plan that found something, its log."""
    folder.mkdir(parents=True, exist_ok=True)
    verdicts = results.verdicts
    found = [verdict for verdict in verdicts if verdict.wrong]
    missed = [verdict for verdict in verdicts if not verdict.was_met]
    lines = [
        "# Fault plans",
        "",
        f"{len(verdicts)} plans in {seconds:.0f} s; {len(found)} found something, "
        f"{len(missed)} did not meet their moment.",
        "",
        *_table(verdicts),
        "",
        "## What was found",
        "",
        *(_bugs(found, folder) or ["Nothing."]),
        "",
        "## Moments that did not come",
        "",
        *([f"- `{verdict.run.plan}`" for verdict in missed] or ["None."]),
    ]
    file = folder / "report.md"
    file.write_text("\n".join(lines) + "\n")
    return file


def _table(verdicts: Iterable[Verdict]) -> list[str]:
    plans: Counter[tuple[str, str]] = Counter()
    wrong: Counter[tuple[str, str]] = Counter()
    for verdict in verdicts:
        key = verdict.run.plan.workload, verdict.run.plan.rule
        plans[key] += 1
        wrong[key] += bool(verdict.wrong)
    rows = [
        f"| {workload} | {rule} | {count} | {wrong[workload, rule]} |"
        for (workload, rule), count in sorted(plans.items())
    ]
    return ["| workload | rule | plans | found something |", "|---|---|---|---|", *rows]


def _bugs(found: list[Verdict], folder: Path) -> list[str]:
    """One entry a kind of trouble, with the plan of the fewest faults and the shortest run."""
    kinds: dict[str, list[Verdict]] = {}
    for verdict in found:
        kinds.setdefault(verdict.wrong[0], []).append(verdict)
    lines: list[str] = []
    for number, (what, verdicts) in enumerate(kinds.items(), 1):
        shortest = min(verdicts, key=lambda one: (len(one.run.plan.faults), one.run.seconds))
        log = folder / f"bug-{number}.log"
        log.write_text(_story(shortest))
        lines += [
            f"### {what}",
            "",
            f"{len(verdicts)} plans; the shortest, log in {log.name}:",
            "",
            f"    python -m tools.faults --only '{shortest.run.plan}'",
            "",
            *(f"- {text}" for text in shortest.wrong),
            "",
            "Other plans:",
            "",
            *(f"- `{verdict.run.plan}`" for verdict in verdicts if verdict is not shortest),
            "",
        ]
    return lines


def _story(verdict: Verdict) -> str:
    run = verdict.run
    parts = ["requests:", *map(str, run.requests), "", "log:", run.logs]
    return "\n".join(parts) + "\n"
