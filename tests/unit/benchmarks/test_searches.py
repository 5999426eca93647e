"""The search that is compared with Optuna alone and Ray Tune."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
import yaml

from di_api.sweeps import validate_sweep
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


def test_programs_and_manifest_of_the_searches_are_valid() -> None:
    for search in SEARCHES.values():
        for name, text in search.files.items():
            written = text.replace("TRIALS", "16")
            if name.endswith(".yaml"):
                assert validate_sweep(yaml.safe_load(written)) == []
            else:
                ast.parse(written)
