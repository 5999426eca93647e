"""What a request for a log asks for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from di_local.api.refused import Refused
from di_local.log_stream import Wanted

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_request_asks_for_the_end_of_a_log_since_a_time() -> None:
    assert Wanted.of({}, NOW) == Wanted(follow=False, tail=None, since=None, with_times=False)
    found = Wanted.of(
        {"follow": "true", "tailLines": "0", "sinceTime": NOW.isoformat(), "timestamps": "true"},
        NOW + timedelta(hours=1),
    )
    assert found == Wanted(follow=True, tail=0, since=NOW, with_times=True)
    assert Wanted.of({"sinceSeconds": "60"}, NOW).since == NOW - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ({"previous": "true"}, 400, "one log here has all restarts in a pod"),
        ({"tailLines": "many"}, 400, "tailLines, sinceTime, sinceSeconds: invalid literal"),
        ({"sinceTime": "yesterday"}, 400, "tailLines, sinceTime, sinceSeconds: Invalid isoformat"),
        ({"sinceSeconds": "9" * 30}, 400, "tailLines, sinceTime, sinceSeconds: "),
        ({"tailLines": "-1"}, 422, "tailLines must not be negative"),
    ],
)
def test_a_request_without_a_meaning_is_refused(
    query: dict[str, str], code: int, message: str
) -> None:
    with pytest.raises(Refused, match=message) as refused:
        Wanted.of(query, NOW)
    assert refused.value.code == code
