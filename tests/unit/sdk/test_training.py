"""A training reports its progress and does not wait or fail because of it."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

import di_orchestrator as di
from di_api import names
from di_operator.allocator.model.profilings import Profilings, load_profilings
from di_orchestrator.training_run import training as training_run
from di_orchestrator.training_run.checkpoint import Checkpoints
from di_server.jobs.profilings import merge
from tests.unit.sdk.conftest import LEARNER, Clock
from tests.unit.sdk.trainings import Told, leave, make
from tests.unit.server.fakes import Harness
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("term")


@pytest.mark.proves(
    "sdk.md#reference/di-training-total-steps-float-none-none",
    "sdk.md#reference/report-step-float-none-none-samples-int",
)
@pytest.mark.usefixtures("learner")
def test_a_jobs_status_has_its_trainings_report(harness: Harness) -> None:
    with di.training(total_steps=10, init_batch_size=32) as run:
        for step in range(1, 11):
            with run.iteration(samples=32):
                pass
            run.report(step, env_steps=100 * step, loss=0.5)
    status = harness.job()["status"]
    assert status["progress"]["percent"] == "100%"
    said = status["profilings"]
    assert (said["step"], said["totalSteps"], said["envSteps"]) == (10, 10, 1000)
    assert (said["loss"], said["learners"], said["batchSize"]) == (0.5, 1, 32)
    assert said["observations"][0]["samples"] == 32
    assert {"reportedAt", "trainStepsPerSec", "learnerWaitFrac"} <= said.keys()
    # The allocator makes a curve of it.
    profilings = load_profilings(said)
    assert profilings is not None
    assert profilings.models().keys() == {""}
    assert profilings.reported_at is not None


@pytest.mark.proves("sdk.md#reference/batch-size-int-none")
def test_the_advised_batch_is_known_after_a_report(harness: Harness, learner: None) -> None:
    found: list[int | None] = []
    for step, (written, reports) in enumerate(((None, True), (512, True), (512, False))):
        harness.job()["status"]["batchSize"] = written
        with di.training(reports=reports) as run:
            found.append(run.batch_size)
            run.report(step)
        found.append(run.batch_size)
    assert found == [None, None, None, 512, None, None]


@pytest.mark.proves("sdk.md#reference/knows-nodes-bool")
@pytest.mark.usefixtures("learner")
@pytest.mark.parametrize(("placement", "expected"), [(["a", "b", "a"], [2]), (None, [])])
def test_learners_observe_on_the_nodes_that_the_allocator_answers(
    harness: Harness, placement: list[str] | None, expected: list[int]
) -> None:
    if placement is not None:
        harness.job()["status"]["placement"] = {"learner": placement}
    with di.training(learners=3) as run:
        run.report(0)
        wait_until(lambda: "profilings" in harness.job()["status"], 10)
        wait_until(lambda: placement is None or run.knows_nodes, 10)
        with run.iteration(samples=8), run.synchronizing():
            pass
    assert [each["nodes"] for each in run.observations] == expected


@pytest.mark.usefixtures("learner")
def test_only_the_first_pod_of_a_task_reports(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(names.ENV_TASK_RANK, "1")
    with di.training() as run:
        run.report(1)
    assert "profilings" not in harness.job()["status"]
    with di.training(reports=True) as run:
        run.report(1)
    assert harness.job()["status"]["profilings"]["step"] == 1


@pytest.mark.usefixtures("learner")
def test_a_failing_server_does_not_fail_the_training(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, harness: Harness
) -> None:
    with di.training() as run:
        harness.kube.objects.clear()
        run.report(1)
    assert "no such job" in caplog.text.lower() or "404" in caplog.text
    monkeypatch.setenv(names.ENV_SERVER_URL, "http://127.0.0.1:9")
    monkeypatch.setattr(training_run, "FLUSH_SECONDS", 0.05)
    with di.training() as run:
        run.report(1)
    assert "was not taken within" in caplog.text


# ------------------------------------------------------------ what is measured
@pytest.mark.proves(
    "sdk.md#training/with-run-iteration-samples-n-around-the",
    "sdk.md#reference/iteration-samples-int-stale-int-0",
    "sdk.md#reference/waiting-share-float-none",
)
def test_a_report_has_the_time_between_iterations(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        for _ in range(4):
            with run.iteration(samples=8, stale=2):
                clock.pass_(3)
            clock.pass_(1)
        run.report(1)
        assert run.waiting_share == 0.25
    last = told.reports[-1]
    assert (last["learnerWaitFrac"], last["trainStepsPerSec"]) == (0.25, 0.25)
    assert (last["staleDropped"], last["staleFrac"]) == (8, 0.2)
    assert last["observations"] == [
        {"nodes": 1, "replicas": 1, "samples": 8, "computing": 3.0, "iteration": 3.0}
    ]
    assert told.closed


@pytest.mark.proves(
    "sdk.md#training/for-batch-in-run-iterations-batches",
    "sdk.md#reference/iterations-batches-iterable-t-samples",
)
def test_iterations_times_each_batch(clock: Clock) -> None:
    def batches() -> Iterator[list[int]]:
        for size in (8, 4):
            clock.pass_(1)
            yield [0] * size

    with make(clock) as run:
        for _ in run.iterations(batches()):
            clock.pass_(3)
        for _ in run.iterations([7], samples=lambda batch: batch):
            clock.pass_(1)
        assert run.waiting_share == pytest.approx(1 / 7)


def test_a_changed_group_is_measured_separately(clock: Clock) -> None:
    told = Told()
    run = make(clock, told, nodes=1)
    for step in range(6):
        if step == 3:
            # The iteration under way was one of the old group, or waited for the new one.
            clock.now += 100
            run.report(step, learners=2)
        with run.iteration(samples=8):
            clock.now += 1 + step // 3
            with run.synchronizing():
                pass
    run.iteration(samples=8)
    seen = [(each["replicas"], each["iteration"]) for each in run.observations]
    assert seen == [(1, 1.0), (2, 2.0)]
    assert told.reports[-1]["learners"] == 2
    assert run.learners == 2


@pytest.mark.proves(
    "sdk.md#training/run-iteration-samples-n-as-a-call-or-run",
    "sdk.md#reference/report-step-float-none-none-samples-int",
)
def test_a_loop_that_only_reports_is_timed_too(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        for step in range(5):
            with run.waiting():
                clock.pass_(1)
            clock.pass_(1)
            run.report(step, samples=16)
    assert told.reports[-1]["trainStepsPerSec"] == 0.5
    assert told.reports[-1]["learnerWaitFrac"] == 0.5


@pytest.mark.proves("sdk.md#reference/waiting-share-float-none")
def test_unmeasured_waiting_is_not_reported(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        for step in range(20):
            run.report(step, samples=16)
            clock.pass_(1)
        assert run.waiting_share is None
        assert run.advise() is None
    assert "learnerWaitFrac" not in told.reports[-1]


@pytest.mark.proves("sdk.md#reference/synchronizing-abstractcontextmanager")
def test_several_learners_observe_their_synchronization(clock: Clock, group_port: str) -> None:
    group = {"MASTER_ADDR": "m", "MASTER_PORT": group_port, "WORLD_SIZE": "4", "RANK": "0"}
    for nodes, observed in ((2, 1), (None, 0)):
        told = Told()
        with make(clock, told, {**LEARNER, **group, "DI_NODE_KIND": "a100"}, nodes=nodes) as run:
            assert run.learners == 4
            with run.iteration(samples=8):
                clock.pass_(2)
                with run.synchronizing():
                    clock.pass_(1)
        assert len(told.reports[-1].get("observations", [])) == observed
        assert told.reports[-1]["kind"] == "a100"
        assert told.reports[-1]["batchSize"] == 32


class Allocator(Told):
    """Merges reports as di-server does, and answers on how many nodes the learners are."""

    def __init__(self, nodes_of: Mapping[int, int]) -> None:
        super().__init__()
        self.job: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "status": {}}
        self._nodes_of = nodes_of

    @override
    def tell(self, report: dict[str, Any]) -> None:
        super().tell(report)
        held = self.job["status"].get("profilings")
        self.job["status"]["profilings"] = merge(held, report)
        self.nodes = report["learners"], self._nodes_of[report["learners"]]

    @property
    def said(self) -> Profilings:
        """What the allocator reads."""
        found = load_profilings(self.job["status"]["profilings"])
        assert found is not None
        return found


def test_reports_follow_a_group_that_shrinks_and_grows(clock: Clock, group_port: str) -> None:
    group = {"MASTER_ADDR": "m", "MASTER_PORT": group_port, "WORLD_SIZE": "4", "RANK": "0"}
    nodes_of = {4: 2, 2: 1, 3: 2}
    told = Allocator(nodes_of)
    with make(clock, told, {**LEARNER, **group}) as run:
        step = 0
        for learners in (4, 2, 3):
            # Of a group that has just changed nothing is said that was measured of the last one.
            run.report(step, learners=learners, env_steps=step * 100)
            assert told.said.learners == learners
            assert told.said.batch_size is None
            assert (told.said.train_steps_per_sec, told.said.env_steps_per_sec) == (None, None)
            for _ in range(5):
                with run.iteration(samples=8):
                    clock.pass_(12 / learners)
                    with run.synchronizing():
                        clock.pass_(learners / 4)
                step += 1
                run.report(step, env_steps=step * 100)
            run.report(step, samples=None, env_steps=step * 100)
            took = 12 / learners + learners / 4
            said = told.said
            assert said.batch_size == 8 * learners
            assert said.train_steps_per_sec == pytest.approx(1 / took, rel=1e-3)
            assert said.env_steps_per_sec == pytest.approx(100 / took, rel=0.3)
            last = said.observations[-1]
            assert (last.nodes, last.replicas, last.samples) == (nodes_of[learners], learners, 8)
            assert last.iteration == pytest.approx(took, rel=1e-3)
            assert last.computing == pytest.approx(12 / learners, rel=1e-3)
    assert [each.replicas for each in told.said.observations] == [4, 2, 3]


@pytest.mark.proves("sdk.md#reference/observations-list-dict-str-any")
def test_observations_go_on_from_a_checkpoint(clock: Clock) -> None:
    with make(clock) as run:
        with run.iteration(samples=8):
            clock.pass_(1)
        run.iteration(samples=8)
        kept = run.observations
    told = Told()
    with make(clock, told, observations=kept) as run:
        run.report(1)
    assert told.reports[0]["observations"] == kept


def test_the_programs_own_values_take_precedence(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run:
        run.report(1, env_steps=0, learner_wait_frac=0.9, batch_size=7)
        with run.iteration(samples=8):
            clock.pass_(2)
        run.report(2, env_steps=100)
    last = told.reports[-1]
    assert (last["learnerWaitFrac"], last["batchSize"], last["envStepsPerSec"]) == (0.9, 7, 50)


@pytest.mark.proves("sdk.md#reference/phase-name-str-abstractcontextmanager")
def test_a_phase_is_reported_and_cleared(clock: Clock) -> None:
    told = Told()
    with make(clock, told) as run, run.phase("evaluation"):
        assert told.reports[-1]["phase"] == "evaluation"
    assert told.reports[-1]["phase"] == ""


# ------------------------------------------------------------ bad reports
@pytest.mark.proves("sdk.md#reference/di-badreport")
def test_a_bad_report_raises_in_test_mode_and_warns_otherwise(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    with make(clock, told, is_test=True) as run, pytest.raises(di.BadReport, match="envSteps"):
        run.report(1, env_steps="many")
    told = Told()
    with caplog.at_level(logging.WARNING), make(clock, told, is_test=False) as run:
        for step in range(3):
            run.report(step, env_steps="many")
        run.report(7)
    assert all("envSteps" not in report for report in told.reports)
    assert told.reports[-1]["step"] == 7
    assert [record.message for record in caplog.records] == [
        "a value was not reported: envSteps: must be a number (said once)"
    ]


# ------------------------------------------------------------ leaving and going on
@pytest.mark.proves(
    "sdk.md#stopping-and-going-on",
    "sdk.md#reference/stopping-bool",
    "sdk.md#reference/leaving-threading-event",
    "sdk.md#reference/save-write-callable-path-object-step-int",
)
def test_a_leaving_pod_saves_a_checkpoint(clock: Clock, tmp_path: Path) -> None:
    told = Told()
    with make(clock, told, checkpoint=Checkpoints(tmp_path, clock=clock)) as run:
        assert [run.stopping, run.leaving.is_set(), run.checkpoint.is_due] == [False] * 3
        run.report(41)
        leave()
        assert run.stopping
        assert run.leaving.wait(60)
        assert run.checkpoint.is_due
        assert run.save(lambda path: path.write_text("weights"))
        assert [run.checkpoint.is_due] == [False]
    assert told.reports[-1]["checkpointStep"] == 41
    assert (tmp_path / "checkpoint-41").read_text() == "weights"


GROUP = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "10314", "WORLD_SIZE": "2"}


@pytest.mark.proves("sdk.md#several-processes/run-save-write")
@pytest.mark.parametrize(("rank", "written"), [("0", ["checkpoint-3"]), ("1", [])])
def test_the_first_process_of_a_group_writes_a_checkpoint(
    clock: Clock, tmp_path: Path, rank: str, written: list[str]
) -> None:
    environment = {**LEARNER, **GROUP, "RANK": rank}
    checkpoints = Checkpoints(tmp_path, every_seconds=10, clock=clock)
    run = make(clock, Told(), environment, checkpoint=checkpoints)
    clock.pass_(10)
    if not written:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: pytest.fail("another process writes"))
            assert run.save(lambda path: path.write_text("weights"))
    else:
        run.report(3)
        assert run.save(lambda path: path.write_text("weights"))
    assert not run.checkpoint.is_due
    assert [path.name for path in tmp_path.iterdir()] == written


@pytest.mark.usefixtures("learner")
def test_a_misspelt_argument_is_an_error_with_the_right_one() -> None:
    with pytest.raises(TypeError, match=r"'total_step'; did you mean 'total_steps'\?"):
        di.training(total_step=5)
    with pytest.raises(TypeError, match=r"'init_batchsize'; did you mean 'init_batch_size'\?"):
        di.training(init_batchsize=5)
    # Keys of the program's own.
    di.training(target=5, epochs=3, seed=1, lr=0.1, steps_per_epoch=7)


def test_an_invalid_value_does_not_cost_the_rest_of_its_report(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    with make(clock, told, is_test=False) as run:
        run.report(7, loss=0.5, model=object(), policy_lag=-1)
    said = told.reports[0]
    assert (said["step"], said["loss"]) == (7, 0.5)
    assert not {"model", "policyLag"} & said.keys()
    assert "a value was not reported: model: must be what JSON knows" in caplog.text


@pytest.mark.proves("sdk.md#several-processes/run-report")
@pytest.mark.usefixtures("learner")
def test_one_process_of_a_pod_reports(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, group_port: str
) -> None:
    for rank in ("0", "1"):
        for name, value in {**GROUP, "MASTER_PORT": group_port, "RANK": rank}.items():
            monkeypatch.setenv(name, value)
        with di.training() as run:
            run.report(int(rank) + 5)
    assert harness.job()["status"]["profilings"]["step"] == 5


@pytest.mark.proves("sdk.md#reference/saved-step-float-none")
def test_a_checkpoint_that_a_library_saved_is_reported(clock: Clock) -> None:
    told = Told()
    with make(clock, told, checkpoint=Checkpoints(every_seconds=10, clock=clock)) as run:
        clock.pass_(10)
        run.saved(7)
        assert not run.checkpoint.is_due
    assert told.reports[0]["checkpointStep"] == 7


@pytest.mark.parametrize(("rank", "claims"), [("0", 1), ("1", 0)])
def test_only_the_first_process_records_what_a_library_saved(
    clock: Clock, tmp_path: Path, rank: str, claims: int
) -> None:
    environment = {**LEARNER, **GROUP, "RANK": rank}
    checkpoints = Checkpoints(tmp_path, every_seconds=10, job="uid", clock=clock)
    run = make(clock, Told(), environment, checkpoint=checkpoints)
    clock.pass_(10)
    run.saved(7)
    assert not run.checkpoint.is_due
    assert len([*tmp_path.iterdir()]) == claims


def test_a_signal_during_a_wait_is_noticed(clock: Clock) -> None:
    """As one that another thread has, or one right before the wait begins, does not."""

    def elsewhere() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    with make(clock) as run:
        timer = threading.Timer(0.2, elsewhere)
        timer.start()
        assert run.leaving.wait(60)
        timer.join()


def test_an_earlier_signal_handler_is_called_and_restored(clock: Clock) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with make(clock) as run:
            leave()
            assert run.stopping
        leave()
        assert heard == [signal.SIGTERM] * 2
    finally:
        signal.signal(signal.SIGTERM, before)


def test_training_in_a_thread_leaves_signals_alone(clock: Clock) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[bool] = []

    def train() -> None:
        with make(clock) as run:
            found.append(run.stopping)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join(60)
    assert found == [False]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_checkpoint_needs_a_step(clock: Clock, tmp_path: Path) -> None:
    with make(clock, checkpoint=Checkpoints(tmp_path)) as run:
        with pytest.raises(ValueError, match="report one before"):
            run.save(lambda path: path.write_text("x"))
        run.report(env_steps=5)
        assert run.save(lambda path: path.write_text("x"))
        assert run.save(lambda path: path.write_text("x"), step=9)
        assert run.checkpoint.saved_step == 9
    with make(clock) as run:
        assert not run.save(lambda path: path.write_text("x"), step=1)


def test_a_restored_training_reports_its_restore_time(clock: Clock, tmp_path: Path) -> None:
    for restored in (None, 3):
        told = Told()
        with make(clock, told, checkpoint=Checkpoints(tmp_path, restored)) as run:
            run.iteration(samples=1)
            clock.pass_(1)
            run.iteration(samples=1)
            run.report(4)
        assert ("restoreSeconds" in told.reports[-1]) == (restored is not None)
    assert 0 < told.reports[-1]["restoreSeconds"] < 24 * 3600
