"""Notifications of jobs: to which targets, how often, and what a failing target changes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from typing_extensions import override

from di_kube.client import KubeClient
from di_kube.errors import Conflict
from di_operator.notification_targets import Format, Happening, Target, read_targets
from di_operator.notifications.news import addressees, body, news_of
from di_operator.notifications.notifier import ATTEMPTS, Notifier
from di_operator.process.clock import SystemClock
from di_operator.process.controller import JobKey
from di_operator.process.lease_state import NotLeading
from tests.fakes.receiver import Receiver, receiving
from tests.waiting import wait_until_async

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AT = "2026-03-01T11:59:00Z"
TEAM = Target(
    name="team",
    format=Format.JSON,
    url_file=Path("/none"),
    on=frozenset(Happening),
    default=True,
)
CHAT = replace(TEAM, name="chat", format=Format.SLACK, default=False)


def job(
    kind: str = "Failed", at: str = AT, *, notify: str | None = None, **status: Any
) -> dict[str, Any]:
    notes = {} if notify is None else {"diengine/notify": notify}
    condition = {
        "type": kind,
        "status": "True",
        "reason": f"Job{kind}",
        "message": "x-learner-0: a <b> & c",
        "lastTransitionTime": at,
    }
    return {
        "metadata": {
            **{"namespace": "rl", "name": "x", "uid": "u-1", "resourceVersion": "7"},
            "annotations": notes,
        },
        "spec": {},
        "status": {"phase": kind, "conditions": [condition], **status},
    }


def happenings(found: Mapping[str, Any], waiting: float = 0.0) -> list[str]:
    return [each.happening.value for each in news_of(found, NOW, waiting=waiting)]


@pytest.mark.parametrize("kind", ["Succeeded", "Failed", "Hung", "Idle"])
def test_a_happening_is_news_until_it_is_notified(kind: str) -> None:
    assert happenings(job(kind)) == [kind]
    assert happenings(job(kind, notified={kind: AT})) == []
    # It hangs again, or it is another job of that name.
    assert happenings(job(kind, notified={kind: "2026-03-01T10:00:00Z"})) == [kind]


def test_an_ended_or_old_happening_is_not_news() -> None:
    assert happenings(job("Running")) == []
    assert happenings(job("Failed", "2026-03-01T10:59:59Z")) == []
    found = job("Hung")
    found["status"]["conditions"][0]["status"] = "False"
    assert happenings(found) == []


def test_a_long_wait_is_news_unless_the_job_is_suspended() -> None:
    found = job("Pending", "2026-03-01T11:00:00Z")
    assert happenings(found) == []
    assert happenings(found, 3601) == []
    assert happenings(found, 3600) == ["Waiting"]
    found["spec"]["suspend"] = True
    assert happenings(found, 3600) == []


def test_a_wait_is_news_only_after_the_promised_start() -> None:
    start = {"latest": "2026-03-01T14:00:00Z", "promised": "2026-03-01T12:00:01Z"}
    found = job("Pending", "2026-03-01T09:00:00Z", expectedStart=start)
    assert happenings(found, 60) == []
    start["promised"] = "2026-03-01T12:00:00Z"
    (news,) = news_of(found, NOW, waiting=60)
    assert news.message.startswith("it was expected to start by 2026-03-01T12:00:00+00:00: x-")
    assert happenings(found, 0) == []
    found["status"]["expectedStart"] = {"promised": "soon"}
    assert happenings(found, 3600) == []


@pytest.mark.parametrize(
    ("notify", "names"),
    [
        (None, ["team"]),
        ("", []),
        ("chat", ["chat"]),
        ("chat, team", ["team", "chat"]),
        ("http://169.254.169.254/,nobody", []),
    ],
)
def test_a_job_chooses_targets_by_name_never_by_address(
    notify: str | None, names: list[str]
) -> None:
    found = addressees(job(notify=notify), [TEAM, CHAT], Happening.FAILED)
    assert [each.name for each in found] == names


def test_a_target_gets_the_happenings_it_asks_for() -> None:
    only = replace(TEAM, on=frozenset({Happening.HUNG}))
    assert addressees(job(), [only], Happening.FAILED) == []
    assert addressees(job(), [only], Happening.HUNG) == [only]


def test_the_body_has_the_format_of_the_target() -> None:
    (news,) = news_of(job(), NOW, waiting=0)
    assert body(TEAM, job(), news) == {
        "event": "Failed",
        "namespace": "rl",
        "name": "x",
        "uid": "u-1",
        "time": AT,
        "reason": "JobFailed",
        "message": "x-learner-0: a <b> & c",
    }
    assert body(CHAT, job(), news) == {"text": "rl/x: Failed. x-learner-0: a &lt;b&gt; &amp; c"}


def test_valid_targets_are_read_and_invalid_ones_refused() -> None:
    (found,) = read_targets('[{"name": "team", "urlFile": "/x/url", "on": ["Failed"]}]')
    assert (found.format, found.on, found.default) == (
        Format.JSON,
        frozenset({Happening.FAILED}),
        False,
    )
    for wrong in (
        "{}",
        '[{"name": "team"}]',
        '[{"name": "../x", "urlFile": "/x"}]',
        '[{"name": "a", "urlFile": "/x", "on": ["Running"]}]',
        '[{"name": "a", "urlFile": "/x"}, {"name": "a", "urlFile": "/y"}]',
        json.dumps([{"name": f"t{number}", "urlFile": "/x"} for number in range(17)]),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            read_targets(wrong)


@dataclass
class Scene:
    """A notifier beside one job, an API server that takes its notes, and a target."""

    receiver: Receiver
    url_file: Path
    found: dict[str, Any] = field(default_factory=job)
    conflicts: int = 0
    leads: bool = True
    happened: list[str] = field(default_factory=list)
    others: tuple[Target, ...] = ()

    def notifier(self) -> Notifier:
        return Notifier(
            client=cast("KubeClient", self),
            job=self.job,
            unfinished=tuple,
            observe=lambda _: None,
            targets=(*self.others, replace(TEAM, url_file=self.url_file)),
            waiting=0.0,
            check_lease=self._check_lease,
            clock=_Hurried(),
            observer=self,
        )

    def job(self, key: JobKey) -> Mapping[str, Any] | None:
        return self.found if key == JobKey("rl", "x") else None

    def _check_lease(self) -> None:
        if not self.leads:
            raise NotLeading("the lease is not held")

    async def patch(self, *words: Any, **_: Any) -> dict[str, Any]:
        assert words[2]["metadata"] == {"uid": "u-1", "resourceVersion": "7"}
        if self.conflicts:
            self.conflicts -= 1
            raise Conflict(kind="DIJob", namespace="rl", name="x", code=409)
        self.happened.append(f"noted, {len(self.receiver.got)} sent")
        self.found["status"] |= words[2]["status"]
        return self.found

    def notified(self, target: str, result: str) -> None:
        self.happened.append(f"{target} {result}")

    def run(self, *last: str) -> None:
        """Run it until all that happened ends with `last`, and then a little on."""

        async def main() -> None:
            notifier = self.notifier()
            notifier.follow("ADDED", self.found)
            running = asyncio.create_task(notifier.run())
            try:
                await wait_until_async(lambda: self.happened[-len(last) :] == [*last])
                notifier.follow("MODIFIED", self.found)
                await wait_until_async(lambda: not notifier._changed)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

        asyncio.run(main())


class _Hurried(SystemClock):
    """Pauses are short, and the day is that of the jobs."""

    @override
    def now(self) -> datetime:
        return NOW

    @override
    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.001))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with receiving() as receiver:
        file = tmp_path / "url"
        file.write_text(f"{receiver.url}/hook\n")
        yield Scene(receiver, file)


def test_a_notification_is_recorded_before_it_is_sent_once(scene: Scene) -> None:
    scene.run("team sent")
    assert scene.happened == ["noted, 0 sent", "team sent"]
    assert [(path, sent["event"]) for path, sent in scene.receiver.got] == [("/hook", "Failed")]


def test_a_notification_that_cannot_be_recorded_is_sent_later(scene: Scene) -> None:
    scene.conflicts = 3
    scene.run("team sent")
    assert scene.happened == ["noted, 0 sent", "team sent"]
    assert len(scene.receiver.got) == 1


def test_a_lost_lease_ends_the_notifier_and_nothing_is_sent(scene: Scene) -> None:
    scene.leads = False
    notifier = scene.notifier()
    notifier.follow("ADDED", scene.found)
    asyncio.run(notifier.run())
    assert scene.happened == []


def test_a_failing_target_is_retried_a_few_times(scene: Scene) -> None:
    scene.receiver.status = 500
    scene.run("team failed")
    assert len(scene.receiver.got) == ATTEMPTS


@pytest.mark.proves("operations.md#notifications/a-target")
def test_a_target_that_does_not_answer_delays_no_other(scene: Scene, tmp_path: Path) -> None:
    file = tmp_path / "slow"
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        file.write_text(f"http://127.0.0.1:{deaf.getsockname()[1]}/")
        scene.others = (replace(TEAM, name="slow", url_file=file),)
        scene.run("team sent")
    assert scene.happened == ["noted, 0 sent", "team sent"]


def test_redirects_of_a_target_are_not_followed(scene: Scene) -> None:
    scene.receiver.status = 307
    scene.receiver.location = f"{scene.receiver.url}/elsewhere"
    scene.run("team failed")
    assert {path for path, _ in scene.receiver.got} == {"/hook"}


@pytest.mark.parametrize("url", ["file:///etc/passwd", "", None])
def test_a_target_without_an_address_fails_alone(scene: Scene, url: str | None) -> None:
    scene.url_file.unlink()
    if url is not None:
        scene.url_file.write_text(url)
    scene.run("team failed")
    assert scene.receiver.got == []


def test_a_standby_replica_forgets_deleted_jobs(scene: Scene) -> None:
    notifier = scene.notifier()
    for kind in ("ADDED", "MODIFIED", "DELETED"):
        notifier.follow(kind, scene.found)
    assert not notifier._changed
