"""The history of a job as lines for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from di_api.field_error import items, mapping
from di_api.timestamps import parse_time
from di_cli.views.describe import code_of
from di_cli.views.times import local

TIMELINE: Final = ("TIME", "WHAT", "DETAILS")
REVISIONS: Final = ("REVISION", "TIME", "BY")
RUNS: Final = ("JOB", "PHASE", "CREATED", "ENDED", "BY", "UID")
PLACEMENTS: Final = ("POD", "NODE", "FROM", "UNTIL", "OUTCOME")
_LONGEST: Final = 160
Object = Mapping[str, Any]


def head(found: Object) -> str:
    """Return the job in one line."""
    job = mapping(found.get("job"))
    ended = job.get("deleted") or job.get("completed")
    state = "deleted" if job.get("deleted") else str(job.get("phase") or "").lower()
    until = f", {state} {_time(ended)}" if ended else f", {state}"
    return f"{job.get('name')} created {_time(job.get('created'))} by {job.get('owner')}{until}"


def timeline(found: Object) -> list[tuple[str, ...]]:
    """Return a row for each entry, with the log tail of a pod below its failure."""
    rows: list[tuple[str, ...]] = []
    for entry in map(mapping, items(found.get("timeline"))):
        rows.append((_time(entry.get("at")), str(entry.get("kind")), _short(_details(entry))))
        lines = str(entry.get("lastLines") or "").splitlines()
        # Each begins with its time.
        rows += [("", "", f"  {_short(line.partition(' ')[2])}") for line in lines[-3:]]
    return rows


def revisions(found: Object) -> list[tuple[str, ...]]:
    """Return a row for each revision."""
    return [
        (str(each.get("number")), _time(each.get("at")), str(each.get("who") or ""))
        for each in map(mapping, items(found.get("revisions")))
    ]


def codes(manifests: Mapping[int, Object]) -> list[str]:
    """Return a line for each revision with the hash and the git commit of its code; empty if no
    revision has code.
    """
    found = {number: code_of(mapping(each.get("spec"))) for number, each in manifests.items()}
    if not any(found.values()):
        return []
    return [f"code of revision {number}: {text or 'none'}" for number, text in found.items()]


def runs(jobs: Iterable[Object]) -> list[tuple[str, ...]]:
    """Return a row for each job that the history has, the newest first."""
    return [
        (
            str(each.get("name") or ""),
            str(each.get("phase") or ""),
            _time(each.get("created")),
            _time(each.get("completed") or each.get("deleted")),
            str(each.get("owner") or ""),
            str(each.get("uid") or ""),
        )
        for each in jobs
    ]


def placements(found: Object) -> list[tuple[str, ...]]:
    """Return a row for each pod that was on a node."""
    return [
        (
            str(each.get("pod")),
            str(each.get("node")),
            _time(each.get("since")),
            _time(each.get("until")),
            " ".join(
                part
                for part in (str(each.get("outcome") or ""), str(each.get("reason") or ""))
                if part
            ),
        )
        for each in map(mapping, items(found.get("placements")))
    ]


def ended_pods(
    found: Object, task: str | None, rank: int | None, *, whole: bool = False
) -> list[str]:
    """Return the names of the pods with a log tail, or a whole log, of one task or rank if
    requested.
    """
    placed = {
        str(each.get("pod")): (each.get("task"), each.get("rank"))
        for each in map(mapping, items(found.get("placements")))
    }

    def is_meant(pod: str) -> bool:
        of_task, of_rank = placed.get(pod, (None, None))
        return (task is None or of_task == task) and (rank is None or of_rank == rank)

    kept = (mapping(each) for each in items(found.get("logs")))
    is_kept = (lambda log: log.get("object")) if whole else (lambda log: not log.get("note"))
    names = (str(each.get("pod")) for each in kept if is_kept(each))
    return [name for name in dict.fromkeys(names) if is_meant(name)]


def merged(logs: Iterable[tuple[str, str]], tail: int | None) -> list[tuple[str, str]]:
    """Pod and text of the lines of some logs, in order of time; of each log the last `tail`, or
    all of it."""
    found: list[tuple[str, int, str, str]] = []
    for pod, text in logs:
        for number, line in enumerate(
            text.splitlines()[-tail if tail else None :] if tail != 0 else ()
        ):
            time, _, rest = line.partition(" ")
            found.append((time, number, pod, rest))
    return [(pod, rest) for _, _, pod, rest in sorted(found, key=lambda line: line[:2])]


def _details(entry: Object) -> str:
    told = _DETAILS.get(str(entry.get("kind")))
    return told(entry).strip() if told else ""


def _said(entry: Object, *names: str) -> str:
    return " ".join(str(entry[name]) for name in names if entry.get(name) not in (None, ""))


def _gap(entry: Object) -> str:
    changed = ", ".join(map(str, items(entry.get("changed")))) or "unknown"
    return f"nobody looked since {_time(entry.get('from'))}; changed: {changed}"


def deleter(entry: Object) -> str:
    """Return what is known about who deleted a job, by the entry of its deletion."""
    if entry.get("expired") is True:
        return "its ttlSecondsAfterFinished was over"
    return "only the audit log of the API server has who deleted it"


def _failure(entry: Object) -> str:
    code = entry.get("exitCode")
    return "  ".join(
        part
        for part in (
            _said(entry, "pod"),
            "" if code is None else f"exit code {code}",
            _said(entry, "reason"),
        )
        if part
    )


_DETAILS: Final[Mapping[str, Callable[[Object], str]]] = {
    "phase": lambda e: f"{_said(e, 'before')} -> {_said(e, 'phase')}  {_said(e, 'message')}",
    "restart": lambda e: f"{_said(e, 'restarts')} so far  {_said(e, 'message')}",
    "failure": _failure,
    "scaling": lambda e: (
        f"{_said(e, 'task')} {e.get('before')} -> {e.get('after')}  by {_said(e, 'who')}"
    ),
    "allocation": lambda e: f"{_nodes(e.get('before'))} -> {_nodes(e.get('after'))}",
    "condition": lambda e: f"{_said(e, 'type')} is {_said(e, 'status')}  {_said(e, 'message')}",
    "event": lambda e: f"{_said(e, 'reason', 'object')}  {_said(e, 'message')}",
    "deleted": lambda e: (
        f"not before {_time(e['after'])}; {deleter(e)}" if "after" in e else deleter(e)
    ),
    "gap": _gap,
}


def _nodes(by_task: object) -> str:
    counts: dict[str, int] = {}
    for nodes in mapping(by_task).values():
        for node, count in mapping(nodes).items():
            counts[str(node)] = counts.get(str(node), 0) + int(count)
    return ", ".join(f"{count} on {node}" for node, count in sorted(counts.items())) or "nowhere"


def _time(value: object) -> str:
    return local(parse_time(value))


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 3]}..."
