"""di rollback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from di_api.field_error import mapping
from di_cli.access.history import HistoryAddress
from di_cli.actions.history import open_history
from di_cli.commands.history_options import reads_history
from di_cli.commands.options import Context, JobName, Namespace
from di_cli.edits.rollback import difference, patch_to
from di_cli.errors import CommandError
from di_cli.output import print_lines, say, suggest
from di_cli.session import Session, open_session
from di_kube.errors import Invalid, NotFound
from di_kube.resources import CONFIGMAPS, DIJOBS
from di_kube.wire import JSON_PATCH

_MANAGER = "di-rollback"


@reads_history()
def rollback(
    name: JobName,
    *,
    to: Annotated[int, typer.Option(help="The revision, as di history numbers it.", min=0)],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    address: HistoryAddress,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Give a job the spec of an earlier revision, replicas included."""
    with open_session(namespace, context) as session:
        job = session.job(name)
        uid = str(job["metadata"]["uid"])
        with open_history(session, address, context=context) as kept:
            manifest = kept.json(session.namespace, name, f"/revisions/{to}", uid=uid)
        patch = patch_to(job, manifest)
        # Checked, and filled in, as it would be; nothing is stored.
        with _unless_changed(session, job):
            tried = session.client.patch(
                DIJOBS, name, patch, session.namespace, content_type=JSON_PATCH, dry_run=True
            )
        lines = difference(job, tried)
        if not lines:
            say(f"dijob/{name} has the spec of revision {to} already")
            return
        _check_bundle(session, job, tried)
        print_lines(lines)
        if dry_run:
            say(f"dijob/{name} would be rolled back to revision {to} (dry run)")
            return
        if not yes and not typer.confirm(
            f"roll dijob/{name} back to revision {to}?", default=False
        ):
            raise CommandError(f"dijob/{name} was not changed")
        with _unless_changed(session, job):
            session.client.patch(
                DIJOBS,
                name,
                patch,
                session.namespace,
                content_type=JSON_PATCH,
                field_manager=_MANAGER,
            )
        say(f"dijob/{name} rolled back to revision {to}")
        suggest(f"di watch {name}", f"di history {name}")


def _check_bundle(session: Session, job: Mapping[str, Any], tried: Mapping[str, Any]) -> None:
    """Refuse a revision whose bundle was deleted, because its pods would wait for it forever."""
    now, then = (mapping(mapping(each.get("spec")).get("code")) for each in (job, tried))
    bundle = then.get("configMap")
    if not bundle or bundle == now.get("configMap"):
        return
    try:
        session.client.get(CONFIGMAPS, str(bundle), session.namespace)
    except NotFound as error:
        name, commit = job["metadata"]["name"], str(then.get("revision") or "")
        checkout = f"git checkout {commit.removesuffix('-dirty')}; " if commit else ""
        raise CommandError(
            f"dijob/{name} was not rolled back: the code of that revision was deleted",
            where=f"ConfigMap {session.namespace}/{bundle}",
            remedy=f"{checkout}di push {name}",
        ) from error


@contextmanager
def _unless_changed(session: Session, job: Mapping[str, Any]) -> Iterator[None]:
    """Explain a refused patch if its reason is that another client changed the spec: the API server
    says of a failed test only that the request is wrong."""
    try:
        yield
    except Invalid:
        name, seen = job["metadata"]["name"], job["metadata"]
        now = session.job(name)["metadata"]
        if (now["uid"], now["generation"]) == (seen["uid"], seen["generation"]):
            raise
        raise CommandError(
            f"dijob/{name} was changed meanwhile; nothing was rolled back",
            where=f"its spec has the generation {now['generation']}, and had {seen['generation']}",
            remedy=f"di history {name} shows the change; then roll back again",
        ) from None
