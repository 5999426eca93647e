"""Jobs that wait in queues of Kueue."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from di_cli.views.selection import Wanted, listed
from tests.unit.cli.conftest import JOBS, WORKLOADS, Di, queued, workload

MISSING = (
    "couldn't assign flavors to pod set learner: insufficient unused quota for nvidia.com/gpu in "
    "flavor default, 2 more needed"
)
REFUSED = {"code": 403, "reason": "Forbidden", "message": "you may not"}


@pytest.fixture
def waiting(di: Di) -> Di:
    """Two jobs that wait behind another user's Job, and one that has been admitted."""
    di.job("runs")
    for name in ("first", "second"):
        di.world.put(f"{JOBS}/{name}", queued(MISSING, name=name))
    for body in (
        workload("runs-core", "runs", at="09:00", QuotaReserved="True"),
        workload("second-core", "second", at="09:30"),
        workload("first-core", "first", at="09:10", QuotaReserved="False"),
        workload("first-collector-x0", "first", at="09:05", priority=-1),
        workload("job-of-somebody", "somebody", priority=100),
    ):
        di.world.put(f"{WORKLOADS}/{body['metadata']['name']}", body)
    return di


def test_the_list_shows_the_queue_place_and_kueues_message(waiting: Di) -> None:
    lines = {line.split()[0]: line for line in waiting("list").lines}
    assert lines["first"].endswith("2 of 4 in queue team-a")
    assert lines["second"].endswith("3 of 4 in queue team-a")
    assert "queue" not in lines["runs"]
    assert waiting("get", "second").lines[1].endswith("3 of 4 in queue team-a")
    wide = {line.split()[0]: line for line in waiting("list", "-o", "wide").lines}
    assert wide["first"].endswith(f"JobQueued: {MISSING}")


def test_a_list_keeps_the_jobs_that_wait_and_the_rows_of_all(waiting: Di) -> None:
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    found = {
        name: listed(waiting.world.objects[f"{JOBS}/{name}"], Wanted(), now)
        for name in ("first", "runs")
    }
    assert [each and each.row.name for each in found.values()] == ["first", "runs"]
    # A whole job takes twenty times the memory of its row.
    assert {name for name, each in found.items() if each and each.waiting} == {"first"}


def test_without_rights_to_workloads_the_queue_alone_is_shown(waiting: Di) -> None:
    waiting.world.refusals["GET", WORKLOADS] = REFUSED
    said = waiting("list")
    assert said.code == 0
    assert said.lines[1].endswith("  in queue team-a")


def test_where_no_job_waits_in_a_queue_no_workload_is_read(di: Di) -> None:
    di.job("runs")
    di("list")
    assert not [path for _, path, _ in di.world.requests if "workloads" in path]


def test_the_queue_includes_jobs_that_kueue_admits(waiting: Di) -> None:
    waiting.node("gpu-1", 8)
    rows = {line.split()[0]: line for line in waiting("queue").lines[1:]}
    assert rows["first"].endswith("2 of 4 in queue team-a")
    assert rows["first"].split()[1] == "JobQueued"
    assert waiting("queue", "-o", "wide").lines[1].endswith(MISSING)
    told = json.loads(waiting("queue", "-o", "json").out)["items"]
    assert [each["queue"] for each in told] == ["team-a", "team-a"]
    assert {each["name"]: each["place"]["place"] for each in told} == {"first": 2, "second": 3}


@pytest.mark.proves("teams.md#feature-by-feature/events-words")
def test_why_shows_kueues_message_and_a_remedy(waiting: Di) -> None:
    lines = waiting("why", "first").lines
    assert lines[0] == f"first waits in queue team-a: {MISSING}"
    assert "WaitingForQuota" in lines[1]
    assert "nothing: it is admitted by itself" in lines[-1]


def test_why_has_a_remedy_for_an_unsupported_topology(di: Di) -> None:
    di.world.put(f"{JOBS}/far", queued("too many", name="far", reason="TopologyNotSupported"))
    assert "another scheduling.topology" in di("why", "far").lines[-1]
