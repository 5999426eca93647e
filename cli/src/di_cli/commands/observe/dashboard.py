"""di dashboard: the page in a browser, from the package di-dashboard."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from di_cli.access.credentials import authority_pem
from di_cli.access.history import SERVER_VARIABLE
from di_cli.commands.history_options import Account, Authority, TlsServerName
from di_cli.commands.options import Context, Local, Namespace
from di_cli.errors import CommandError, from_clone
from di_cli.exit_codes import ExitCode
from di_cli.output import say
from di_cli.session import open_session


def dashboard(
    *,
    namespace: Namespace = None,
    context: Context = None,
    local: Local = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; absent: a free one.")
    ] = 0,
    path: Annotated[
        str,
        typer.Option(help="Path prefix of all addresses, such as /di/."),
    ] = "/",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Offer no actions that change a job.")
    ] = False,
    history: Annotated[
        str | None,
        typer.Option(
            help=f"Where di-history is reached; absent: ${SERVER_VARIABLE}, or kubectl "
            "port-forward. `none` asks nobody."
        ),
    ] = None,
    account: Account = None,
    authority: Authority = None,
    tls_server_name: TlsServerName = "",
) -> None:
    """Show jobs, their pods, logs and curves in the browser; live, until Ctrl-C."""
    if find_spec("di_dashboard") is None:
        raise CommandError(
            "di dashboard needs the package di-dashboard, which is not installed",
            remedy=f"{from_clone('dashboard')}; without it: di watch",
        )
    page = import_module("di_dashboard.main")
    if not import_module("di_dashboard.app").PATH.fullmatch(path):
        raise CommandError(
            f"--path {path} is no path of a page",
            where="each part has letters, digits, '.', '_', '~' and '-'",
            remedy="di dashboard --path /di/",
            code=ExitCode.USAGE,
        )
    with open_session(namespace, context, local=local) as session, suppress(KeyboardInterrupt):
        try:
            page.run(
                session.access,
                namespace=namespace,
                port=port,
                path=path,
                read_only=read_only,
                browser=browser,
                say=_say,
                history=None
                if local or history == "none"
                else page.HistoryPlace(
                    server=history,
                    account=account,
                    authority=authority_pem(authority),
                    tls_server_name=tls_server_name,
                    context=context,
                ),
            )
        except OSError as error:
            raise CommandError(
                f"port {port} of this machine cannot be had",
                where=str(error),
                remedy="without --port one that is free is taken",
                code=ExitCode.FAILED,
            ) from error


def _say(text: str) -> None:
    """Print at once, because the address is needed while the command runs."""
    say(text)
    sys.stdout.flush()
