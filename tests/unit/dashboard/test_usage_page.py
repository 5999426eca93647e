"""The page of GPU-hours, of what a history answers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from di_dashboard.views.usage import since_of
from tests.fakes.history import Service, answering
from tests.unit.dashboard.conftest import Page


@pytest.fixture
def service() -> Iterator[Service]:
    with answering() as found:
        yield found


@pytest.mark.proves("dashboard.md#with-a-history")
def test_gpu_hours_are_shown_by_group(asking: Page, service: Service) -> None:
    uses = {"training": 30.0, "waiting": 8.0, "lost": 2.0, "stale": 0.0}
    one: dict[str, Any] = {
        "jobs": 3,
        "gpuHours": 40.0,
        "useful": uses,
        "usefulShare": 0.75,
        "cost": 1234.5,
    }
    none: dict[str, Any] = {
        "jobs": 1,
        "gpuHours": 0.0,
        "useful": {},
        "usefulShare": None,
        "cost": 0.0,
    }
    groups = [{"user": "ann@<b>", **one}, {"user": "", **none}]
    total = one | {"jobs": 4}
    service.answers["/v1/usage"] = {"usage": groups, "total": total}
    text = asking.get("/usage?by=user&days=7").text
    assert "ann@&lt;b&gt;" in text
    assert "training 75%, waiting 20%, lost to failures 5%" in text
    assert "1,234.50" in text
    assert "not known" in text
    assert ">total<" in text
    (path,) = [path for path, _ in service.asked if path.startswith("/v1/usage")]
    assert "by=user" in path
    assert "namespace=rl" in path
    assert "split=useful" in path


@pytest.mark.usefixtures("service")
def test_the_page_of_gpu_hours_ignores_unknown_choices(asking: Page) -> None:
    assert asking.get("/usage?by=colour&days=x").status_code == 200
    assert 'href="/usage?' in asking.get("/usage").text


def test_the_beginning_of_usage_is_the_same_all_day() -> None:
    morning, evening = datetime(2026, 3, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, 23, tzinfo=UTC)
    assert since_of(morning, 1) == since_of(evening, 1) == "2026-03-01T00:00:00Z"
    assert since_of(morning, 30) == "2026-01-31T00:00:00Z"
