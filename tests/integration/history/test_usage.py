"""The answer about usage, from a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Engine

from di_history.config import AuthMode
from di_history.metrics import Metrics
from di_history.records import Entry, EntryKind, JobGone, Revision, Sample
from di_history.rest.access import Access
from di_history.rest.app import create_app
from di_history.rest.usage import UsageAnswers
from di_history.store import usage as store
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from di_history.usage.prices import Prices
from tests.integration.history.test_rest import HERE, Reviews
from tests.integration.history_records import T0, placement, seen

HOUR = 3_600_000
DAY = 24 * HOUR
Ask = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def ask(engine: Engine) -> Ask:
    """Requests for usage of the day that begins at T0."""
    app = create_app(
        reader=Reader(engine),
        usage=UsageAnswers(engine, Prices(label="gpu", hourly={"a100": 2.5})),
        whole_logs=None,
        access=Access(mode=AuthMode.OFF, kube=Reviews(), review_rate=1.0, clock=lambda: 0.0),
        is_ready=lambda: True,
        now=lambda: T0 + DAY,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    client = app.test_client()

    def get(**query: str) -> tuple[int, dict[str, Any]]:
        asked = {"since": "2026-01-01T12:00:00Z", "namespace": "rl", **query}
        answer = client.get("/v1/usage", query_string=asked, environ_base=HERE)
        return answer.status_code, json.loads(answer.data)

    return get


def _phase(version: int, phase: str, before: str, hours: float) -> Entry:
    return Entry(
        job="u1",
        key=f"phase/{version}",
        kind=EntryKind.PHASE,
        at=T0 + round(hours * HOUR),
        version=version,
        data={"phase": phase, "before": before},
    )


def _of_sweep(job: str, who: str, queue: str = "gpus") -> Revision:
    labels = {"kueue.x-k8s.io/queue-name": queue, "diengine/sweep": "lr"}
    tasks = [{"name": "engine", "type": "collector"}, {"type": "learner"}]
    manifest = {"metadata": {"labels": labels}, "spec": {"tasks": tasks}}
    return Revision(job=job, number=1, at=T0, who=who, manifest=json.dumps(manifest).encode())


@pytest.mark.proves("history.md#asking/v1-usage", "history.md#usage/*")
def test_usage_divides_what_the_history_has(writer: Writer, ask: Ask) -> None:
    engine = replace(placement("b", T0, T0 + 9 * HOUR), task="engine", kind="a100")
    writer.write(
        [
            seen(),
            seen("u2", name="y"),
            seen("u3", namespace="else"),
            _of_sweep("u1", "ann (kubectl)"),
            placement("a", T0, T0 + 9 * HOUR),
            engine,
            replace(placement("c", T0 - DAY, T0 + HOUR), job="u2", gpus=4),
            replace(placement("d", T0 - DAY, T0), job="u2"),
            replace(placement("e", T0), job="u3", namespace="else"),
            _phase(1, "Starting", "Pending", 0),
            _phase(2, "Running", "Starting", 1),
            _phase(3, "Failed", "Running", 7),
            Entry(
                job="u1",
                key="gap/2",
                kind=EntryKind.GAP,
                at=T0 + 4 * HOUR,
                version=2,
                data={"from": T0 + 2 * HOUR, "changed": []},
            ),
            Sample(
                job="u1",
                at=T0 + 2 * HOUR,
                values={"learnerWaitFrac": 0.25, "collectorWaitFrac": 0.5, "staleFrac": 0.5},
            ),
            Entry(job="u1", key="deleted", kind=EntryKind.DELETED, at=T0 + 8 * HOUR, version=4),
            JobGone(uid="u1", at=T0 + 8 * HOUR),
        ]
    )
    status, found = ask(split="phases,useful")
    assert status == 200
    first, second = found["usage"]
    assert (first["job"], first["gpuHours"], first["pods"]) == ("rl/x", 18.0, 2)
    assert first["phases"] == {
        **{"running": 8.0, "starting": 2.0, "pending": 0.0, "replacing": 0.0},
        **{"ended": 2.0, "notKnown": 6.0},
    }
    assert first["useful"] == {
        # An hour with the report, of which the engine's half was stale, and three without.
        **{"training": 0.75 + 0.25 + 6.0, "waiting": 0.25 + 0.5, "stale": 0.25},
        **{"starting": 2.0, "lost": 0.0, "ended": 2.0, "notKnown": 6.0},
    }
    assert first["usefulShare"] == round(7 / 18, 6)
    assert (first["cost"], first["unpricedGpuHours"]) == (22.5, 9.0)
    assert (second["job"], second["gpuHours"]) == ("rl/y", 4.0)
    assert found["total"]["gpuHours"] == 22.0

    def groups(by: str) -> list[tuple[str, float]]:
        return [(each[by], each["gpuHours"]) for each in ask(by=by)[1]["usage"]]

    assert groups("user") == [("ann", 18.0), ("", 4.0)]
    assert groups("queue") == [("rl/gpus", 18.0), ("", 4.0)]
    assert groups("sweep") == [("rl/lr", 18.0), ("", 4.0)]
    assert groups("task") == [("learner", 13.0), ("engine", 9.0)]


def test_a_manifest_of_another_shape_costs_its_own_job_alone(writer: Writer, ask: Ask) -> None:
    manifests = {
        "u1": {"spec": {"scheduling": {"queue": "volcano"}}},
        "u2": {"metadata": {"labels": None}, "spec": {"tasks": "learner"}},
    }
    writer.write(
        [
            *(seen(uid, name=uid) for uid in manifests),
            *(replace(placement(uid, T0, T0 + HOUR), job=uid) for uid in manifests),
            *(
                Revision(job=uid, number=1, at=T0, who="", manifest=json.dumps(each).encode())
                for uid, each in manifests.items()
            ),
        ]
    )
    _, found = ask(by="queue", split="useful")
    queues = {each["queue"]: each["gpuHours"] for each in found["usage"]}
    assert queues == {"rl/volcano": 1.0, "": 1.0}


def test_usage_of_months_has_a_row_for_each(writer: Writer, ask: Ask) -> None:
    writer.write([seen(), placement("a", T0 - 40 * DAY)])
    _, found = ask(since="2025-12-31T00:00:00Z", every="month")
    assert [(each["month"], each["gpuHours"]) for each in found["usage"]] == [
        ("2025-12", 24.0),
        ("2026-01", 36.0),
    ]
    assert found["total"]["pods"] == 1


def test_too_many_pods_of_usage_are_refused(
    writer: Writer, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_PODS", 2)
    writer.write([seen(), *(placement(f"p{n}", T0) for n in range(3))])
    status, found = ask()
    assert (status, "choose a namespace" in found["message"]) == (400, True)
    assert ask(until="2026-01-01T12:00:00Z")[0] == 200
