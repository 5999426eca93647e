"""Names of the numbers in a report: every library spells the same number in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

RETURN: Final = "episodeReturn"
"""The return of an episode, under the name that the project's own hooks use."""

_RETURNS: Final = frozenset(
    {
        *("episodereturn", "episodereward", "episodicreturn", "episodicreward"),
        *("episodereturnmean", "episoderewardmean", "meanepisodereturn", "meanepisodereward"),
        *("epreturn", "epreward", "eprewmean", "epretmean", "meanreturn", "meanreward"),
    }
)
"""The return as Stable-Baselines3, RLlib, CleanRL, Spinning Up and DI-engine name it."""
_SEPARATORS: Final = re.compile(r"[^0-9a-z]")


def spelled(name: str) -> str:
    """Return a name without case, separators and the section before the last slash."""
    return _SEPARATORS.sub("", name.rpartition("/")[2].lower())


def find_metric(names: Iterable[str], wanted: str) -> str | None:
    """Return the name of a number among those of a report, in whatever spelling; None without one.

    The exact name comes first, then another spelling of it, then another name of the return.
    """
    found = [*names]
    if wanted in found:
        return wanted
    word = spelled(wanted)
    others = [name for name in found if spelled(name) == word]
    if not others and wanted == RETURN:
        others = [name for name in found if spelled(name) in _RETURNS]
    return min(others, default=None)
