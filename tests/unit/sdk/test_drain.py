"""A pod that is asked to finish, and answers when it has."""

from __future__ import annotations

import threading

import pytest
import requests

import di_orchestrator as di


def ask(drain: di.Drain, path: str = "/drain") -> int:
    return requests.get(f"http://127.0.0.1:{drain.port}{path}", timeout=60).status_code


@pytest.mark.proves(
    "sdk.md#leaving-well",
    "sdk.md#reference/done-none-report-that-all-work-is-finished-the",
    "sdk.md#reference/asked-bool-true-once-the-pod-was-asked-to-drain",
    "sdk.md#reference/wait-seconds-float-none-none-bool-wait-for-the-drain-request-return",
)
def test_a_drain_request_is_answered_when_work_is_done() -> None:
    answers: list[int] = []
    with di.Drain(0) as drain:
        assert [drain.asked] == [False]
        thread = threading.Thread(target=lambda: answers.append(ask(drain)))
        thread.start()
        assert drain.wait(60)
        assert drain.asked
        assert answers == []
        drain.done()
        thread.join(60)
    assert answers == [200]


def test_the_end_of_the_program_answers_a_drain_request() -> None:
    answers: list[int] = []
    with di.Drain(0) as drain:
        thread = threading.Thread(target=lambda: answers.append(ask(drain, "/drain?x=1")))
        thread.start()
        assert drain.wait(60)
    thread.join(60)
    assert answers == [200]


def test_another_path_does_not_drain() -> None:
    with di.Drain(0, "/leave") as drain:
        assert ask(drain) == 404
        assert not drain.asked


def test_a_program_may_answer_other_paths() -> None:
    with di.Drain(
        0, answer=lambda asked: di.Reply(200 if asked.path == "/ready" else 503)
    ) as drain:
        assert (ask(drain, "/ready"), ask(drain, "/else")) == (200, 503)
        assert not drain.asked
