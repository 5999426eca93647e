"""di why."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from di_api.explain import Evidence, Explanation, Facts, explain
from di_api.explain.signs import is_well
from di_api.kube.errors import ApiError, NotFound
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.logs.read import last_lines
from di_cli.output import print_lines, suggest
from di_cli.render.table import printable
from di_cli.session import Session, open_session
from di_cli.views.pods import in_order, name_of
from di_cli.views.times import clock, span

_LOGS = 3
"""Pods whose logs are looked at."""
_LINES = 20


def why(
    name: JobName,
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Cause, evidence and remedy for programs.")
    ] = False,
) -> None:
    """Say why a job waits, was restarted or moved, or failed, and what to do."""
    with open_session(namespace, context, job=name, local=local) as session:
        facts = gather(session, name)
    found = explain(facts)
    if as_json:
        print_lines([json.dumps(_as_json(found), indent=2, ensure_ascii=False)])
    elif facts.job is None:
        raise CommandError(
            found.summary,
            where="; ".join(f"{each.label}: {each.text}" for each in found.evidence),
            remedy=found.remedy,
            code=ExitCode.NOT_FOUND,
        )
    else:
        print_lines(_paragraph(found, facts))
        suggest(f"di logs {name}", f"di events {name}")


def gather(session: Session, name: str) -> Facts:
    """Read all that an explanation is made from; what the user may not read is left out."""
    try:
        job = session.job(name)
    except NotFound:
        names = [str(each["metadata"]["name"]) for each in session.jobs()]
        return Facts(
            name=name, namespace=session.namespace, now=session.now(), job=None, jobs=names
        )
    pods = _readable(session.pods, name)
    return Facts(
        name=name,
        namespace=session.namespace,
        now=session.now(),
        job=job,
        pods=pods,
        events=_readable(session.events, name),
        nodes=session.nodes(),
        logs=_logs(session, pods),
    )


def _readable(read: Any, name: str) -> Any:
    try:
        return read(name)
    except ApiError:
        return []


def _logs(session: Session, pods: list[dict[str, Any]]) -> dict[str, list[str]]:
    unwell = [pod for pod in in_order(pods) if not is_well(pod)][:_LOGS]
    found = {name_of(pod): last_lines(session, dict(pod), _LINES) for pod in unwell}
    return {pod: lines for pod, lines in found.items() if lines}


def _paragraph(found: Explanation, facts: Facts) -> list[str]:
    width = max((len(each.label) for each in (*found.evidence, _REMEDY)), default=0) + 2
    lines = [printable(found.summary)]
    for each in found.evidence:
        first, *others = each.text.splitlines() or [""]
        when = ""
        if each.at is not None:
            ago = span((facts.now - each.at).total_seconds())
            when = f" ({clock(each.at)}, {ago} ago)"
        lines.append(f"  {each.label.ljust(width)}{printable(first)}{when}")
        lines += [f"  {''.ljust(width)}{printable(line)}" for line in others]
    if found.remedy:
        lines.append(f"  {_REMEDY.label.ljust(width)}{printable(found.remedy)}")
    return lines


_REMEDY = Evidence(label="remedy", text="")


def _as_json(found: Explanation) -> dict[str, Any]:
    return {
        "cause": found.cause.value,
        "summary": found.summary,
        "evidence": [
            {
                "label": each.label,
                "text": each.text,
                **({"at": each.at.isoformat()} if each.at else {}),
            }
            for each in found.evidence
        ],
        "remedy": found.remedy,
    }
