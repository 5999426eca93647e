"""The page of results: one row for each lane, what failed, and what took longest."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from tools.lanes.branches import ENOUGH, EXPLAINED, Branches, Part
from tools.lanes.lane import Lane, Outcome
from tools.lanes.progress import clock

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
td.number { text-align: right; font-variant-numeric: tabular-nums }
.passed { color: #197a3b } .failed { color: #b3261e; font-weight: bold } .waiting { color: #777 }
pre { white-space: pre-wrap; margin: 0 }
@media (prefers-color-scheme: dark) {
  body { background: #16181c; color: #ddd } .passed { color: #5fc987 } .failed { color: #ff8a80 }
}
"""


def write(
    file: Path,
    title: str,
    lanes: Sequence[Lane],
    ended: Sequence[Outcome],
    coverage: Branches | None,
) -> None:
    """Write the page as it stands: lanes that have not ended are shown as waiting.

    Args:
        file: of the page, beside the lanes' logs.
        title: the command and its Python.
        lanes: all that were asked for.
        ended: how those that have ended did.
        coverage: what the lanes have measured; None: nothing, or not yet.
    """
    found = {each.lane.name: each for each in ended}
    rows = [_row(lane, found.get(lane.name)) for lane in lanes]
    failed = [(each, test) for each in ended for test in each.failed]
    slowest = sorted((each for lane in ended for each in lane.slowest), reverse=True)[:30]
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>",
        f"<p>{sum(each.passed for each in ended)} of {len(lanes)} lanes passed, "
        f"{sum(each.tests or 0 for each in ended)} tests ran, {len(failed)} failed.</p>",
        "<table><tr><th>Lane<th>Result<th>Time<th>Tests<th>What it proves</tr>",
        *rows,
        "</table>",
    ]
    if failed:
        parts += ["<h2>Failed</h2><table><tr><th>Lane<th>Test</tr>"]
        parts += [
            f"<tr><td>{escape(each.lane.name)}<td>{escape(test.name)}"
            f"<pre>{escape(test.message)}</pre></tr>"
            for each, test in failed
        ]
        parts.append("</table>")
    if scores := [score for each in ended for score in each.scores]:
        parts += ["<h2>Scores</h2><ul>", *(f"<li>{escape(each)}" for each in scores), "</ul>"]
    if slowest:
        parts.append("<h2>Slowest tests</h2><table><tr><th>Seconds<th>Test</tr>")
        parts += [
            f"<tr><td class=number>{seconds:.1f}<td>{escape(name)}</tr>"
            for seconds, name in slowest
        ]
        parts.append("</table>")
    parts += _coverage(coverage) if coverage else []
    file.write_text("\n".join([*parts, "</html>", ""]))


def _coverage(found: Branches) -> list[str]:
    """Lines and branches that ran, by package, and the files where too few did."""
    pages = escape(str(found.lines))
    return [
        "<h2>Lines and branches that ran</h2>",
        f'<p><a href="{pages}">Every file and line</a>. Lanes that did not run count for nothing.',
        "<table><tr><th>Package<th>Ran<th>Of<th>Share</tr>",
        *(f"<tr><td>{_share(each)}</tr>" for each in found.areas),
        f"</table><h2>Files below {ENOUGH:.0%}</h2>",
        "<table><tr><th>File<th>Ran<th>Of<th>Share<th>Why</tr>",
        *(
            f"<tr><td>{_share(each)}<td>{escape(EXPLAINED.get(each.name, 'to be tested'))}</tr>"
            for each in found.below
        ),
        "</table>",
    ]


def _share(part: Part) -> str:
    return (
        f"{escape(part.name)}<td class=number>{part.ran}<td class=number>{part.total}"
        f"<td class=number>{100 * part.share:.1f} %"
    )


def _row(lane: Lane, ended: Outcome | None) -> str:
    what = f"<td>{escape(lane.what)}</tr>"
    if ended is None:
        return f"<tr><td>{escape(lane.name)}<td class=waiting>waiting<td><td>{what}"
    word = "passed" if ended.passed else "failed"
    return (
        f"<tr><td>{escape(lane.name)}"
        f'<td class={word}><a class={word} href="{escape(ended.log.name)}">{word}</a>'
        f"<td class=number>{clock(ended.seconds)}"
        f"<td class=number>{'' if ended.tests is None else ended.tests}{what}"
    )
