"""Grants that follow from a policy's answer: a table of single steps, and larger cases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from di_operator.allocator.forecast.arrivals import ask_for_arrivals
from di_operator.allocator.grants.checked_plan import Change
from di_operator.allocator.grants.granting import NOTHING_SAID, Step, Word, Words, granted, step
from di_operator.allocator.model.job import WAIT, JobInfo, NodeList
from di_operator.allocator.observe.scheduling_snapshot import SchedulingSnapshot
from di_operator.lifecycle.observed.placement import Grant
from di_operator.lifecycle.vocabulary.reasons import Reason
from tests.unit.allocator.objects import job, other, placed, pod, snapshot, task

Object = dict[str, Any]
ON_A, ON_B = placed(learner="a a"), placed(learner="b b")
WITH_TWO = placed(learner="a", collector="a b")
WITH_OTHERS = placed(learner="a", collector="a a")
WAITING = "waiting for nodes that other jobs have"


def word(wants: NodeList, has: NodeList | None = None, message: str = "") -> Word:
    found = wants if has is None else has
    reason = Reason.WAITING_FOR_NODES if message else None
    return Word(
        wants=wants,
        has=found,
        grant=Grant(placement=dict(found.tasks), reason=reason, message=message),
    )


@dataclass(frozen=True, kw_only=True)
class Row:
    """One step of a job x; `before` None: nothing has been decided about it."""

    before: Word | None = None
    pods: tuple[Object, ...] = ()
    leaving: str = ""
    """Nodes of pods on their way out, each of one slot."""
    others: str = ""
    """Nodes of pods of others, each of one slot."""
    answer: NodeList | None = None
    explain: bool = False
    tasks: tuple[Object, ...] = field(default_factory=lambda: (task("learner", 2),))
    wants: NodeList | None = None
    has: NodeList | None = None
    is_told: bool = True


RUNS_ON_A = (pod("x", "learner", "a"), pod("x", "learner", "a"))
TWO_TASKS = (task("learner"), task("collector", 2, minReplicas=1))
PAIRS = (task("learner"), task("collector", 2, minReplicas=1, podsPerReplica=2))
ELASTIC = task(
    "learner",
    2,
    minReplicas=1,
    maxReplicas=4,
    processGroup={"framework": "none", "elastic": True},
)
TABLE = {
    "nothing was asked, nothing is said": Row(is_told=False),
    "what can be had is granted": Row(answer=ON_A, wants=ON_A, has=ON_A),
    "what is taken for now is granted later": Row(
        answer=ON_A, leaving="a a a", wants=ON_A, has=WAIT
    ),
    "and it is once the room is free": Row(
        before=word(ON_A, WAIT, WAITING), wants=ON_A, has=ON_A
    ),
    "as long as it is not, there is no news": Row(
        before=word(ON_A, WAIT, WAITING), leaving="a a a", wants=ON_A, has=WAIT, is_told=False
    ),
    "who has what it wants hears nothing new": Row(
        before=word(ON_A), pods=RUNS_ON_A, wants=ON_A, has=ON_A, is_told=False
    ),
    "its own pods do not block it": Row(
        before=word(ON_A), pods=RUNS_ON_A, others="a a", answer=ON_A, wants=ON_A, has=ON_A,
        is_told=False,
    ),
    "learners leave before they come back elsewhere": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=ON_B, leaving="b b b", wants=ON_B, has=WAIT
    ),
    "collectors that do not move stay meanwhile": Row(
        before=word(WITH_TWO),
        answer=WITH_OTHERS,
        leaving="a a a",
        tasks=TWO_TASKS,
        wants=WITH_OTHERS,
        has=placed(learner="a", collector="a"),
    ),
    "of collectors in pairs those that are whole stay meanwhile": Row(
        before=word(placed(learner="b", collector="a a a a")),
        answer=placed(learner="b", collector="a a a b"),
        leaving="b b b",
        tasks=PAIRS,
        wants=placed(learner="b", collector="a a a b"),
        has=placed(learner="b", collector="a a"),
    ),
    "members of an elastic group that stay run on until the others fit": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=placed(learner="a a b b"), leaving="b b b",
        tasks=(ELASTIC,), wants=placed(learner="a a b b"), has=ON_A, is_told=False,
    ),
    "and those that are to go leave at once": Row(
        before=word(placed(learner="a b")), answer=placed(learner="a a a a"), leaving="a a",
        tasks=(ELASTIC,), wants=placed(learner="a a a a"), has=placed(learner="a"),
    ),
    "an elastic group none of whose members stays leaves before it comes back": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=ON_B, leaving="b b b", tasks=(ELASTIC,),
        wants=ON_B, has=WAIT,
    ),
    "a group of fixed size that grows where it is goes on until there is room": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=placed(learner="a a a"), leaving="a a",
        tasks=(task("learner", 2, maxReplicas=4),), wants=placed(learner="a a a"), has=ON_A,
        is_told=False,
    ),
    "who stays keeps its index": Row(
        before=word(placed(learner="b b")), answer=placed(learner="a b b"), leaving="a a a a",
        tasks=(ELASTIC,), wants=placed(learner="b b a"), has=placed(learner="b b"), is_told=False,
    ),
    "a job that has to wait is notified": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=WAIT, wants=WAIT, has=WAIT
    ),
    "and not again": Row(
        before=word(WAIT, WAIT, WAITING), wants=WAIT, has=WAIT, is_told=False
    ),
    "but again if the reason changes": Row(
        before=word(WAIT, WAIT, "what was true an hour ago"),
        explain=True,
        wants=WAIT,
        has=WAIT,
    ),
    "what cannot be had changes nothing": Row(
        before=word(ON_A), pods=RUNS_ON_A, others="b b b", answer=ON_B, wants=ON_A, has=ON_A,
        is_told=False,
    ),
    "nor does an answer out of bounds": Row(
        before=word(ON_A), pods=RUNS_ON_A, answer=placed(learner="b"), wants=ON_A, has=ON_A,
        is_told=False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE.keys())
def test_one_step_grants_what_is_free(row: Row) -> None:
    words = {} if row.before is None else {"uid-x": row.before}
    gone = [pod("old", "learner", name, ending=True) for name in row.leaving.split()]
    found = snapshot(
        job("x", *row.tasks, phase="Pending"),
        pods=[*row.pods, *gone],
        others=[other(name) for name in row.others.split()],
        departed=[job("old", task("learner", 3))],
        granted=granted(words),
    )
    answer = {} if row.answer is None else {"rl/x": row.answer}
    done = step(words, found, answer, whole=False, explain=row.explain)

    assert (done.told == ("rl/x",)) == row.is_told
    if row.wants is None:
        assert done.words == {}
        return
    said = done.words["uid-x"]
    assert (said.wants, said.has) == (row.wants, row.has)
    assert said.grant.placement == dict(said.has.tasks)
    assert said.grant.message == ("" if said.has else WAITING)


def look(*jobs: Object, words: Words = NOTHING_SAID, **parts: Any) -> SchedulingSnapshot:
    return snapshot(*jobs, granted=granted(words), **parts)


def answered(found: SchedulingSnapshot, words: Words = NOTHING_SAID, **wants: NodeList) -> Step:
    answer = {f"rl/{name}": nodes for name, nodes in wants.items()}
    return step(words, found, answer, whole=True, explain=True)


def test_a_grant_has_the_types_of_its_nodes() -> None:
    found = look(job("x", task("learner", 2), phase="Pending"))
    nodes = {**found.nodes, "a": replace(found.nodes["a"], kind="fast")}
    done = answered(replace(found, nodes=nodes), x=placed(learner="a b"))

    assert done.words["uid-x"].grant.kinds == {"a": "fast"}


def test_a_grant_advises_a_batch_for_its_nodes() -> None:
    one = {"initBatchSize": 64, "maxBatchSize": 4096, "gradParams": {"sqr": 1.0, "var": 50.0}}
    two = {"nodes": 1, "replicas": 2, "samples": 32, "computing": 0.1, "iteration": 0.2}
    said = {**one, "observations": [two], "reportedAt": "2026-01-01T12:00:00Z"}
    status = {"profilings": said}
    body = job("x", task("learner", 1, maxReplicas=4), phase="Running", status=status)
    first = answered(look(body), x=placed(learner="a")).words
    grant = first["uid-x"].grant
    assert grant.batch_size is not None
    assert grant.batch_size > 64

    # The same nodes and hardly another fit: no news. Other nodes: other advice.
    near = {"uid-x": replace(first["uid-x"], grant=replace(grant, batch_size=grant.batch_size + 1))}
    found = look(body, words=near)
    assert answered(found, near, x=placed(learner="a")).told == ()
    more = answered(found, near, x=placed(learner="a a a a")).words["uid-x"].grant
    assert (more.batch_size or 0) > 2 * grant.batch_size


def test_a_gang_is_released_to_the_clusters_scheduler() -> None:
    gang = {"preemptible": False, "scheduling": {"gang": True}}
    found = look(job("x", task("learner", 2), phase="Pending", **gang))

    assert answered(found, x=ON_A).words["uid-x"].grant == Grant()
    assert answered(found, x=WAIT).words["uid-x"].grant == Grant(
        reason=Reason.WAITING_FOR_NODES, message=WAITING
    )


def test_a_job_that_can_never_run_reports_its_shortage() -> None:
    found = look(job("x", task("learner", 9, minReplicas=9), phase="Pending"))
    grant = answered(found, x=WAIT).words["uid-x"].grant

    assert grant.reason is Reason.UNSCHEDULABLE
    assert "there is room for 8 on 2 of 2 nodes" in grant.message


def test_two_jobs_are_not_granted_the_same_capacity() -> None:
    jobs = [job(name, task("learner", 2), phase="Pending") for name in ("x", "y")]
    leaving = [pod("old", "learner", "a", ending=True)] * 2
    found = look(*jobs, pods=leaving, departed=[job("old", task("learner", 2))])
    done = answered(found, x=ON_A, y=ON_A)

    assert {key: word.has for key, word in done.words.items()} == {"uid-x": ON_A, "uid-y": WAIT}
    assert done.words["uid-y"].wants == ON_A


def test_an_overcommitted_node_does_not_delay_jobs_elsewhere() -> None:
    words = {"uid-x": word(ON_A)}
    jobs = [job(name, task("learner", 2), phase="Pending") for name in ("x", "y", "z")]
    leaving = [pod("old", "learner", "a", ending=True)] * 3
    found = look(*jobs, words=words, pods=leaving, departed=[job("old", task("learner", 3))])
    done = answered(found, words, x=ON_A, y=ON_B, z=ON_A)

    assert [done.words[f"uid-{name}"].has for name in "xyz"] == [ON_A, ON_B, WAIT]


def test_an_arrival_takes_nothing_from_a_moving_job() -> None:
    """x is to move to b as soon as there is room; y, which comes meanwhile, does not cancel it."""
    words = {"uid-x": word(ON_B, WAIT, WAITING)}
    jobs = [job(name, task("learner", 2), phase="Pending") for name in ("x", "y")]
    leaving = [pod("old", "learner", "b", ending=True)] * 3
    found = look(*jobs, words=words, pods=leaving, departed=[job("old", task("learner", 3))])
    asked: list[tuple[str, int]] = []

    def ask(job: JobInfo, nodes: Any) -> NodeList:
        asked.append((job.key, nodes["b"].free["example.org/slot"] // 1000))
        return ON_A

    answer = ask_for_arrivals(words, found, ask)
    done = step(words, found, answer, whole=False, explain=False)

    assert asked == [("rl/y", 2)]
    assert done.words["uid-x"] == words["uid-x"]
    assert done.words["uid-y"].has == ON_A
    assert done.changes == {"rl/y": Change.START}


def test_arrivals_see_what_earlier_arrivals_took() -> None:
    found = look(*(job(name, task("learner", 3), phase="Pending") for name in ("x", "y")))
    offered: list[int] = []

    def ask(_: JobInfo, nodes: Any) -> NodeList:
        offered.append(nodes["a"].free["example.org/slot"] // 1000)
        return placed(learner="a a a") if len(offered) == 1 else WAIT

    ask_for_arrivals(NOTHING_SAID, found, ask)

    assert offered == [4, 1]


def test_a_job_missing_from_the_snapshot_is_forgotten() -> None:
    words = {"uid-x": word(ON_A), "uid-gone": word(ON_B)}
    found = look(job("x", task("learner", 2)), words=words)

    assert step(words, found, {}, whole=False, explain=False).words == {"uid-x": words["uid-x"]}


def test_a_job_missing_from_the_answer_keeps_its_nodes() -> None:
    words = {"uid-x": word(ON_B, ON_A)}
    found = look(job("x", task("learner", 2)), words=words, pods=list(RUNS_ON_A))

    assert answered(found, words).words["uid-x"] == word(ON_A)


@pytest.mark.parametrize("gang", [False, True])
@pytest.mark.parametrize(
    ("replicas", "reason", "words"),
    [
        (8, Reason.WAITING_FOR_NODES, "waiting for nodes that other jobs and pods have: task"),
        (9, Reason.UNSCHEDULABLE, "task learner needs 9 replicas, there is room for 8"),
    ],
    ids=["fits when others end", "fits never"],
)
def test_a_job_behind_pods_of_others_waits_for_nodes(
    gang: bool, replicas: int, reason: Reason, words: str
) -> None:
    spec = {"preemptible": False, "scheduling": {"gang": True}} if gang else {}
    found = snapshot(
        job("x", task("learner", replicas), phase="Pending", **spec),
        others=[other("a"), other("b")],
    )
    grant = step(NOTHING_SAID, found, {}, whole=True, explain=True).words["uid-x"].grant
    assert grant.reason is reason
    assert grant.message.startswith(words)


def test_a_gang_behind_a_gang_that_has_its_pods_waits_for_nodes() -> None:
    spec = {"preemptible": False, "scheduling": {"gang": True}}
    found = snapshot(
        job("first", task("learner", 8), phase="Starting", **spec),
        job("second", task("learner", 8), phase="Pending", **spec),
        pods=[pod("first", "learner", "a") for _ in range(4)],
    )
    grant = step(NOTHING_SAID, found, {}, whole=True, explain=True).words["uid-second"].grant
    assert grant.reason is Reason.WAITING_FOR_NODES
