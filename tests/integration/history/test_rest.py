"""What callers are told, and who is told: the application over a small database."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from obstore.store import MemoryStore
from sqlalchemy import Engine

from di_history.config import AuthMode
from di_history.metrics import Metrics
from di_history.records import (
    EndedLog,
    Entry,
    EntryKind,
    JobGone,
    Placement,
    Revision,
    Sample,
    WholeLog,
)
from di_history.rest.access import Access
from di_history.rest.app import create_app
from di_history.rest.usage import UsageAnswers
from di_history.store.engine import migrate, open_engine
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from di_history.usage.prices import Prices
from di_history.whole_logs import WholeLogs
from di_kube.errors import Unavailable
from di_kube.resources import TOKEN_REVIEWS, Resource
from tests.integration.history_records import seen
from tests.unit.history.jobs import NOON, UID

WHOLE = f"rl/{UID}/x-learner-0-p1/di-container-0.log.gz"
HERE = {"REMOTE_ADDR": "127.0.0.1"}
GOOD = {"Authorization": "Bearer good"}


class Reviews:
    """Knows one token, and what its owner may."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, str, str]] = set()
        self.asked: list[dict[str, Any]] = []
        self.audience: str | None = "di-history"
        self.away = False

    def create(
        self, resource: Resource, body: dict[str, Any], *, timeout: float | None
    ) -> dict[str, Any]:
        assert timeout is not None
        if self.away:
            raise Unavailable(kind=resource.kind, reason="ConnectionError", message="away")
        self.asked.append(body)
        spec = body["spec"]
        if resource == TOKEN_REVIEWS:
            asked = spec.get("audiences", [None])
            holds = spec["token"] == "good" and self.audience in asked
            user = {"username": "ann", "groups": ["team"]}
            return {"status": {"authenticated": holds, "audiences": asked, "user": user}}
        wanted = spec["resourceAttributes"]
        what = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        return {"status": {"allowed": (wanted["verb"], what, wanted["namespace"]) in self.allowed}}

    @property
    def tokens(self) -> int:
        return sum("token" in body["spec"] for body in self.asked)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder: Path = tmp_path_factory.mktemp("history")
    engine = open_engine(f"sqlite:///{folder}/history.db")
    migrate(engine)
    Writer(engine, job_log_bytes=1 << 20, job_bytes=40 << 20).write(
        [
            seen(UID, created=NOON),
            seen("other", name="y", namespace="else", created=NOON + 1),
            Revision(job=UID, number=1, at=NOON, who="kubectl", manifest=b'{"spec":{"a":1}}'),
            Entry(
                job=UID,
                key="a",
                kind=EntryKind.SCALING,
                at=NOON + 1_000,
                data={"task": "collector", "before": 2, "after": 4, "who": "di-server"},
            ),
            Entry(job=UID, key="b", kind=EntryKind.DELETED, at=NOON + 9_000, data={"after": NOON}),
            Placement(
                pod_uid="p1",
                job=UID,
                namespace="rl",
                pod="x-learner-0",
                task="learner",
                rank=0,
                node="n1",
                gpus=1,
                since=NOON,
                until=NOON + 5_000,
                outcome="Failed",
                reason="Error",
                exit_code=1,
                version=1,
            ),
            Sample(job=UID, at=NOON + 2_000, values={"step": 3.0}),
            EndedLog(
                job=UID,
                pod_uid="p1",
                pod="x-learner-0",
                container="di-container",
                attempt=0,
                at=NOON,
                text=b"<script>\n",
            ),
            EndedLog(
                job=UID,
                pod_uid="p2",
                pod="x-collector-0",
                container="di-container",
                attempt=0,
                at=NOON,
                text=None,
                note="gone",
            ),
            WholeLog(
                job=UID,
                pod_uid="p1",
                container="di-container",
                attempt=0,
                key=WHOLE,
                size=20,
                cut=False,
                note="",
            ),
            WholeLog(
                job=UID,
                pod_uid="p2",
                container="di-container",
                attempt=0,
                key="",
                size=0,
                cut=False,
                note="the disk is full",
            ),
            JobGone(uid=UID, at=NOON + 9_000),
        ]
    )
    yield engine
    engine.dispose()


@pytest.fixture
def reviews() -> Reviews:
    found = Reviews()
    found.allowed = {("get", "dijobs", "rl"), ("list", "dijobs", "rl"), ("get", "pods/log", "rl")}
    return found


@pytest.fixture
def client(engine: Engine, reviews: Reviews) -> FlaskClient:
    return _client(engine, reviews)


def _client(
    engine: Engine,
    reviews: Reviews,
    mode: AuthMode = AuthMode.REQUIRED,
    *,
    ready: bool = True,
    whole_logs: WholeLogs | None = None,
    clock: Callable[[], float] | None = None,
) -> FlaskClient:
    ticks = count()
    app = create_app(
        reader=Reader(engine),
        usage=UsageAnswers(engine, Prices()),
        whole_logs=whole_logs,
        access=Access(
            mode=mode,
            kube=reviews,
            review_rate=1.0,
            clock=clock or (lambda: next(ticks) / 1000),
        ),
        is_ready=lambda: ready,
        now=lambda: 0,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    client = app.test_client()
    client.environ_base.update(HERE)
    return client


@pytest.mark.proves(
    "history.md#asking/v1-jobs-namespace-name",
    "history.md#what-is-kept/revisions",
    "history.md#what-is-kept/phases",
)
def test_one_job_is_told_whole(client: FlaskClient) -> None:
    answer = client.get("/v1/jobs/rl/x", headers=GOOD)

    assert answer.status_code == 200
    found = answer.get_json()
    assert found["job"]["uid"] == UID
    assert found["job"]["created"] == "2026-01-01T12:00:00.000Z"
    assert found["job"]["deleted"] == "2026-01-01T12:00:09.000Z"
    assert found["timeline"] == [
        {
            "kind": "scaling",
            "at": "2026-01-01T12:00:01.000Z",
            "task": "collector",
            "before": 2,
            "after": 4,
            "who": "di-server",
        },
        {
            "kind": "deleted",
            "at": "2026-01-01T12:00:09.000Z",
            "after": "2026-01-01T12:00:00.000Z",
        },
    ]
    assert found["revisions"] == [{"number": 1, "at": "2026-01-01T12:00:00.000Z", "who": "kubectl"}]
    (placement,) = found["placements"]
    assert (placement["node"], placement["exitCode"], placement["podUid"]) == ("n1", 1, "p1")
    assert {each["pod"]: each["note"] for each in found["logs"]} == {
        "x-learner-0": "",
        "x-collector-0": "gone",
    }


@pytest.mark.proves(
    "history.md#asking/v1-jobs-namespace-name-series",
    "history.md#asking/v1-jobs-namespace-name-revisions-number",
    "history.md#asking/v1-jobs-namespace-name-logs-pod",
    "history.md#asking/v1-placements",
)
def test_what_else_is_kept_of_it(client: FlaskClient) -> None:
    series = client.get("/v1/jobs/rl/x/series?since=2026-01-01T12:00:00%2B00:00", headers=GOOD)
    newest = client.get("/v1/jobs/rl/x/series?limit=1", headers=GOOD)
    revision = client.get("/v1/jobs/rl/x/revisions/1", headers=GOOD)
    log = client.get("/v1/jobs/rl/x/logs/x-learner-0", headers=GOOD)
    placements = client.get(
        "/v1/placements?namespace=rl&since=2026-01-01T11:00:00Z&until=2026-01-01T12:00:01Z",
        headers=GOOD,
    )
    timeline = client.get("/v1/jobs/rl/x?kinds=deleted", headers=GOOD).get_json()["timeline"]

    assert series.get_json()["samples"] == [
        {"at": "2026-01-01T12:00:02.000Z", "values": {"step": 3.0}}
    ]
    assert newest.get_json()["samples"] == series.get_json()["samples"]
    assert revision.get_json() == {"spec": {"a": 1}}
    # Never as what a browser would run.
    assert (log.data, log.mimetype) == (b"<script>\n", "text/plain")
    assert log.headers["X-Content-Type-Options"] == "nosniff"
    assert [each["name"] for each in placements.get_json()["placements"]] == ["x"]
    assert [each["kind"] for each in timeline] == ["deleted"]


@pytest.mark.proves("history.md#asking/v1-jobs")
def test_lists_come_in_pages(engine: Engine, reviews: Reviews) -> None:
    reviews.allowed = {("list", "dijobs", "")}
    client = _client(engine, reviews)

    first = client.get("/v1/jobs?limit=1", headers=GOOD).get_json()
    second = client.get(f"/v1/jobs?limit=1&page={first['next']}", headers=GOOD).get_json()
    last = client.get(f"/v1/jobs?limit=1&page={second['next']}", headers=GOOD).get_json()

    assert [each["name"] for each in (*first["jobs"], *second["jobs"])] == ["y", "x"]
    assert last == {"jobs": []}


@pytest.mark.proves("history.md#asking/400", "history.md#asking/404")
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/jobs/rl/z", 404),
        ("/v1/jobs/rl/x?uid=none", 404),
        ("/v1/jobs/rl/x/revisions/7", 404),
        ("/v1/jobs/rl/x/revisions/99999999999999999999999", 404),
        ("/v1/jobs/rl/x/logs/x-learner-9", 404),
        ("/v1/jobs/rl/x/logs/x-collector-0", 404),
        ("/v1/nothing", 404),
        ("/v1/jobs/rl/x?colour=red", 400),
        ("/v1/jobs/rl/x?kinds=colour", 400),
        ("/v1/jobs/rl/%00", 400),
        ("/v1/jobs/rl/x/series?since=yesterday", 400),
        ("/v1/jobs/rl/x/series?limit=2001", 400),
        ("/v1/jobs?namespace=rl&limit=0", 400),
        ("/v1/jobs?namespace=rl&limit=100000", 400),
        ("/v1/jobs?namespace=rl&page=x", 400),
        ("/v1/jobs?namespace=rl&phase=Sleeping", 400),
        ("/v1/placements?namespace=rl", 400),
        (
            "/v1/placements?namespace=rl&since=2026-01-01T00:00:00Z&until=2027-01-01T00:00:00Z",
            400,
        ),
        ("/v1/jobs", 403),
        ("/v1/jobs?namespace=else", 403),
        ("/v1/jobs/else/y", 403),
        # As of a job that is there: a refusal tells nothing.
        ("/v1/jobs/else/none", 403),
        ("/v1/jobs/else/y/logs/y-0", 403),
    ],
)
def test_what_is_refused(client: FlaskClient, path: str, status: int) -> None:
    answer = client.get(path, headers=GOOD)

    assert (answer.status_code, list(answer.get_json())) == (status, ["message"])


def test_nothing_here_is_changed(client: FlaskClient) -> None:
    assert client.post("/v1/jobs", headers=GOOD).status_code == 405


@pytest.fixture
def bucket() -> WholeLogs:
    logs = WholeLogs(MemoryStore())
    logs.keep(WHOLE, [gzip.compress(b"before\n<script>\n")])
    return logs


def test_all_of_a_log_comes_from_the_storage(
    engine: Engine, reviews: Reviews, bucket: WholeLogs
) -> None:
    client = _client(engine, reviews, whole_logs=bucket)
    path = "/v1/jobs/rl/x/logs/x-learner-0"

    answer = client.get(f"{path}?whole=true", headers=GOOD)
    assert (answer.status_code, answer.text) == (200, "before\n<script>\n")
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"{path}?whole=false", headers=GOOD).text == "<script>\n"
    assert client.get(f"{path}?whole=all", headers=GOOD).status_code == 400
    reviews.allowed.discard(("get", "pods/log", "rl"))
    assert (
        _client(engine, reviews, whole_logs=bucket)
        .get(f"{path}?whole=true", headers=GOOD)
        .status_code
        == 403
    )


def test_why_there_is_no_whole_log_is_said(
    engine: Engine, reviews: Reviews, bucket: WholeLogs, client: FlaskClient
) -> None:
    def said(client: FlaskClient, pod: str) -> str:
        answer = client.get(f"/v1/jobs/rl/x/logs/{pod}?whole=true", headers=GOOD)
        assert answer.status_code == 404
        return str(answer.get_json()["message"])

    with_bucket = _client(engine, reviews, whole_logs=bucket)
    assert said(client, "x-learner-0") == "whole logs are not kept here, only their ends"
    assert said(with_bucket, "none") == "the whole log of pod none is not kept"
    assert said(with_bucket, "x-collector-0") == (
        "the whole log of pod x-collector-0 is not kept: the disk is full"
    )
    bucket.forget("rl", UID)
    assert said(with_bucket, "x-learner-0") == (
        "the whole log of pod x-learner-0 is not in the storage any more"
    )


def test_logs_need_the_right_to_logs(engine: Engine, reviews: Reviews) -> None:
    reviews.allowed.discard(("get", "pods/log", "rl"))
    client = _client(engine, reviews)

    assert client.get("/v1/jobs/rl/x/logs/x-learner-0", headers=GOOD).status_code == 403
    assert client.get("/v1/jobs/rl/x", headers=GOOD).status_code == 200


@pytest.mark.proves("history.md#asking/401")
@pytest.mark.parametrize("header", [None, "Basic good", "Bearer ", "Bearer bad"])
def test_who_is_not_known_is_told_how_to_be(client: FlaskClient, header: str | None) -> None:
    answer = client.get("/v1/jobs/rl/x", headers={"Authorization": header} if header else {})

    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "audience di-history" in answer.get_json()["message"]


def test_a_token_for_another_service_is_refused(engine: Engine, reviews: Reviews) -> None:
    reviews.audience = "di-server"

    assert _client(engine, reviews).get("/v1/jobs/rl/x", headers=GOOD).status_code == 401


@pytest.mark.proves("history.md#asking/of-the-api-server-that-of-the-kubeconfig")
def test_a_user_reads_the_history_with_the_token_of_the_cluster(
    engine: Engine, reviews: Reviews
) -> None:
    reviews.audience = None
    client = _client(engine, reviews)

    assert client.get("/v1/jobs/rl/x", headers=GOOD).status_code == 200
    answer = client.get("/v1/jobs/else/y", headers=GOOD)
    assert answer.status_code == 403
    assert answer.get_json()["message"] == "ann may not get dijobs y in namespace else"


def test_a_permission_is_checked_again_after_ten_seconds(engine: Engine, reviews: Reviews) -> None:
    now = 0.0
    client = _client(engine, reviews, clock=lambda: now)

    def status(seconds: float) -> int:
        nonlocal now
        now += seconds
        return client.get("/v1/jobs/rl/x", headers=GOOD).status_code

    assert (status(0), len(reviews.asked)) == (200, 2)
    reviews.allowed.clear()
    assert (status(9), len(reviews.asked)) == (200, 2)
    assert (status(2), len(reviews.asked)) == (403, 3)
    reviews.allowed.add(("get", "dijobs", "rl"))
    assert (status(9), len(reviews.asked)) == (403, 3)
    assert (status(2), len(reviews.asked)) == (200, 4)


@pytest.mark.proves("history.md#asking/403")
def test_a_token_in_plain_text_is_taken_from_this_machine_alone(client: FlaskClient) -> None:
    def status(address: str, scheme: str) -> int:
        base = {"REMOTE_ADDR": address, "wsgi.url_scheme": scheme}
        return client.get("/v1/jobs/rl/x", headers=GOOD, environ_overrides=base).status_code

    assert status("10.0.0.7", "http") == 403
    assert status("10.0.0.7", "https") == 200
    assert status("::1", "http") == 200


def test_a_token_is_asked_about_once_in_a_while(client: FlaskClient, reviews: Reviews) -> None:
    for token in ("good", "bad"):
        for _ in range(3):
            client.get("/v1/jobs/rl/x", headers={"Authorization": f"Bearer {token}"})

    # The bad one is checked for both audiences.
    assert reviews.tokens == 3


def test_a_flood_of_tokens_costs_the_api_server_little(
    client: FlaskClient, reviews: Reviews
) -> None:
    answers = [
        client.get("/v1/jobs/rl/x", headers={"Authorization": f"Bearer bad{i}"}) for i in range(50)
    ]

    assert reviews.tokens == 5
    assert answers[-1].status_code == 503
    assert int(answers[-1].headers["Retry-After"]) >= 1


@pytest.mark.proves("history.md#asking/503")
def test_an_api_server_that_is_away_lets_nobody_in(client: FlaskClient, reviews: Reviews) -> None:
    reviews.away = True

    assert client.get("/v1/jobs/rl/x", headers=GOOD).status_code == 503


def test_before_the_tables_are_there_it_asks_to_wait(engine: Engine, reviews: Reviews) -> None:
    answer = _client(engine, reviews, ready=False).get("/v1/jobs/rl/x", headers=GOOD)

    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


@pytest.mark.proves("history.md#asking/503")
def test_a_database_that_is_away_is_no_mistake_of_ours(reviews: Reviews, tmp_path: Path) -> None:
    empty = open_engine(f"sqlite:///{tmp_path}/empty.db")

    assert _client(empty, reviews).get("/v1/jobs/rl/x", headers=GOOD).status_code == 503
    empty.dispose()


def test_for_development_nobody_is_asked(engine: Engine, reviews: Reviews) -> None:
    client = _client(engine, reviews, AuthMode.OFF)

    assert client.get("/v1/jobs/else/y").status_code == 200
    assert reviews.asked == []
