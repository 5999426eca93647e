"""di login."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from di_api.timestamps import parse_time
from di_cli.access.credentials import Login, authority_pem, forget, keep
from di_cli.commands.options import Context, Namespace
from di_cli.errors import CommandError
from di_cli.output import say, suggest
from di_cli.session import open_session
from di_cli.views.times import local
from di_kube.resources import SERVICE_ACCOUNTS

AUDIENCE = "di-server"
_LEAST_SECONDS, _MOST_SECONDS = 600, 86_400


def login(
    *,
    server: Annotated[
        str, typer.Option(help="URL of di-server, as in https://di-server.example:8443.")
    ] = "",
    account: Annotated[
        str, typer.Option(help="Service account of the namespace that scales the jobs.")
    ] = "default",
    authority: Annotated[
        Path | None,
        typer.Option("--certificate-authority", help="File with di-server's CA certificates, PEM."),
    ] = None,
    tls_server_name: Annotated[
        str, typer.Option(help="Name in di-server's certificate, if it is not that of --server.")
    ] = "",
    seconds: Annotated[
        int,
        typer.Option(
            "--seconds", help="Lifetime of the token.", min=_LEAST_SECONDS, max=_MOST_SECONDS
        ),
    ] = 3600,
    out: Annotated[
        bool, typer.Option("--out", help="Delete the stored token of the namespace.")
    ] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Have jobs of a namespace scaled by di-server; with a token made for it alone."""
    with open_session(namespace, context) as session:
        cluster = session.access.config.server
        if out:
            forget(cluster, session.namespace)
            say(f"logged out of di-server in namespace {session.namespace}")
            return
        if not server.startswith("https://"):
            raise CommandError(
                "a token is shown to an https address alone",
                where=f"--server is {server!r}",
                remedy="kubectl port-forward -n di-system service/di-server 8443, then --server "
                "https://localhost:8443 --tls-server-name di-server.di-system.svc",
            )
        pem = authority_pem(authority)
        body = {
            "metadata": {"name": account},
            "spec": {"audiences": [AUDIENCE], "expirationSeconds": seconds},
        }
        made = session.client.create(SERVICE_ACCOUNTS, body, session.namespace, subresource="token")
        status = made["status"]
        keep(
            Login(
                cluster=cluster,
                namespace=session.namespace,
                server=server.rstrip("/"),
                token=str(status["token"]),
                expires=str(status["expirationTimestamp"]),
                authority=pem,
                tls_server_name=tls_server_name,
            )
        )
        until = local(parse_time(status["expirationTimestamp"]))
        say(f"logged in to {server} as {session.namespace}/{account} until {until}")
        suggest("di scale JOB collector=+1")
