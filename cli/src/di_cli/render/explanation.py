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


def paragraph(found: Explanation, now: datetime) -> list[str]:
    """Return the sentence, the evidence with its age, and the remedy."""
    width = max(len(label) for label in (*(e.label for e in found.evidence), _REMEDY)) + 2
    lines = [printable(found.summary)]
    for each in found.evidence:
        first, *others = each.text.splitlines() or [""]
        when = ""
        if each.at is not None:
            ago = span((now - each.at).total_seconds())
            when = f" ({clock(each.at)}, {ago} ago)"
        lines.append(f"  {each.label.ljust(width)}{printable(first)}{when}")
        lines += [f"  {''.ljust(width)}{printable(line)}" for line in others]
    if found.remedy:
        lines.append(f"  {_REMEDY.ljust(width)}{printable(scoped(found.remedy))}")
    return lines
