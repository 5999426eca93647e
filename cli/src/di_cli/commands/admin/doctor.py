"""di doctor."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from di_cli.commands.options import Context, Namespace, System
from di_cli.diagnosis import Severity, count, diagnose, shown
from di_cli.exit_codes import ExitCode
from di_cli.output import print_lines, suggest
from di_cli.render.table import printable
from di_cli.session import open_session
from di_cli.survey import survey


class Form(StrEnum):
    """Output format of findings."""

    TABLE = "table"
    JSON = "json"


def doctor(
    *,
    namespace: Namespace = None,
    context: Context = None,
    system: System = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="Output format.")] = Form.TABLE,
) -> int:
    """Look for what is wrong with the cluster and the installation; change nothing."""
    with open_session(namespace, context) as session:
        reports = diagnose(survey(session, system))
    if output is Form.JSON:
        print_lines([json.dumps(shown.as_object(reports), indent=2, ensure_ascii=False)])
    else:
        print_lines(map(printable, shown.lines(reports)))
        suggest("di bundle --all", "di why JOB")
    return ExitCode.FAULTS_FOUND if count(reports, Severity.FAULT) else ExitCode.DONE
