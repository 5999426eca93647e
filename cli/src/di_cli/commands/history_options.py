"""The options that say where di-history is, for all commands that read it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar, get_type_hints

import typer

from di_cli.access.history import SERVER_VARIABLE, HistoryAddress

_PARAMETER: Final = "address"
NO_HISTORY: Final = "none"
"""The value of --server for commands that work without di-history, too."""
R = TypeVar("R")

Authority = Annotated[
    Path | None,
    typer.Option("--certificate-authority", help="File with di-history's CA certificates, PEM."),
]
TlsServerName = Annotated[
    str,
    typer.Option(help="Name in di-history's certificate, if it is not that of --server."),
]
Account = Annotated[
    str | None,
    typer.Option(
        help="Service account for the request, NAME or NAMESPACE/NAME; needs permission to read "
        "jobs. Absent: your own token."
    ),
]


def reads_history(*, without: str = "") -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Return a decorator for a command whose parameter `address` is a HistoryAddress: the command
    has an option for each of its attributes instead.

    Args:
        without: what the command does without di-history, for `--server none`; empty: it needs it.
    """
    about = f"Where di-history is reached; absent: ${SERVER_VARIABLE}, or kubectl port-forward."
    if without:
        about = f"{about} {NO_HISTORY}: {without}."
    server = Annotated[str | None, typer.Option(help=about)]
    options = [
        _option("server", server, None),
        _option("account", Account, None),
        _option("authority", Authority, None),
        _option("tls_server_name", TlsServerName, ""),
    ]

    def decorate(command: Callable[..., R]) -> Callable[..., R]:
        @wraps(command)
        def parsed(**given: Any) -> R:
            of_history = {each.name: given.pop(each.name) for each in options}
            return command(**given, address=HistoryAddress(**of_history))

        hints = get_type_hints(command, include_extras=True)
        shown: list[Parameter] = []
        for each in signature(command).parameters.values():
            is_place = each.name == _PARAMETER
            shown += options if is_place else [each.replace(annotation=hints[each.name])]
        parsed.__signature__ = signature(command).replace(parameters=shown)  # type: ignore[attr-defined]  # read by inspect.signature
        parsed.__annotations__ = {each.name: each.annotation for each in shown}
        return parsed

    return decorate


def _option(name: str, hint: Any, default: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
