"""di install."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import yaml

from di_cli.access.kubeconfig import Access
from di_cli.access.reviews import refusal
from di_cli.commands.options import Context
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.install import machine, plan
from di_cli.install.kept_registry import keep_registry, kept_registry
from di_cli.install.source import find_source, tag_of
from di_cli.output import note, print_lines, say, suggest
from di_cli.session import Session, open_session

_NAMESPACE: Final = "di-system"
_RIGHTS: Final = (
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
)
"""Groups and resources of the cluster that the chart creates."""


def install(
    *,
    registry: Annotated[
        str | None,
        typer.Option(
            help="Registry, and perhaps a path, that images are pushed to and nodes pull from; "
            "kept for the next time."
        ),
    ] = None,
    build: Annotated[
        bool, typer.Option("--build/--no-build", help="Build and push the images first.")
    ] = True,
    base_image: Annotated[
        str | None, typer.Option(help="Image with Python to base all images on.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Value of the chart; repeatable."),
    ] = None,
    values: Annotated[
        list[Path] | None,
        typer.Option("--values", metavar="FILE", help="File with values of the chart; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands, and run none of them.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the release.")
    ] = _NAMESPACE,
    context: Context = None,
) -> None:
    """Install DI Orchestrator on a cluster, or upgrade it: images and chart of a clone."""
    machine.require_helm()
    root = find_source(Path.cwd())
    with open_session(context=context) as session:
        access = session.access
        installed = machine.release_values(access.context, namespace)
        if not (sets and any("watchNamespace=" in each for each in sets)):
            _check_rights(session)
    files = [_read(file) for file in values or ()]
    target = _target(registry, access)
    wanted = plan.Wanted(
        target=target,
        engine=machine.engine_for(target) if build else None,
        tag=tag_of(root),
        components=plan.components(installed or {}, files, sets or ()),
        base=base_image,
        context=access.context,
        namespace=namespace,
        helm=[
            *(word for each in sets or () for word in ("--set", each)),
            *(word for each in values or () for word in ("--values", str(each.resolve()))),
        ],
    )
    steps = list(plan.steps(wanted))
    _show(wanted, access, is_upgrade=installed is not None)
    if dry_run:
        print_lines(each.line for each in steps)
        return
    if sys.stdin.isatty() and not yes and not typer.confirm("go on?", default=True):
        raise CommandError("nothing was installed")
    machine.check(plan.check(wanted), root)
    if isinstance(target, str):
        keep_registry(access.config.server, target)
    for each in steps:
        note(f"+ {each.line}")
        machine.do(each, root)
    say(f"{plan.RELEASE} is {'upgraded' if installed is not None else 'installed'}")
    suggest("di doctor", "di submit train.py")


def _show(wanted: plan.Wanted, access: Access, *, is_upgrade: bool) -> None:
    where = wanted.target
    by = f"by {wanted.engine}" if wanted.engine else "not built, they have to be there"
    note(f"cluster   {access.config.server}, context {access.context or 'of this pod'}")
    note(
        f"release   {plan.RELEASE} in namespace {wanted.namespace}, "
        f"{'an upgrade' if is_upgrade else 'new'}"
    )
    note(f"images    {', '.join(wanted.components)}, tag {wanted.tag}, {by}")
    if isinstance(where, str):
        note(f"registry  {where}")
    else:
        note(f"registry  none: {where.program} loads them into cluster {where.name}")


def _target(registry: str | None, access: Access) -> str | plan.LocalCluster:
    """Return the registry that was given, else the cluster on this machine, else the registry that
    was given before, or now at the terminal.
    """
    if registry is not None:
        return _valid(registry)
    here = machine.cluster_here(access.context)
    if here is not None:
        return here
    kept = kept_registry(access.config.server)
    if kept is not None:
        return _valid(kept)
    if not sys.stdin.isatty():
        raise machine.missing("a registry")
    return _valid(typer.prompt("registry that the cluster's nodes can pull from"))


def _valid(registry: str) -> str:
    """Return the registry without a trailing slash. Raises CommandError."""
    cleaned = registry.strip().rstrip("/")
    if not cleaned or "://" in cleaned or any(each.isspace() or each == "," for each in cleaned):
        raise machine.missing(f"a host and perhaps a path, not {registry!r}")
    return cleaned


def _read(file: Path) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(file.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandError(
            f"the values of {file} cannot be read", where=str(error), code=ExitCode.NOT_FOUND
        ) from error
    return found if isinstance(found, Mapping) else {}


def _check_rights(session: Session) -> None:
    """Raise CommandError if the user cannot create what the chart has for the whole cluster."""
    for group, resource in _RIGHTS:
        reason = refusal(session.client, group=group, resource=resource, verb="create")
        if reason is not None:
            raise CommandError(
                f"you are not allowed to create {resource} of the cluster",
                where=reason,
                remedy="an administrator of the cluster installs it; for one namespace "
                "docs/how-to/operations.md#one-namespace",
                code=ExitCode.NOT_ALLOWED,
            )
