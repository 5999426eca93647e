"""Words and tables for what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.benchmarks import samples
from tools.benchmarks.operator.throughput import API_SERVER, CANDIDATE, Run, api_server_ms, ratios
from tools.benchmarks.testbed import CEILING, OPERATOR, RIVAL

Results = Mapping[str, Any]
THROUGHPUT = ("jobs_of_4", "jobs_of_64", "job_of_1000", "many_jobs")
_DISTURBED = 0.1
"""Part of the machine used by others above which absolute numbers say little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure and its bound; `at_least` turns the bound round."""

    what: str
    value: float
    bound: float
    unit: str = ""
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def cells(self) -> list[str]:
        sign = "≥" if self.at_least else "≤"
        unit = self.unit if self.unit in ("", "%") else f" {self.unit}"
        return [
            self.what,
            f"{sign} {self.bound:g}{unit}",
            f"{self.value:g}{unit}",
            "yes" if self.met else "**no**",
        ]


def quick_line(runs: Sequence[Run]) -> str:
    """The one line of a quick run: medians of ours, and those of the ratios to the rival."""
    ours = [run for run in runs if run.candidate == OPERATOR]
    rate = ratios(runs, RIVAL, lambda run: run.jobs_per_second)
    cost = ratios(runs, RIVAL, api_server_ms)
    return (
        f"{samples.median([run.jobs_per_second for run in ours], 1)} jobs/s, "
        f"{samples.median(rate):.2f} of the rival's; "
        f"{samples.median([api_server_ms(run) for run in ours], 1)} ms of the API server a job, "
        f"{samples.median(cost):.2f} of the rival's; "
        f"{samples.median([run.writes_per_job for run in ours], 1)} writes a job, "
        f"{samples.median([run.cpu_ms_per_job[CANDIDATE] for run in ours], 1)} CPU ms a job"
    )


def everything(results: Results) -> str:
    """All tables as Markdown; phases that were not run are left out."""
    parts = (rival(results), requests(results), tables(results))
    return "\n\n".join(part for part in parts if part)


def tables(results: Results) -> str:
    """The tables without those of `rival` and `requests`."""
    parts = (_targets(results), _throughput(results), _latency(results), conditions(results))
    return "\n\n".join(part for part in parts if part)


def rival(results: Results) -> str:
    """Ours beside the rival, of 200 jobs of four pods; empty if that was not run."""
    found = results.get("jobs_of_4")
    if not found:
        return ""
    ours, theirs = (_of(found["runs"], kind) for kind in (OPERATOR, RIVAL))
    against = found[RIVAL]
    rows = [
        ["jobs/s", *(_range(runs, _rate) for runs in (theirs, ours)), _ratio(against, _RATE)],
        [
            "processor time of the API server a job, ms",
            *(_range(runs, _api_server) for runs in (theirs, ours)),
            _ratio(against, _COST),
        ],
    ]
    for what, value in _BESIDE.items():
        medians = [samples.median([value(run) for run in runs]) for runs in (theirs, ours)]
        ratio = f"{medians[1] / medians[0]:.2f}" if medians[0] else ""
        rows.append([what, *(f"{median:g}" for median in medians), ratio])
    rounds = f"medians of {len(ours)} rounds (least to most)"
    return _table([rounds, "Kubeflow", "ours", "ours of Kubeflow's"], rows)


def requests(results: Results) -> str:
    """What each kind of request costs the API server; empty if that was not run."""
    found = results.get("requests")
    if not found:
        return ""
    rows = [
        [what, *(f"{found['milliseconds'][what][kind]:.2f}" for kind in (RIVAL, OPERATOR))]
        for what in found["milliseconds"]
    ]
    sizes = [
        [what, *(f"{kinds[kind]:,}" for kind in (RIVAL, OPERATOR))]
        for what, kinds in found["bytes"].items()
    ]
    return "\n\n".join(
        (
            _table(["processor time of the API server, ms", "Kubeflow", "ours"], rows),
            _table(["bytes of an object", "Kubeflow", "ours"], sizes),
        )
    )


_RATE, _COST = "jobs_per_second", "api_server_ms"


_OF_JOBS: Mapping[str, str] = {
    "operator: processor time until it is ready, s": "filled_cpu_seconds",
    "operator: memory when it is ready, MiB": "filled_mib",
    "operator: peak memory after two polls, MiB": "peak_mib",
    "operator: processor time of a poll and its reconciles, s": "poll_cpu_seconds",
    "`di list -A`: processor time, s": "list_cpu_seconds",
    "`di list -A`: peak memory, MiB": "list_mib",
}
_OF_GROWTH: Mapping[str, str] = {
    "the leader is killed: another one holds the Lease after, s": "lease_seconds",
    "the same: it decides again after, s": "failover_seconds",
    "its processor time meanwhile, s": "failover_cpu_seconds",
    "memory of the standby before, MiB": "standby_mib",
    "`di dashboard`: the list of jobs after its start, s": "page_seconds",
    "the same once more, s": "page_again_seconds",
    "size of that page, KiB": "page_kib",
    "`di dashboard`: processor time, s": "page_cpu_seconds",
    "`di dashboard`: peak memory, MiB": "page_mib",
}


def scale(results: Results) -> str:
    """What finished jobs cost, by their number; empty if no phase of that has run."""
    return _by_size(results, "memory", _OF_JOBS)


def growth(results: Results) -> str:
    """A failover and the page of jobs among them; empty if no phase of that has run."""
    return _by_size(results, "growth", _OF_GROWTH)


def _by_size(results: Results, phase: str, rows: Mapping[str, str]) -> str:
    phases = [results[name] for name in (phase, f"{phase}_100000") if name in results]
    sizes = [size for found in phases for size in found["sizes"]]
    if not sizes:
        return ""
    header = ["", *(f"{size['jobs']:,} jobs, {size['pods']:,} pods" for size in sizes)]
    values = [[name, *(f"{size[key]:g}" for size in sizes)] for name, key in rows.items()]
    return _table(header, values)


def _rate(run: Mapping[str, Any]) -> float:
    rate: float = run[_RATE]
    return rate


def _api_server(run: Mapping[str, Any]) -> float:
    used: float = run["cpu_ms_per_job"][API_SERVER]
    return used


_BESIDE: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "writes a job": lambda run: run["writes_per_job"],
    "writes a job, with everybody's": lambda run: sum(run["all_writes"].values()),
    "create to all pods, p50, s": lambda run: run["create_to_pods_ms"]["p50"] / 1000,
    "create to all pods, last job, s": lambda run: run["last_job_has_its_pods"],
    "processor time of the operator a job, ms": lambda run: run["cpu_ms_per_job"][CANDIDATE],
    "part of the jobs seen Running": lambda run: run["running_seen"] / run["jobs"],
    "peak memory of the operator, MiB": lambda run: run["peak_memory_mib"],
}


def _range(runs: Sequence[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], float]) -> str:
    values = sorted(map(value, runs))
    return f"{samples.median(values, 1)} ({values[0]:.1f} to {values[-1]:.1f})"


def _ratio(against: Mapping[str, Sequence[float]], key: str) -> str:
    values = sorted(against[key])
    return f"{samples.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def targets(results: Results) -> Iterator[Target]:
    """Each figure that has a bound, as far as it was measured."""
    yield from _targets_of_throughput(results)
    if found := results.get("requests"):
        what = "status of a job of 10,000 variables"
        yield Target(
            what=f"{what}, of the API server",
            value=found["milliseconds"][what][OPERATOR],
            bound=20,
            unit="ms",
        )
    if found := results.get("latency"):
        alone, pods = found["alone"], found["alone"]["create_to_pods_ms"]
        yield Target(what="writes, a 4-pod job alone", value=alone["writes_per_job"], bound=13)
        yield Target(
            what="one job alone: create to its 4 pods, p50", value=pods["p50"], bound=20, unit="ms"
        )
        yield Target(what="same, p99", value=pods["p99"], bound=100, unit="ms")
        beside = found["beside_large"]
        yield Target(
            what=f"same, beside one of {beside['replicas']:,} pods that starts, p50",
            value=beside["small"]["create_to_pods_ms"]["p50"],
            bound=150,
            unit="ms",
        )
    if found := results.get("tenants"):
        yield Target(
            what=f"a job beside {found['backlog']:,} of another tenant: to its 4 pods, p50",
            value=found["small"]["create_to_pods_ms"]["p50"],
            bound=1000,
            unit="ms",
        )
    if found := results.get("many_jobs"):
        ours, rest = _of(found["runs"], OPERATOR)[0], found["idle"]
        yield Target(
            what="10,000 jobs: rate of the last tenth against the first",
            value=round(ours["rates"][-1] / ours["rates"][0], 2),
            bound=0.9,
            at_least=True,
        )
        yield Target(
            what="memory, those 10,000 jobs and 1,000 running, peak",
            value=rest["peak_memory_mib"],
            bound=300,
            unit="MiB",
        )
        yield Target(
            what="idle among them: API calls", value=rest["calls_per_second"], bound=1, unit="a s"
        )
        yield Target(
            what="same, of a core", value=round(100 * rest["cpu_share"], 2), bound=2, unit="%"
        )
    if found := results.get("job_of_4096"):
        yield Target(
            what=f"1 job x {found['pods']:,}: longest hold of the event loop",
            value=found["longest_hold_ms"],
            bound=50,
            unit="ms",
        )
    if found := results.get("memory"):
        largest = found["sizes"][-1]
        yield Target(
            what=f"memory, {largest['jobs']:,} jobs and {largest['pods']:,} pods, peak",
            value=largest["peak_mib"],
            bound=300,
            unit="MiB",
        )
    if found := results.get("admission"):
        latency = found["latency_ms"]
        yield Target(what="admission, 200/s, p50", value=latency["p50"], bound=3, unit="ms")
        yield Target(what="same, p99", value=latency["p99"], bound=15, unit="ms")
    yield from _targets_of_services(results)


def _targets_of_services(results: Results) -> Iterator[Target]:
    if found := results.get("creates"):
        judged, other = found["with_webhook_ms"], found["without_ms"]
        added = "a job of four tasks is created: added by admission"
        yield Target(what=f"{added}, p50", value=judged["p50"] - other["p50"], bound=8, unit="ms")
        yield Target(what="same, p99", value=judged["p99"] - other["p99"], bound=25, unit="ms")
        bursts = (found["burst_with_webhook_ms"], found["burst_without_ms"])
        yield Target(
            what=f"same, {found['burst']} jobs by one `kubectl create`, a job",
            value=samples.median([one - two for one, two in zip(*bursts, strict=True)]),
            bound=8,
            unit="ms",
        )
    if found := results.get("rest_scaling"):
        acknowledged, there = found["acknowledged_ms"]["p99"], found["pods_there_ms"]["p99"]
        memory = found["server_memory_mib"]
        yield Target(what="REST scaling acknowledged, p99", value=acknowledged, bound=50, unit="ms")
        yield Target(
            what="same, of the same changes without di-server",
            value=found["p99_ratio"],
            bound=1.25,
            unit="",
        )
        yield Target(
            what=f"REST scaling at {found['paced_rate']} requests a second, p99",
            value=found["paced_ms"]["p99"],
            bound=50,
            unit="ms",
        )
        yield Target(what="its pod is there, p99", value=there, bound=300, unit="ms")
        yield Target(what="memory of the server", value=memory, bound=120, unit="MiB")
    if found := results.get("coordinators"):
        listed, created = found["list_ms"]["p99"], found["create_ms"]["p99"]
        rate, pods = found["rate"], found["created_pods_ms"]
        yield Target(
            what=f"coordinators list replicas, {rate}/s, p99", value=listed, bound=20, unit="ms"
        )
        yield Target(
            what="a coordinator asks for 100 replicas, p99", value=created, bound=50, unit="ms"
        )
        yield Target(what="all their pods are there, p50", value=pods["p50"], bound=1000, unit="ms")
        yield Target(what="same, p99", value=pods["p99"], bound=1000, unit="ms")
    if found := results.get("members"):
        for what, key in (
            (f"a change seen by {found['members']:,} members that wait, p99", "seen_by_all_ms"),
            ("same, after one of three servers was killed, p99", "seen_by_all_after_kill_ms"),
        ):
            yield Target(what=what, value=found[key]["p99"], bound=200, unit="ms")


def _targets_of_throughput(results: Results) -> Iterator[Target]:
    if found := results.get("jobs_of_4"):
        ours = _of(found["runs"], OPERATOR)
        yield Target(
            what="200 jobs x 4: jobs/s of Kubeflow's",
            value=samples.median(found[RIVAL][_RATE]),
            bound=1.25,
            at_least=True,
        )
        yield Target(
            what="same, processor time of the API server",
            value=samples.median(found[RIVAL][_COST]),
            bound=0.9,
        )
        yield Target(
            what="writes a job in that burst", value=_median(ours, "writes_per_job"), bound=9
        )
        yield Target(
            what="operator's processor time a job",
            value=samples.median([run["cpu_ms_per_job"][CANDIDATE] for run in ours]),
            bound=10,
            unit="ms",
        )
        yield Target(
            what="last of 200 jobs has its pods",
            value=_median(ours, "last_job_has_its_pods"),
            bound=2.5,
            unit="s",
        )
        yield Target(
            what="memory at 200 jobs, peak",
            value=max(run["peak_memory_mib"] for run in ours),
            bound=90,
            unit="MiB",
        )
    if found := results.get("jobs_of_64"):
        ours = _of(found["runs"], OPERATOR)
        yield Target(
            what="writes besides pods, a 64-pod job",
            value=samples.median(
                [run["writes_per_job"] - run["writes"]["POST pods"] for run in ours]
            ),
            bound=10,
        )
    if found := results.get("job_of_1000"):
        ours = _of(found["runs"], OPERATOR)
        running = samples.median([run["ready_to_running_ms"]["max"] for run in ours]) / 1000
        yield Target(
            what="1 job x 1,000: all pods created",
            value=_median(ours, "last_job_has_its_pods"),
            bound=3,
            unit="s",
        )
        yield Target(
            what="same, Running after the last ready",
            value=round(running, 3),
            bound=1,
            unit="s",
        )
    runs = [
        run for name in THROUGHPUT for run in _of(results.get(name, {}).get("runs", ()), OPERATOR)
    ]
    if runs:
        yield Target(
            what="jobs seen Running, of all in every workload",
            value=round(
                100 * sum(r["running_seen"] for r in runs) / sum(r["jobs"] for r in runs), 2
            ),
            bound=100,
            unit="%",
            at_least=True,
        )


def _targets(results: Results) -> str:
    rows = [target.cells() for target in targets(results)]
    return _table(["", "target", "measured", "met"], rows) if rows else ""


def _throughput(results: Results) -> str:
    rows = []
    for name in THROUGHPUT:
        found = results.get(name, {"runs": ()})
        for kind in (OPERATOR, RIVAL, CEILING):
            if not (runs := _of(found["runs"], kind)):
                continue
            rates = sorted(run["jobs_per_second"] for run in runs)
            cpu = {
                part: samples.median([run["cpu_ms_per_job"][part] for run in runs], 1)
                for part in (CANDIDATE, API_SERVER, "etcd")
            }
            rows.append(
                [
                    runs[0]["workload"],
                    kind,
                    " / ".join(f"{r:.3g}" for r in (rates[0], statistics.median(rates), rates[-1])),
                    f"{statistics.median(found[CEILING][_RATE]):.0%}" if kind == OPERATOR else "",
                    f"{_median(runs, 'pods_per_second'):g}",
                    f"{_median(runs, 'writes_per_job'):g} / {_everybodys_writes(runs):g}",
                    " + ".join(f"{used:g}" for used in cpu.values()),
                    f"{max(run['peak_memory_mib'] for run in runs):g}",
                ]
            )
    header = ["jobs x pods", "who", "jobs/s: min / median / max", "of the ceiling", "pods/s"]
    header += [
        "writes a job: its own / everybody's",
        "CPU ms a job: itself + API server + etcd",
        "peak MiB",
    ]
    return _table(header, rows) if rows else ""


def latency_cases(found: Results) -> dict[str, Mapping[str, Any]]:
    """What was measured of one job's latency, by the words for it."""
    beside = found["beside_large"]
    large = f"while a job of {beside['replicas']} pods starts"
    return {
        "alone": found["alone"],
        "alone, Kubeflow": found["rival_alone"],
        f"among others, {found['rate']:g} jobs/s": found["among_others"],
        large: beside["small"],
    }


def _latency(results: Results) -> str:
    found = results.get("latency")
    if not found:
        return ""
    rows = [
        [
            name,
            str(case["jobs"]),
            *(
                f"{case[what]['p50']:g} / {case[what]['p99']:g}" if case[what] else ""
                for what in ("create_to_pods_ms", "ready_to_running_ms")
            ),
            f"{case['running_seen']}",
        ]
        for name, case in latency_cases(found).items()
    ]
    header = ["a job of 4 pods", "jobs", "create to all pods, ms: p50 / p99"]
    header += ["last ready to Running, ms: p50 / p99", "seen Running"]
    return _table(header, rows)


def conditions(results: Results, phases: Collection[str] | None = None) -> str:
    """What a reader must know before believing the numbers of these phases, or of all."""
    lines = []
    found = [results[name] for name in (results if phases is None else phases) if name in results]
    if machine := results.get("machine"):
        lines.append(
            f"Machine: {machine['processors']} processors, {machine['memory_gib']} GiB, "
            f"Linux {machine['kernel']}, Python {machine['python']}."
        )
    if dates := sorted({each["date"] for each in found if "date" in each}):
        lines.append(f"Measured on {', '.join(dates)}.")
    if node := results.get("node"):
        lines.append(
            f"The fake node alone makes {node['pods_per_second']:g} pods/s ready "
            f"({node['cpu_ms_per_pod']:g} ms of its processor time each)."
        )
    measured = [run for each in found for run in (*each.get("runs", ()), each)]
    strangers = max((one.get("strangers", 0.0) for one in measured), default=0.0)
    if strangers > _DISTURBED:
        lines.append(
            f"Other programs used up to {strangers:.0%} of the machine meanwhile: only ratios "
            "within a round mean something."
        )
    return "\n".join(lines)


def _of(runs: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [run for run in runs if run["candidate"] == kind]


def _median(runs: Iterable[Mapping[str, Any]], key: str) -> float:
    return samples.median([run[key] for run in runs])


def _everybodys_writes(runs: Iterable[Mapping[str, Any]]) -> float:
    return samples.median([sum(run["all_writes"].values()) for run in runs], 1)


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
