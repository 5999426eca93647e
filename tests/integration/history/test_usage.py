"""The reads of di usage, answered by the application over a database."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sqlalchemy import Engine

from di_cli.access.history import History
from di_cli.actions import usage
from di_cli.views.usage import By, State, held
from di_cli.views.usage import usage as grouped
from di_history.config import AuthMode
from di_history.metrics import Metrics
from di_history.records import Entry, EntryKind, JobGone
from di_history.rest.access import Access
from di_history.rest.app import create_app
from di_history.store import reader as store
from di_history.store.reader import Reader
from di_history.store.writer import Writer
from tests.integration.history.test_rest import HERE, Reviews
from tests.integration.history_records import T0, placement, seen

HOUR = 3_600_000
DAY = 24 * HOUR
MOST = 3


@pytest.fixture
def history(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> History:
    """A history with answers of at most three placements."""
    app = create_app(
        reader=Reader(engine),
        whole_logs=None,
        access=Access(mode=AuthMode.OFF, kube=Reviews(), review_rate=1.0, clock=lambda: 0.0),
        is_ready=lambda: True,
        metrics=Metrics(),
        clock=lambda: 0.0,
    )
    client = app.test_client()

    def get(_: History, path: str, query: Mapping[str, str], __: str) -> bytes:
        answer = client.get(f"/v1{path}", query_string=dict(query), environ_base=HERE)
        assert answer.status_code == 200, answer.text
        return bytes(answer.data)

    monkeypatch.setattr(History, "get", get)
    for module in (store, usage):
        monkeypatch.setattr(module, "MOST_PLACEMENTS", MOST)
    return History(server="", token="", account="")


@pytest.mark.proves("history.md#asking/v1-placements")
def test_usage_reads_every_placement_in_pages(writer: Writer, history: History) -> None:
    early = [placement(f"early-{n}", T0 - n * DAY, T0 + 40 * DAY) for n in range(1, 6)]
    late = [placement(f"late-{n}", T0 + n * HOUR, T0 + (n + 2) * HOUR) for n in range(7)]
    others = [
        placement("before", T0 - 9 * DAY, T0),
        placement("after", T0 + 70 * DAY),
        replace(placement("other", T0), job="u2", namespace="else"),
    ]
    writer.write([seen(), seen("u2", namespace="else"), *early, *late, *others])

    until = T0 + 70 * DAY
    found = usage.placements(history, "rl", T0, until, account_of="rl")
    everywhere = usage.placements(history, None, T0, until, account_of="rl")

    of_job, of_all = held(found, T0, until), held(everywhere, T0, until)
    assert (len(of_job), len(of_all)) == (12, 13)
    assert sum(each.gpu_time for each in of_job) == 5 * 40 * DAY + 7 * 2 * HOUR
    assert sum(each.gpu_time for each in of_all) == 5 * 40 * DAY + 7 * 2 * HOUR + 70 * DAY


def test_usage_divides_what_the_history_has_by_phase(writer: Writer, history: History) -> None:
    phases = [("Starting", "Pending", 0), ("Running", "Starting", 1), ("Failed", "Running", 7)]
    writer.write(
        [
            seen(),
            placement("a", T0, T0 + 9 * HOUR),
            *(
                Entry(
                    job="u1",
                    key=f"phase/{version}",
                    kind=EntryKind.PHASE,
                    at=T0 + hours * HOUR,
                    version=version,
                    data={"phase": phase, "before": before},
                )
                for version, (phase, before, hours) in enumerate(phases, 1)
            ),
            Entry(
                job="u1",
                key="gap/2",
                kind=EntryKind.GAP,
                at=T0 + 4 * HOUR,
                version=2,
                data={"from": T0 + 2 * HOUR, "changed": []},
            ),
            Entry(job="u1", key="deleted", kind=EntryKind.DELETED, at=T0 + 8 * HOUR, version=4),
            JobGone(uid="u1", at=T0 + 8 * HOUR),
        ]
    )

    until = T0 + DAY
    pods = held(usage.placements(history, None, T0, until, account_of="rl"), T0, until)
    found = grouped(pods, By.JOB, usage.known_of(history, pods, until))["rl/x"]

    assert {state: time / HOUR for state, time in found.by_state.items()} == {
        State.RUNNING: 4,
        State.STARTING: 1,
        State.PENDING: 0,
        State.REPLACING: 0,
        State.ENDED: 1,
        State.NOT_KNOWN: 3,
    }
