"""What the demonstration draws, of each kind of job that has something to draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.demo.records import record_of

RETURNS: dict[str, Any] = {"curve": [[1.0, 100, 20.0], [2.0, 200, 480.0]], "scaling": [[1.5, 2]]}
SERIES: dict[str, Any] = {
    "target": 0.85,
    "series": {
        "passAt1": [[1.0, 0.25], [2.0, 0.5], [3.0, 0.9]],
        "waiting": [[1.0, 0.6], [2.0, 0.3], [3.0, 0.0]],
        "stale": [[1.0, 0.0], [2.0, 0.0], [3.0, 0.1]],
        "engines": [[1.0, 3], [2.0, 4], [3.0, 3]],
    },
}


@pytest.mark.parametrize(
    ("profilings", "sentence", "changes"),
    [
        pytest.param(
            RETURNS,
            "mean return 480 of 500",
            ["Scaling: 1.5 s into training the job asked for +2"],
            id="returns",
        ),
        pytest.param(
            SERIES,
            "pass@1 0.90 of 0.85",
            [
                "Scaling: 3 -> 4 engines, 2.0 s into training",
                "Scaling: 4 -> 3 engines, 3.0 s into training",
            ],
            id="series",
        ),
    ],
)
def test_a_record_is_described_and_drawn(
    profilings: dict[str, Any], sentence: str, changes: list[str], tmp_path: Path
) -> None:
    record = record_of(profilings)
    assert record is not None
    assert record.sentence() == sentence
    assert list(record.changes()) == changes
    assert "seconds of training" in record.draw_terminal()
    record.draw_png(tmp_path / "picture.png", title="DIJob x")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("nothing", [{}, {"curve": []}, {"series": {}}, {"step": 3}], ids=str)
def test_other_jobs_have_no_record(nothing: dict[str, Any]) -> None:
    assert record_of(nothing) is None
