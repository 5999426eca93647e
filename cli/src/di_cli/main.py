"""The command di. Each subcommand is a function of a module that is imported on use."""

from __future__ import annotations

import ast
import os
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typing_extensions import override

from di_cli.commands.options import Context, Namespace
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.hints import remember
from di_cli.render.signs import adapt
from di_cli.render.table import printable

_SETTINGS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_PACKAGE: Final = "di_cli.commands"
_RUN: Final = "run"
_LEFT_TO_IT: Final = {
    "allow_interspersed_args": False,
    "ignore_unknown_options": True,
    "help_option_names": [],
}
"""Settings of a command that passes all words to another package."""

SECTIONS: Final[Mapping[str, Mapping[str, tuple[str, str]]]] = {
    "Start jobs": {
        "submit": ("run.submit", "submit"),
        _RUN: ("run.local", "run"),
        "sweep": ("run.sweep", "sweep"),
        "simulate": ("run.simulate", "simulate"),
        "convert": ("run.convert", "convert"),
    },
    "See jobs": {
        "list": ("observe.listing", "list_jobs"),
        "get": ("observe.listing", "get"),
        "describe": ("observe.describe", "describe"),
        "why": ("observe.why", "why"),
        "watch": ("observe.watch", "watch"),
        "logs": ("observe.logs", "logs"),
        "events": ("observe.events", "events"),
        "history": ("observe.history", "history"),
        "compare": ("observe.compare", "compare"),
        "export": ("observe.export", "export"),
        "usage": ("observe.usage", "usage"),
        "top": ("observe.top", "top"),
    },
    "Change jobs": {
        "scale": ("change.scale", "scale"),
        "set": ("change.settings", "set_fields"),
        "push": ("change.push", "push"),
        "restart": ("change.restart", "restart"),
        "rollback": ("change.rollback", "rollback"),
        "suspend": ("change.suspend", "suspend"),
        "resume": ("change.suspend", "resume"),
        "delete": ("change.delete", "delete"),
    },
    "Wait, and work inside pods": {
        "wait": ("observe.wait", "wait"),
        "exec": ("kubectl", "execute"),
        "attach": ("kubectl", "attach"),
        "cp": ("kubectl", "copy"),
        "artifacts": ("kubectl", "artifacts"),
        "port-forward": ("kubectl", "port_forward"),
    },
    "See the cluster": {
        "templates": ("observe.templates", "templates"),
        "queue": ("observe.queue", "queue"),
        "allocation": ("observe.allocation", "allocation"),
        "dashboard": ("observe.dashboard", "dashboard"),
        "install": ("admin.install", "install"),
        "doctor": ("admin.doctor", "doctor"),
        "bundle": ("admin.bundle", "bundle"),
    },
    "This command": {
        "login": ("admin.login", "login"),
        "version": ("admin.version", "version"),
    },
}
"""Module below `di_cli.commands` and function of each command, by the title of its group in the
help; both in the order of the help.
"""
COMMANDS: Final = {name: place for names in SECTIONS.values() for name, place in names.items()}


class _Commands(TyperGroup):
    """A group that imports only the used command; the others have their help text alone."""

    @override
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _listed(cmd_name) if cmd_name in COMMANDS else None

    @override
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        return name, None if listed is None else _command(str(name)), rest

    @override
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        longest = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            # What stands after a semicolon or a colon is for the command's own help.
            helps = [
                (name.ljust(longest), re.split("[;:.]", self.get_command(ctx, name).help)[0])
                for name in names
            ]
            with formatter.section(title):
                formatter.write_dl(helps)


def _listed(name: str) -> TyperCommand:
    """Return a command for a list of commands: it has a help text, and cannot run."""
    module, function = COMMANDS[name]
    return TyperCommand(name, help=_help_text(f"{_PACKAGE}.{module}", function))


def _help_text(module: str, function: str) -> str:
    """Return the docstring of a function of a module; empty if there is none.

    It is read from the source: to import all modules takes half a second.
    """
    found = find_spec(module)
    source = found.loader.get_source(module) if found and found.loader else None  # type: ignore[attr-defined]  # of files
    for each in ast.parse(source or "").body:
        if isinstance(each, ast.FunctionDef) and each.name == function:
            return ast.get_docstring(each) or ""
    return ""


def _command(name: str) -> Any:
    module, function = COMMANDS[name]
    single = typer.Typer(
        add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False
    )
    settings: dict[str, Any] = {**_SETTINGS}
    if name == _RUN:
        settings |= _LEFT_TO_IT
    single.command(name=name, context_settings=settings)(
        getattr(import_module(f"{_PACKAGE}.{module}"), function)
    )
    return typer.main.get_command(single)


app = typer.Typer(
    cls=_Commands,
    help="DIJobs: reinforcement-learning training jobs on Kubernetes.",
    epilog="Exit codes and a transcript of each command: docs/reference/cli.md.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"di {import_module('importlib.metadata').version('di-cli')}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    namespace: Namespace = None,
    context: Context = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """DIJobs: reinforcement-learning training jobs on Kubernetes."""
    given = {"namespace": namespace, "context": context}
    before = {name: value for name, value in given.items() if value is not None}
    command = ctx.invoked_subcommand
    if not before or command is None or command not in COMMANDS:
        return
    takes = {param.name for param in _command(command).params}
    for name in before.keys() - takes:
        raise typer.BadParameter(f"di {command} has no --{name}", ctx)
    ctx.default_map = {command: before}


def main() -> None:
    """Run the command of the process."""
    for stream in (sys.stdout, sys.stderr):
        adapt(stream, os.environ)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; errors go to stderr, in three lines."""
    remember(None, None)
    try:
        code = app(list(arguments) or ["--help"], standalone_mode=False, prog_name=_program())
        sys.stdout.flush()
    except CommandError as error:
        return _tell(error)
    except typer.TyperException as error:
        return _tell(_usage(error))
    except typer.Abort:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of the output has closed it; the interpreter's final flush would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as error:
        return _tell(_mistake(error))
    return code if isinstance(code, int) else ExitCode.DONE


def _tell(error: CommandError) -> int:
    sys.stderr.write("".join(f"{printable(line)}\n" for line in error.lines()))
    return error.code


def _usage(error: typer.TyperException) -> CommandError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _program()
    message = getattr(error, "format_message", lambda: str(error))()
    unknown = re.search(r"No such command '([^']*)'", message)
    close = get_close_matches(unknown[1], COMMANDS, n=1) if unknown else []
    remedy = f"{path} {close[0]}" if close else f"{path} --help"
    return CommandError(" ".join(message.split()), remedy=remedy, code=ExitCode.USAGE)


def _mistake(error: Exception) -> CommandError:
    """Return an unexpected error as a defect of ours."""
    if os.environ.get("DI_DEBUG"):
        traceback.print_exc()
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return CommandError(
        f"a mistake of di itself: {type(error).__name__}: {error}",
        where=f"{os.path.basename(frame.filename)}, line {frame.lineno}",
        remedy="report it; with DI_DEBUG=1 in the environment there is more to report",
    )


def _program() -> str:
    """Return the name of the program: `di`, or `kubectl di` as a plug-in."""
    return "kubectl di" if os.path.basename(sys.argv[0]).startswith("kubectl-di") else "di"
