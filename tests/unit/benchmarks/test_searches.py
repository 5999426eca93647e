"""The search that is compared with Optuna alone and Ray Tune."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

from di_cli.main import run
from tools.benchmarks.sweeps.rivals import SEARCHES

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "sweeps.md"


@pytest.mark.proves("sweeps.md#optuna")
def test_the_documented_lines_are_those_that_a_user_writes() -> None:
    text = " ".join(PAGE.read_text().split())
    patterns = {"di sweep": r"`di sweep --local`", "Optuna": "Optuna alone", "Ray Tune": "Ray Tune"}
    for name, pattern in patterns.items():
        found = re.search(rf"- {pattern}: (\d+) lines", text)
        assert found is not None, name
        assert int(found[1]) == SEARCHES[name].lines


def test_programs_and_the_command_of_the_searches_are_valid(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for search in SEARCHES.values():
        for name, text in search.files.items():
            written = text.replace("TRIALS", "16")
            if name.endswith(".py"):
                ast.parse(written)
            else:
                assert run(_listed(written)) == 0
                assert "of 16 trials" in capsys.readouterr().out


def _listed(command: str) -> list[str]:
    """Return the arguments of `di` that list the trials in place of running them."""
    return [{"--local": "--dry-run"}.get(word, word) for word in shlex.split(command)[1:]]
