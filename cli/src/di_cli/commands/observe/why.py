"""di why."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from di_api.explain import explain
from di_api.profilings import tracking_url_of
from di_cli.commands.options import Context, JobName, Local, Namespace
from di_cli.errors import unknown_job
from di_cli.gather import gather
from di_cli.output import print_lines, suggest
from di_cli.render.explanation import paragraph
from di_cli.session import open_session
from di_cli.views.explanation import as_object


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
        raise unknown_job(found)
    else:
        print_lines(paragraph(found, facts.now, tracking=tracking_url_of(facts.job)))
        suggest(f"di logs {name}", f"di events {name}")
