"""What a log of libFuzzer says, read."""

from __future__ import annotations

from pathlib import Path

from tools.fuzz.campaign import Fed, read_outcome
from tools.fuzz.outcome import GROWTH_MIB

FLAT = """\
#79	INITED cov: 166 ft: 516 corp: 41/36Kb exec/s: 0 rss: 80Mb
#1024	pulse  cov: 170 ft: 520 corp: 42/37Kb lim: 16384 exec/s: 512 rss: {early}Mb
#2055	NEW    cov: 171 ft: 521 corp: 43/38Kb lim: 16384 exec/s: 512 rss: {early}Mb L: 9/9 MS: 1 X-
#8192	DONE   cov: 171 ft: 521 corp: 43/38Kb lim: 16384 exec/s: 512 rss: {late}Mb
stat::number_of_executed_units: 8200
"""
BROKEN = (
    FLAT
    + """
 === Uncaught Python exception: ===
KeyError: 'spec'
Traceback (most recent call last):
artifact_prefix='out/x/'; Test unit written to out/x/crash-1
"""
)


def _outcome(folder: Path, text: str, code: int = 0, early: int = 82, late: int = 83) -> Fed:
    log = folder / "log"
    log.write_text(text.format(early=early, late=late))
    return read_outcome("x", code, log)


def test_a_run_without_findings(tmp_path: Path) -> None:
    found = _outcome(tmp_path, FLAT)
    assert (found.runs, found.covered, found.rss_mib, found.wrong) == (8200, 171, (82, 83), ())


def test_a_finding_says_what_broke_and_how_to_see_it_again(tmp_path: Path) -> None:
    (wrong,) = _outcome(tmp_path, BROKEN, code=77).wrong
    assert wrong == "KeyError: 'spec'; again by: python -m tools.fuzz.one x out/x/crash-1"


def test_a_process_that_ends_badly_without_a_word_is_a_finding(tmp_path: Path) -> None:
    (wrong,) = _outcome(tmp_path, "", code=1).wrong
    assert "ended with 1" in wrong


def test_memory_that_grows_after_the_first_quarter_is_a_finding(tmp_path: Path) -> None:
    assert not _outcome(tmp_path, FLAT, late=82 + GROWTH_MIB).wrong
    (wrong,) = _outcome(tmp_path, FLAT, late=83 + GROWTH_MIB).wrong
    assert wrong == f"grew from 82 to {83 + GROWTH_MIB} MiB, by more than {GROWTH_MIB}"
