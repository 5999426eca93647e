"""di why."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from di_api.explain import Evidence, Explanation, Facts, explain
from di_api.wording import span
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.gather import gather
from di_cli.hints import scoped
from di_cli.output import print_lines, suggest
from di_cli.render.table import printable
from di_cli.session import open_session
from di_cli.views.explanation import as_object
from di_cli.views.times import clock


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
    """Explain why a job waits, was restarted or moved, or failed; and what to do."""
    with open_session(namespace, context, job=name, local=local) as session:
        facts = gather(session, name)
    found = explain(facts)
    if as_json:
        print_lines([json.dumps(as_object(found), indent=2, ensure_ascii=False)])
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
        lines.append(f"  {_REMEDY.label.ljust(width)}{printable(scoped(found.remedy))}")
    return lines


_REMEDY = Evidence(label="remedy", text="")
