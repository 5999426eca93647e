"""di version."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.metadata import version as installed
from typing import Annotated, Final

import typer

from di_api.names import GROUP, SYSTEM_NAMESPACE
from di_cli.commands.admin.doctor import Form
from di_cli.commands.options import Context, Namespace, System
from di_cli.diagnosis.versions import Versions, versions
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import Output, print_lines, print_value
from di_cli.reader import Reader
from di_cli.session import open_session
from di_cli.survey import OF_RELEASES, VERSION
from di_kube.resources import DEPLOYMENTS, DIJOBS
from di_kube.wire import Target

_GROUP: Final = f"/apis/{GROUP}"


def version(
    *,
    client: Annotated[
        bool, typer.Option("--client", help="Only of this program; no cluster is needed.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
    system: System = None,
    output: Annotated[Form, typer.Option("--output", "-o", help="Output format.")] = Form.TABLE,
) -> None:
    """Print the versions of di, the services and the cluster."""
    if client:
        _print(Versions(program=installed("di-cli")), output)
        return
    with ExitStack() as stack:
        try:
            session = stack.enter_context(open_session(namespace, context))
        except CommandError:
            # Without a cluster there is this program.
            _print(Versions(program=installed("di-cli")), output)
            raise
        reader = Reader(session)
        kubernetes = reader.path("/version", Target(VERSION, None, "/version"))
        deployments = reader.list(DEPLOYMENTS, system, selector=OF_RELEASES)
        if deployments.is_refused and system is None:
            deployments = reader.list(DEPLOYMENTS, SYSTEM_NAMESPACE, selector=OF_RELEASES)
        group = reader.path(_GROUP, Target(DIJOBS, None, _GROUP))
    _print(
        versions(installed("di-cli"), kubernetes=kubernetes, group=group, deployments=deployments),
        output,
    )
    if kubernetes.code == 0:
        raise CommandError(
            "the API server does not answer",
            where=kubernetes.words,
            remedy="di version --client",
            code=ExitCode.UNAVAILABLE,
        )


def _print(found: Versions, output: Form) -> None:
    if output is Form.JSON:
        print_value(found.as_object(), Output.JSON)
    else:
        print_lines(found.lines())
