"""A coordinator's requests against the real application."""

from __future__ import annotations

from typing import Any

import pytest

import di_orchestrator as di
from di_kube.errors import Unavailable
from di_orchestrator.server.exchange import Request, Silence
from tests.unit.server.fakes import Harness, Object, coordinated


@pytest.fixture
def leads(harness: Harness, url: str, monkeypatch: pytest.MonkeyPatch) -> di.Coordinator:
    harness.add(coordinated(name="led", uid="uid-3"))
    for name, value in {
        "KUBERNETES_SERVER_URL": url,
        "KUBERNETES_POD_NAMESPACE": "rl",
        "KUBERNETES_POD_NAME": "led-coordinator",
    }.items():
        monkeypatch.setenv(name, value)
    return di.coordinator()


@pytest.mark.proves(
    "sdk.md#reference/replicas-replicas",
    "sdk.md#reference/add-collectors-int-0-learners-int-0",
    "sdk.md#reference/drop-collectors-int-0-learners-int-0",
    "sdk.md#reference/replace-collectors-sequence-str-learners",
    "sdk.md#reference/di-coordinator-seconds-float-60-0",
    "sdk.md#reference/of-environment-mapping-str-str-seconds",
    "sdk.md#reference/di-replicas-collectors-tuple-str",
)
def test_a_coordinator_adds_replaces_and_drops_replicas(leads: di.Coordinator) -> None:
    assert leads.replicas() == di.Replicas((), ())
    added = leads.add(collectors=2, learners=1, resources={"cpus": "200m"})
    assert (len(added.collectors), len(added.learners)) == (2, 1)
    assert set(leads.replicas().collectors) == set(added.collectors)
    lost = added.collectors[0].partition(".")[0]
    (successor,) = leads.replace(collectors=[lost]).collectors
    assert successor not in added.collectors
    gone = leads.drop(collectors=1)
    assert len(gone.collectors) == 1
    assert len(leads.replicas().collectors) == 1


def test_a_refusal_has_its_status(leads: di.Coordinator, harness: Harness) -> None:
    del harness.kube.objects["dijobs", "rl", "led"]
    with pytest.raises(di.Refused) as caught:
        leads.replicas()
    assert caught.value.status == 404


def test_a_change_with_a_lost_answer_is_not_repeated() -> None:
    sent = []

    def lose(request: Request) -> Silence:
        sent.append(request)
        return Silence("reset")

    lost = di.Coordinator(lose, namespace="rl", pod="led-coordinator")
    with pytest.raises(di.Unreachable, match="may have taken effect"):
        lost.add(collectors=1)
    with pytest.raises(di.Unreachable, match="may have taken effect"):
        lost.drop(collectors=1)
    assert len(sent) == 2


def test_a_change_is_not_repeated_while_the_api_server_does_not_say_what_became_of_it(
    leads: di.Coordinator, harness: Harness
) -> None:
    away = Unavailable(kind="DIJob", reason="Timeout")
    patch = harness.kube.patch

    def take_effect_and_leave(*args: Any, **keywords: Any) -> Object:
        patch(*args, **keywords)
        harness.kube.patch = patch  # type: ignore[method-assign]
        harness.kube.failures = [away] * 40
        raise away

    harness.kube.patch = take_effect_and_leave  # type: ignore[method-assign]
    with pytest.raises(di.Unreachable, match="may have taken effect"):
        leads.add(collectors=1)
    assert len(harness.job("led")["spec"]["coordinated"]["replicas"]) == 1


@pytest.mark.proves("sdk.md#reference/di-notinjob")
def test_outside_a_coordinator_it_raises() -> None:
    with pytest.raises(di.NotInJob, match="with a coordinator"):
        di.coordinator()
