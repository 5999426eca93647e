"""di queue."""

from __future__ import annotations

from typing import Any

from di_cli.commands.options import (
    AllNamespaces,
    Context,
    Format,
    Namespace,
    Policy,
    Quotas,
    System,
)
from di_cli.errors import CommandError
from di_cli.forecasting import (
    check_installed,
    expected_starts,
    is_installed,
    queue_states,
    read_allocator,
)
from di_cli.output import Output, note, print_lines, print_table, print_value, say, suggest
from di_cli.present import Present, read_present
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import queue as views
from di_cli.views import queues as quota_views
from di_cli.views.ends import End


def queue(
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    quotas: Quotas = False,
    policy: Policy = None,
    system: System = None,
    context: Context = None,
    output: Format = Output.TABLE,
) -> None:
    """Show which jobs wait; for what, since when, and when they are expected to start."""
    if quotas:
        with open_session(namespace, context) as session:
            found = _quotas(session, system, policy)
            own = None if all_namespaces else session.namespace
        _show_quotas([each for each in found if own in (None, each.namespace)], own, output)
        return
    with open_session(namespace, context) as session:
        present = read_present(session)
        shown = [
            job
            for job in present.jobs
            if all_namespaces or job["metadata"].get("namespace") == session.namespace
        ]
        starts: dict[str, End | None] = {}
        if any(views.is_waiting(job) for job in shown):
            starts = _starts(session, present, system, policy)
        places = session.places(shown, all_namespaces=all_namespaces)
        rows = views.waiting(shown, session.now(), starts, places)
        where = "in any namespace" if all_namespaces else f"in namespace {session.namespace}"
    if output is Output.NAME:
        print_lines(f"dijob/{each.name}" for each in rows)
    elif not output.is_table:
        print_value({"items": [views.as_json(each) for each in rows]}, output)
    elif not rows:
        say(f"no job waits {where}")
        suggest(
            "di submit job.yaml", "di allocation", *(() if all_namespaces else ("di queue -A",))
        )
    else:
        wide = output is Output.WIDE
        print_table(
            Table(
                header=views.header(wide=wide, namespace=all_namespaces),
                rows=[views.cells(each, wide=wide, namespace=all_namespaces) for each in rows],
            )
        )
        suggest(f"di why {rows[0].name}", "di allocation")


def _quotas(session: Session, system: str | None, policy: str | None) -> list[quota_views.Queue]:
    check_installed("di queue --quotas")
    allocator = read_allocator(session, system, policy)
    if not allocator.known:
        raise CommandError(
            "what the allocator's queues allow cannot be told: you may not read its settings",
            remedy="ask for the right to get configmaps of the operator's namespace, or give its "
            "policy: --policy 'goodput:{\"queues\": ...}'",
        )
    present = read_present(session)
    for each in present.unread:
        note(f"not seen: {each}; what they hold is not counted")
    return queue_states(session, present, allocator)


def _show_quotas(found: list[quota_views.Queue], namespace: str | None, output: Output) -> None:
    if output is Output.NAME:
        print_lines(f"namespace/{name}" for name in dict.fromkeys(each.namespace for each in found))
    elif not output.is_table:
        print_value({"items": [quota_views.as_json(each) for each in found]}, output)
    elif not found:
        say(f"no queue names namespace {namespace}" if namespace else "there are no queues")
    else:
        rows = [quota_views.cells(each) for each in found]
        print_table(Table(header=quota_views.HEADER, rows=rows))


def _starts(
    session: Session, present: Present, system: str | None, policy: str | None
) -> dict[str, Any]:
    if not is_installed():
        note("when they start cannot be told without the package di-operator")
        return {}
    if "nodes" in present.unread:
        note("when they start cannot be told: you may not list nodes")
        return {}
    for each in present.unread:
        note(f"not seen: {each}; what they hold counts as free")
    try:
        return expected_starts(session, present, read_allocator(session, system, policy))
    except CommandError as error:
        # What waits can be listed with a policy that the operator cannot use either.
        if policy is not None:
            raise
        note(f"when they start cannot be told: {error.what}")
        return {}
