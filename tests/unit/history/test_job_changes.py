"""What is recorded of two successive states of a job."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from di_api.profilings import MOST_NUMBERS
from di_history.changes.jobs import first_sight_gap, gap, job_changes, job_gone
from di_history.changes.snapshot import snapshot_of
from di_history.records import Entry, EntryKind, JobGone, JobSeen, Record, Revision, Sample
from tests.unit.history.jobs import NOON, UID, clock, condition, job, manager

SEEN = NOON + 500_000
Line = tuple[EntryKind, int, dict[str, Any]]
RUNNING: dict[str, Any] = {
    "phase": "Running",
    "conditions": [condition("Running", "True", 20, reason="JobRunning", message="3 pods ready")],
}
FAILURE = {
    "uid": "pod-1",
    "pod": "x-learner-0",
    "exitCode": 137,
    "reason": "OOMKilled",
    "time": clock(50),
}


def entries(records: list[Record]) -> list[Line]:
    return [
        (each.kind, (each.at - NOON) // 1000, dict(each.data))
        for each in records
        if isinstance(each, Entry)
    ]


def line(kind: EntryKind, at: int, **data: Any) -> list[Line]:
    return [(kind, at, data)]


def scaled(who: str, *, changed_by: str = "", managers: tuple[str, ...]) -> Any:
    """A scaling by the last of the managers, and its record."""
    fields = tuple(manager(name, 70 * bool(at)) for at, name in enumerate(managers))
    status = manager("di-operator", 80, subresource="status")
    after = job(12, generation=2, collectors=4, changed_by=changed_by, managers=(*fields, status))
    return job(11), after, line(EntryKind.SCALING, 70, task="collector", before=2, after=4, who=who)


ENTERED: dict[str, Any] = {
    **{"phase": "Running", "before": "", "reason": "JobRunning", "message": "3 pods ready"}
}
HUNG = condition("Hung", "True", 45, reason="Hung", message="no step")
RESTARTED = condition("Restarting", "False", 55, reason="JobRestarting")
FAILED = {key: FAILURE[key] for key in ("uid", "pod", "exitCode", "reason")}
TABLE: dict[str, tuple[dict[str, Any] | None, dict[str, Any], list[Line]]] = {
    "no status": (None, job(), []),
    "a phase at the time of its condition": (
        job(),
        job(11, **RUNNING),
        line(EntryKind.PHASE, 20, **ENTERED),
    ),
    "a phase without a condition when it is seen": (
        job(),
        job(11, phase="Pending"),
        line(EntryKind.PHASE, 500, phase="Pending", before="", reason="", message=""),
    ),
    "no unchanged phase": (job(11, **RUNNING), job(12, restarts=0, **RUNNING), []),
    "no older version": (job(12), job(12, **RUNNING), []),
    "a failed pod with exit code and reason": (
        job(11, **RUNNING),
        job(12, **RUNNING, failures=[FAILURE]),
        line(EntryKind.FAILURE, 50, **FAILED),
    ),
    "no failure twice": (
        job(11, failures=[FAILURE], **RUNNING),
        job(12, failures=[FAILURE], **RUNNING),
        [],
    ),
    "a restart with its count": (
        job(11, restarts=1),
        job(12, restarts=2, conditions=[RESTARTED]),
        line(EntryKind.RESTART, 55, restarts=2, before=1, reason="JobRestarting", message=""),
    ),
    "no reset of the restarts": (job(11, restarts=2), job(12), []),
    "a scaling with its field manager": scaled(
        "di-server", managers=("kubectl-create", "di-server")
    ),
    "a scaling with its user": scaled(
        "pod x-learner-0 (di-server)",
        changed_by="2 pod x-learner-0",
        managers=("kubectl-create", "di-server"),
    ),
    "no user of an earlier change": scaled(
        "kubectl-edit", changed_by="1 ann", managers=("kubectl-create", "kubectl-edit")
    ),
    "a changed condition": (
        job(11, conditions=[condition("Hung", "False", 30)]),
        job(12, conditions=[HUNG]),
        line(EntryKind.CONDITION, 45, type="Hung", status="True", reason="Hung", message="no step"),
    ),
    "no condition that was never True": (
        job(11),
        job(12, conditions=[condition("Hung", "False", 45)]),
        [],
    ),
    "a placement by replicas on each node": (
        job(11),
        job(12, placement={"collector": ["n1", "n2", "n1"]}, placementTime=clock(33)),
        line(EntryKind.ALLOCATION, 33, before={}, after={"collector": {"n1": 2, "n2": 1}}),
    ),
}


@pytest.mark.proves(
    "history.md#what-is-kept/phases",
    "history.md#what-is-kept/scalings",
    "history.md#what-is-kept/allocations",
    "history.md#what-is-kept/conditions-events",
)
@pytest.mark.parametrize(("before", "after", "expected"), TABLE.values(), ids=TABLE)
def test_a_change_is_recorded(before: Any, after: Any, expected: list[Line]) -> None:
    """Also from a stored snapshot, and with the same keys by a later observer."""
    kept = None if before is None else json.loads(json.dumps(snapshot_of(before)))
    assert entries(job_changes(before, after, SEEN)) == expected
    assert entries(job_changes(kept, after, SEEN)) == expected

    def keys(seen: int) -> list[str]:
        return [each.key for each in job_changes(before, after, seen) if isinstance(each, Entry)]

    assert keys(SEEN) == keys(SEEN + 60_000)


def test_a_job_is_known_by_its_creator_and_version() -> None:
    found = job_changes(None, job(11, **RUNNING), SEEN)[0]
    assert isinstance(found, JobSeen)
    assert (found.uid, found.owner, found.created, found.version, found.phase, found.completed) == (
        UID,
        "kubectl-create",
        NOON,
        11,
        "Running",
        None,
    )


@pytest.mark.proves("history.md#what-is-kept/revisions", "history.md#who")
def test_a_new_spec_is_a_revision_with_its_writer() -> None:
    written = job(
        12, generation=3, managers=(manager("kubectl-create", 0), manager("kubectl-edit", 70))
    )
    found = [each for each in job_changes(job(11), written, SEEN) if isinstance(each, Revision)]
    assert [(each.number, each.who, each.at) for each in found] == [
        (3, "kubectl-edit", NOON + 70_000)
    ]
    manifest = json.loads(found[0].manifest)
    assert manifest["spec"] == written["spec"]
    assert manifest["metadata"] == {"name": "x", "namespace": "rl", "annotations": {"team": "a"}}
    assert "status" not in manifest


def test_a_deletion_is_no_revision() -> None:
    """The API server increments the generation when it sets the deletionTimestamp."""
    deleted, edited = job(12, generation=2), job(13, generation=3, collectors=4)
    for each in (deleted, edited):
        each["metadata"]["deletionTimestamp"] = clock(60)
    assert not [each for each in job_changes(job(11), deleted, SEEN) if isinstance(each, Revision)]
    found = [each for each in job_changes(deleted, edited, SEEN) if isinstance(each, Revision)]
    assert [each.number for each in found] == [3]


def test_a_placement_without_nodes_is_no_move() -> None:
    waits, placed = job(12, placement={"collector": [""]}), job(13, placement={"collector": ["n1"]})
    assert entries(job_changes(job(11), waits, SEEN)) == []
    (told,) = entries(job_changes(waits, placed, SEEN))
    assert told[2] == {"before": {}, "after": {"collector": {"n1": 1}}}


def test_of_two_writers_in_a_second_the_new_one_is_recorded() -> None:
    # As the API server sorts them: by time, then by name.
    both = (manager("ann", 0), manager("kubectl-create", 0))
    written = job(12, generation=2, collectors=4, managers=both)
    whos = [
        each.who if isinstance(each, Revision) else json.loads(json.dumps(each.data))["who"]
        for each in job_changes(job(11), written, SEEN)
        if isinstance(each, Revision) or (isinstance(each, Entry) and "who" in each.data)
    ]
    assert whos == ["ann", "ann"]


def test_a_status_is_no_revision() -> None:
    found = job_changes(job(11), job(12, **RUNNING), SEEN)
    assert not [each for each in found if isinstance(each, Revision)]


@pytest.mark.proves("history.md#what-is-kept/series")
def test_a_report_is_kept_as_numbers_by_their_paths() -> None:
    status: dict[str, Any] = {
        "progress": {"reportedAt": clock(77), "step": 40, "totalSteps": 100},
        "profilings": {
            "reward": 1.5,
            "loss": {"actor": 2, "name": "x", "ok": True},
            "bad": 10**400,
        },
    }
    found = [
        each for each in job_changes(job(11), job(12, **status), SEEN) if isinstance(each, Sample)
    ]
    values = {"reward": 1.5, "loss.actor": 2.0, "step": 40.0, "totalSteps": 100.0}
    assert found == [Sample(job=UID, at=NOON + 77_000, values=values)]


def test_a_report_is_bounded() -> None:
    status: dict[str, Any] = {
        "progress": {"reportedAt": clock(77)},
        "profilings": {f"n{i}": i for i in range(5000)},
    }
    found = [
        each for each in job_changes(None, job(12, **status), SEEN) if isinstance(each, Sample)
    ]
    assert len(found[0].values) == MOST_NUMBERS


def test_a_report_is_recorded_once() -> None:
    status: dict[str, Any] = {"progress": {"reportedAt": clock(77)}, "profilings": {"reward": 1.0}}
    found = job_changes(job(11, **status), job(12, restarts=1, **status), SEEN)
    assert not [each for each in found if isinstance(each, Sample)]


def test_replicas_of_a_coordinator_are_counted_by_role() -> None:
    before, after = job(11), job(12, generation=2)
    for each, roles in ((before, ["collector"]), (after, ["collector", "collector", "learner"])):
        replicas = [{"name": f"x-{i}", "role": role} for i, role in enumerate(roles)]
        each["spec"] = {"coordinated": {"replicas": replicas}}
    told = entries(job_changes(before, after, SEEN))
    assert sorted((data["task"], data["before"], data["after"]) for _, _, data in told) == [
        ("collector", 1, 2),
        ("learner", 0, 1),
    ]


@pytest.mark.proves("history.md#gaps/deleted-with-after")
def test_an_unseen_deletion_has_an_earliest_time() -> None:
    found = job_gone(job(), SEEN, not_before=NOON)
    assert found == [
        JobGone(uid=UID, at=SEEN),
        Entry(
            job=UID,
            key="deleted",
            kind=EntryKind.DELETED,
            at=SEEN,
            version=11,
            data={"after": NOON},
        ),
    ]


@pytest.mark.parametrize(("later", "is_expired"), [(59_000, False), (60_000, True)])
def test_a_deletion_after_its_time_to_live_is_recorded_as_expired(
    later: int, is_expired: bool
) -> None:
    last = job(completionTimestamp=clock(0))
    last["spec"]["ttlSecondsAfterFinished"] = 60
    for each in (last, snapshot_of(last)):
        (_, told) = job_gone(each, NOON + later)
        assert isinstance(told, Entry)
        assert told.data == ({"expired": True} if is_expired else {})


@pytest.mark.proves("history.md#gaps/gap")
def test_a_gap_names_the_changed_fields() -> None:
    before = snapshot_of(job(11, phase="Running"))
    found = gap(before, job(14, generation=2, collectors=3, phase="Succeeded"), NOON, SEEN)
    assert entries(found) == [
        (EntryKind.GAP, 500, {"from": NOON, "changed": ["spec.tasks", "status.phase"]})
    ]


def test_an_unchanged_job_has_no_gap() -> None:
    assert gap(snapshot_of(job(11)), job(11), NOON, SEEN) == []


@pytest.mark.proves("history.md#gaps/gap")
def test_an_old_job_has_a_gap_at_its_first_sight() -> None:
    assert entries(first_sight_gap(job(), SEEN)) == [
        (EntryKind.GAP, 500, {"from": NOON, "changed": []})
    ]
    assert first_sight_gap(job(), NOON + 5_000) == []


@pytest.mark.parametrize(
    "odd", [{}, {"metadata": None}, {"metadata": {"uid": 3}, "spec": [], "status": "x"}]
)
def test_an_odd_job_raises_nothing(odd: dict[str, Any]) -> None:
    job_changes(None, odd, SEEN)
    job_changes(odd, job(11, **RUNNING), SEEN)


def test_phases_of_one_second_are_different_entries_in_the_order_of_versions() -> None:
    def at_once(version: int, phase: str) -> Any:
        return job(version, phase=phase, conditions=[condition(phase, "True", 20)])

    jobs = [at_once(9 + i, p) for i, p in enumerate(("Running", "Rescheduling", "Running"))]
    found = [
        each
        for before, after in pairwise(jobs)
        for each in job_changes(before, after, SEEN)
        if isinstance(each, Entry)
    ]
    assert [(each.data["phase"], each.version) for each in found] == [
        ("Rescheduling", 10),
        ("Running", 11),
    ]
    assert len({each.key for each in found}) == 2


def test_a_placement_on_no_node_before_and_after_is_no_change() -> None:
    before, after = job(11, placement={}), job(12, placement={"learner": []})
    assert entries(job_changes(before, after, SEEN)) == []
