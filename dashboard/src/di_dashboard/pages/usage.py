"""The page of GPU-hours, from di-history."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, render_template, request

from di_dashboard.pages.parts import parts
from di_dashboard.views.usage import DAYS, GROUPS, since_of, usage_rows

usage_pages: Final = Blueprint("usage_pages", __name__)
_LONGEST: Final = 200
_MOST_NAMESPACES: Final = 30
_USUAL_DAYS: Final = 30


@usage_pages.get("/usage")
def usage() -> str:
    """Return the page of GPU-hours of one namespace, which the token is for."""
    here = parts()
    known = sorted({entry.namespace for entry in here.cluster_cache.entries()})
    if here.namespace and here.namespace not in known:
        known.append(here.namespace)
    asked = request.args.get("namespace", "")[:_LONGEST] or here.namespace
    namespace = asked or (known[0] if known else "default")
    by = request.args.get("by", "")
    by = by if by in GROUPS else GROUPS[0]
    days = request.args.get("days", "")
    chosen = int(days) if days in {str(each) for each in DAYS} else _USUAL_DAYS
    told = here.kept.get(
        namespace,
        "/usage",
        "usage",
        namespace=namespace,
        by=by,
        split="useful",
        since=since_of(here.now(), chosen),
    )
    rows = usage_rows(told.value, by)
    return render_template(
        "usage.html",
        topic="usage",
        rows=rows,
        has_costs=any(each.cost for each in rows),
        told=told,
        by=by,
        groups=GROUPS,
        days=chosen,
        all_days=DAYS,
        namespace=namespace,
        namespaces=known[:_MOST_NAMESPACES],
    )
