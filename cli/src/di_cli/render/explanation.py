"""An explanation as lines of text."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from di_api.explain import Explanation
from di_api.wording import span
from di_cli.hints import scoped
from di_cli.render.table import printable
from di_cli.views.times import clock

_REMEDY: Final = "remedy"
_TRACKING: Final = "tracking"


def paragraph(found: Explanation, now: datetime, *, tracking: str | None = None) -> list[str]:
    """Return the sentence, the evidence with its age, the page in an experiment tracker, and the
    remedy.
    """
    labels = (*(each.label for each in found.evidence), _REMEDY, *([_TRACKING] if tracking else ()))
    width = max(map(len, labels)) + 2
    lines = [printable(found.summary)]
    for each in found.evidence:
        first, *others = each.text.splitlines() or [""]
        when = ""
        if each.at is not None:
            ago = span((now - each.at).total_seconds())
            when = f" ({clock(each.at)}, {ago} ago)"
        lines.append(f"  {each.label.ljust(width)}{printable(first)}{when}")
        lines += [f"  {''.ljust(width)}{printable(line)}" for line in others]
    if tracking:
        lines.append(f"  {_TRACKING.ljust(width)}{tracking}")
    if found.remedy:
        lines.append(f"  {_REMEDY.ljust(width)}{printable(scoped(found.remedy))}")
    return lines
