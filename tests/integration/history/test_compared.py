"""di compare over what the history's application answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from di_history.config import AuthMode
from di_history.metrics import Metrics
from di_history.records import JobGone, Placement, Record, Revision, Sample
from di_history.rest.access import Access
from di_history.rest.app import create_app
from di_history.rest.usage import UsageAnswers
from di_history.store.engine import migrate, open_engine
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from di_history.usage.prices import Prices
from tests.fakes.web import serving
from tests.integration.history.test_rest import Reviews
from tests.integration.history_records import seen
from tests.unit.cli.conftest import Di, _server, di, world
from tests.unit.history.jobs import NOON

__all__ = ["_server", "di", "world"]
MINUTE = 60_000


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A history of two deleted jobs that differ in their seeds alone."""
    engine = open_engine(f"sqlite:///{tmp_path}/history.db")
    migrate(engine)
    Writer(engine, job_log_bytes=1 << 20, job_bytes=40 << 20).write(
        [record for seed in (1, 2) for record in _job(seed)]
    )
    reviews = Reviews()
    reviews.allowed = {("get", "dijobs", "rl")}
    app = create_app(
        reader=Reader(engine),
        usage=UsageAnswers(engine, Prices()),
        whole_logs=None,
        access=Access(mode=AuthMode.REQUIRED, kube=reviews, review_rate=1.0, clock=lambda: 0.0),
        is_ready=lambda: True,
        now=lambda: 0,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    with serving(make_server("127.0.0.1", 0, app, threaded=True)) as found:
        yield f"http://{found}"
    engine.dispose()


@pytest.mark.proves("cli.md#comparing")
def test_deleted_jobs_are_compared_by_the_answers_of_the_history(
    di: Di, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("di_cli.actions.history.token_for", lambda *_: ("good", ""))
    words = ("compare", "ppo-1", "ppo-2", "-n", "rl", "--server", address)
    said = di(*words)
    assert (said.code, said.err) == (0, "")
    assert said.lines == [
        "JOB       VALUES  LAST  BEST  AT  LAST TENTH  DURATION  SEEDS  IQM  95% INTERVAL",
        "ppo-1 +1  6       45    45        45          1h        2      45   30..60",
        "",
        "FIELD  VALUE  JOBS",
        "seed   1      ppo-1",
        "       2      ppo-2",
        "nodes  n1     ppo-1",
        "       n2     ppo-2",
    ]
    assert di(*words, "-o", "csv").lines == [
        "step,ppo-1,ppo-2",
        "0,10,20",
        "10,20,40",
        "20,30,60",
    ]
    (first, _) = json.loads(di(*words, "-o", "json").out)["jobs"]
    assert (first["source"], first["durationSeconds"]) == ("history", 3600.0)


def _job(seed: int) -> list[Record]:
    uid, name = f"uid-{seed}", f"ppo-{seed}"
    task = {"type": "learner", "args": ["train.py", "--seed", str(seed)]}
    manifest = json.dumps({"spec": {"tasks": [task]}}).encode()
    return [
        seen(uid, name=name, created=NOON),
        Revision(job=uid, number=1, at=NOON, who="kubectl", manifest=b'{"spec":{"a":1}}'),
        Revision(job=uid, number=3, at=NOON + 1, who="kubectl", manifest=manifest),
        Placement(
            pod_uid=f"p{seed}",
            job=uid,
            namespace="rl",
            pod=f"{name}-learner-0",
            task="learner",
            rank=0,
            node=f"n{seed}",
            gpus=0,
            since=NOON,
            until=NOON + 60 * MINUTE,
            outcome="Succeeded",
            reason="",
            exit_code=0,
            version=1,
        ),
        *(
            Sample(
                job=uid,
                at=NOON + number * MINUTE,
                values={"step": number * 10.0, "mean_return": 10.0 * seed * (number + 1)},
            )
            for number in range(3)
        ),
        JobGone(uid=uid, at=NOON + 60 * MINUTE),
    ]
