"""di queue."""

from __future__ import annotations

from typing import Any

from di_cli.commands.options import AllNamespaces, Context, Format, Namespace, Policy, System
from di_cli.forecasting import expected_starts, is_installed, read_allocator
from di_cli.output import Output, note, print_lines, print_table, print_value, say, suggest
from di_cli.present import Present, read_present
from di_cli.render.table import Table
from di_cli.session import Session, open_session
from di_cli.views import queue as views
from di_cli.views.ends import End


def queue(
    *,
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    policy: Policy = None,
    system: System = None,
    context: Context = None,
    output: Format = Output.TABLE,
) -> None:
    """Show which jobs wait, for what, since when, and when they are expected to start."""
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
    return expected_starts(session, present, read_allocator(session, system, policy))
