"""What must hold for a sweep: no trial twice, none lost, true counts, nothing left to do."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from typing_extensions import override

from di_api.names import LABEL_TRIAL
from di_api.ownership import sweep_uid
from di_api.phase import has_finished
from di_api.sweeps import decide, load_sweep, read_trial
from di_api.timestamps import parse_time
from di_kube.resources import DIJOBS, DISWEEPS
from di_operator.sweeps.status import is_complete, is_trial_of, status_of
from tests.unit.operator.fake_api import Object
from tests.unit.operator.histories.checks import Watcher
from tests.unit.operator.histories.operator import METRICS
from tests.unit.operator.histories.sweeps import stored_sweep
from tests.unit.operator.histories.world import World

COUNTS: Final = ("pending", "running", "succeeded", "failed", "stopped")


class SweepWatcher(Watcher):
    """Follows all changes of a sweep, too."""

    def __init__(self, world: World) -> None:
        super().__init__(world, is_undisturbed=False)
        self._defects = _defects()
        self._created: dict[str, set[int]] = defaultdict(set)
        """Indexes of the trials that were created before their sweep was complete, by its UID."""
        self._ever_created: dict[str, set[int]] = defaultdict(set)
        self._late_trials = set[str]()
        """Names of trials that a late request created, or one after their sweep was complete."""
        self._repeated = set[str]()
        """Names of trials that were created again, perhaps while the sweep was completed."""
        self._parallelism: dict[str, int] = defaultdict(int)
        """The largest parallelism that a sweep has had, by its UID."""

    @override
    def _follow(self, kind: str, old: Object | None, new: Object | None) -> None:
        super()._follow(kind, old, new)
        if kind == DISWEEPS.kind and new is not None:
            uid = new["metadata"]["uid"]
            self._parallelism[uid] = max(self._parallelism[uid], new["spec"]["parallelism"])
        if kind == DIJOBS.kind and old is None and new is not None:
            self._check_new_trial(new)

    def _check_new_trial(self, job: Object) -> None:
        sweep, uid = stored_sweep(self._world), sweep_uid(job)
        assert uid is not None
        index, name = int(job["metadata"]["labels"][LABEL_TRIAL]), job["metadata"]["name"]
        if sweep is None or sweep["metadata"]["uid"] != uid:
            return
        self._ever_created[uid].add(index)
        if is_again := index in self._created[uid]:
            self._repeated.add(name)
        if not is_complete(sweep):
            self._created[uid].add(index)
        if is_complete(sweep) or self._world.api.is_late:
            # A request that was delayed: the trial is stopped if it is one too many, and perhaps
            # not counted.
            self._late_trials.add(name)
            return
        # A deleted copy is created again, and so is a trial that was deleted before it was counted.
        is_counted = index < (sweep.get("status") or {}).get("created", 0)
        if is_again and is_counted and "population" not in sweep["spec"]:
            self.blame(f"{name} was created twice")
        active = [each for each in self._trials(sweep) if self._is_active(each)]
        # The operator cannot know a trial if neither an event nor a response says that it is there.
        is_blind = self._world.is_contested or self._world.api.has_lost
        if len(active) > self._parallelism[uid] and not is_blind:
            names = sorted(each["metadata"]["name"] for each in active)
            self.blame(f"{names} run at the same time, more than {self._parallelism[uid]}")

    def _is_active(self, job: Object) -> bool:
        """Return whether a trial runs or waits, or has pods that still run."""
        name = job["metadata"]["name"]
        if has_finished(job) or name in self._late_trials:
            return False
        has_pods = any(pod.startswith(f"{name}-w-") for pod in self._world.pods_in("Running"))
        return has_pods or not job["spec"].get("suspend")

    def _trials(self, sweep: Object) -> list[Object]:
        return [job for job in self._world.api.all(DIJOBS.kind) if is_trial_of(job, sweep)]

    @override
    async def rest(self, *, is_polled: bool = False) -> None:
        await super().rest(is_polled=is_polled)
        sweep = stored_sweep(self._world)
        # Programs that still report leave something to do at any time.
        if sweep is not None and (not self._world.is_ending or is_complete(sweep)):
            for left in self._left_to_do(sweep):
                self.blame(f"left to do for the sweep: {left}")
        if _defects() > self._defects:
            self.blame("a sweep failed by a defect")

    def _left_to_do(self, sweep: Object) -> list[str]:
        """Return what a decision about the sweep on the true state would do."""
        spec, now = load_sweep(sweep), self._world.clock.now()
        status = sweep.get("status") or {}
        jobs = self._trials(sweep)
        trials = [each for job in jobs if (each := read_trial(job, spec, now)) is not None]
        if is_complete(sweep):
            return [f"{each.index} still runs" for each in trials if each.is_active]
        began = parse_time(sweep["metadata"]["creationTimestamp"])
        assert began is not None
        elapsed = (now - began).total_seconds()
        decision = decide(spec, trials, created=status.get("created", 0), elapsed=elapsed)
        left = [f"record of {each.index}" for each in decision.changed]
        left += [f"trial {index}" for index in decision.create]
        left += [f"copy {index}" for index, _ in decision.copies]
        true = status_of(sweep, spec, trials, lambda _: {}, decision, refused="", now=now)
        left += [
            f"{field}: {status.get(field)} -> {true[field]}"
            for field in (*COUNTS, "created")
            if status.get(field) != true[field]
        ]
        return left

    @override
    def check_end(self) -> None:
        """Check that the sweep is complete and has counted its trials."""
        super().check_end()
        if (sweep := stored_sweep(self._world)) is None:
            return
        if not is_complete(sweep):
            self.blame(f"the sweep has not ended: {sweep.get('status')}")
            return
        status, created = sweep["status"], self._ever_created[sweep["metadata"]["uid"]]
        # Trials that were deleted after the end are still counted.
        others = self._late_trials | self._repeated
        left = [job for job in self._trials(sweep) if job["metadata"]["name"] not in others]
        total = sum(status[each] for each in COUNTS)
        if not len(left) <= total <= len(created):
            self.blame(f"{total} trials are counted of {created}: {status}")
        # A trial that was deleted before it was counted is not lost.
        if "population" not in sweep["spec"] and not created >= {*range(status["created"])}:
            self.blame(f"{status['created']} trials, of which were created {created}")


def _defects() -> float:
    labels = {"result": "error"}
    name = "di_operator_sweep_reconciles_total"
    return METRICS.registry.get_sample_value(name, labels) or 0.0
