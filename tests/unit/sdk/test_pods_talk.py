"""Pods of a job talk to each other: one serves, another asks until it is answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

import di_orchestrator as di
from di_api import names
from di_orchestrator.arrays import pack, unpack
from di_orchestrator.pods import calls
from di_orchestrator.pods.answers import KEPT_SECONDS, Answers
from tests.unit.sdk.conftest import Clock

NOBODY = "http://127.0.0.1:1/x"


class Other:
    """A pod with configured answers that records its requests."""

    def __init__(self) -> None:
        self.asked: list[di.Asked] = []
        self.replies: list[di.Reply | Exception] = []

    def __call__(self, asked: di.Asked) -> di.Reply:
        self.asked.append(asked)
        reply = self.replies.pop(0) if self.replies else di.Reply(body=asked.body[::-1])
        if isinstance(reply, Exception):
            raise reply
        return reply


@pytest.fixture
def other() -> Other:
    return Other()


@pytest.fixture
def url(other: Other) -> Iterator[str]:
    with di.Hub(other, 0, most_bytes=1000) as hub:
        yield f"http://127.0.0.1:{hub.port}"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "RETRY_SECONDS", 0.001)


@pytest.mark.proves("sdk.md#between-pods", "sdk.md#reference/di-call-method-str-url-str-body-bytes")
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_a_request_reaches_the_other_pod(method: str, other: Other, url: str) -> None:
    assert di.call(method, f"{url}/x?who=a&have=1", b"abc") == b"cba"
    target = "/x?who=a&have=1"
    assert other.asked == [di.Asked(method, "/x", {"who": "a", "have": "1"}, b"abc", target)]


def test_a_busy_pod_is_asked_again(other: Other, url: str) -> None:
    other.replies = [di.Reply(status) for status in (503, 500, 429, 408)]
    assert di.call("POST", f"{url}/x", b"abc") == b"cba"
    assert len(other.asked) == 5


@pytest.mark.proves(
    "sdk.md#answers-of-a-hub/di-badrequest-a-valueerror-lookuperror",
    "sdk.md#reference/di-badrequest",
)
@pytest.mark.parametrize("fault", [LookupError("who"), di.BadRequest("who"), ValueError("who")])
def test_a_bad_request_is_refused_and_not_repeated(
    fault: Exception, other: Other, url: str
) -> None:
    other.replies = [fault]
    with pytest.raises(di.Refused, match="who") as refused:
        di.call("GET", f"{url}/x")
    assert refused.value.status == 400
    assert len(other.asked) == 1
    assert di.call("GET", f"{url}/x") == b""


def test_an_error_of_the_handler_is_logged_and_retried(
    other: Other, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    other.replies = [OSError("disk"), RuntimeError("bug"), KeyError("bug"), TypeError("bug")]
    assert di.call("GET", f"{url}/x") == b""
    assert [record.message for record in caplog.records] == ["GET /x could not be answered"] * 4


@pytest.mark.proves(
    "sdk.md#answers-of-a-hub/any-other-exception-also-a-keyerror",
    "sdk.md#reference/failures-int",
    "sdk.md#reference/di-answersfailed",
)
def test_a_program_that_could_answer_nothing_has_failed(other: Other) -> None:
    leaving = threading.Event()
    leaving.set()

    def asks(replies: list[di.Reply | Exception]) -> None:
        with di.Hub(other, 0) as hub:
            other.replies = replies
            with suppress(di.Left):
                for _ in range(2):
                    di.call("POST", f"http://127.0.0.1:{hub.port}/samples", leaving=leaving)
            assert hub.failures == 1

    with pytest.raises(
        di.AnswersFailed, match=r"POST /samples \(1 times\); the log has its errors"
    ):
        asks([KeyError("rewards")])
    asks([di.Reply(), KeyError("rewards")])


@pytest.mark.proves("sdk.md#between-pods")
def test_a_slow_response_is_computed_once(other: Other) -> None:
    computed, asked_again = [], threading.Event()

    def slow(asked: di.Asked) -> di.Reply:
        computed.append(asked.path)
        assert asked_again.wait(60)
        return di.Reply(body="slow")

    hub = di.Hub(slow, 0)
    of = hub.answers.of

    def counted(asked: di.Asked, identity: str) -> di.Reply:
        repeated.append(identity)
        if len(repeated) > 2:
            asked_again.set()
        return of(asked, identity)

    repeated: list[str] = []
    hub.answers.of = counted  # type: ignore[method-assign]
    with hub:
        assert di.call("GET", f"http://127.0.0.1:{hub.port}/x", timeout=0.2) == b"slow"
    assert computed == ["/x"]
    assert len(set(repeated)) == 1


def test_a_slow_response_is_kept_for_the_next_request(clock: Clock) -> None:
    seconds: list[float] = []

    def answer(asked: di.Asked) -> di.Reply:
        clock.pass_(seconds.pop())
        return di.Reply(body=str(clock.now))

    answers = Answers(answer, clock=clock)
    asked = di.Asked("GET", "/x")
    seconds += [1, 1, 15, 1, 1]
    assert answers.of(asked, "a") != answers.of(asked, "a")
    slow = answers.of(asked, "a")
    assert slow.body == b"117.0"
    assert answers.of(asked, "a") == slow
    assert answers.of(asked, "b") != slow
    clock.pass_(KEPT_SECONDS)
    assert answers.of(asked, "a") != slow


@pytest.mark.proves(
    "sdk.md#reference/di-reply-status-int-200-body-bytes-str-b", "sdk.md#between-pods"
)
def test_a_response_can_be_text_or_nothing(other: Other, url: str) -> None:
    found = iter([di.Reply(body="text"), "text", b"text", None])
    with di.Hub(lambda _: next(found), 0) as hub:
        url = f"http://127.0.0.1:{hub.port}"
        assert [di.call("GET", url) for _ in range(4)] == [b"text"] * 3 + [b""]


def test_another_response_is_an_error_at_its_place(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(TypeError, match=r"bytes or text, and not dict: json.dumps"):
        di.Reply(body={})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the status is '200'"):
        di.Reply("200")  # type: ignore[arg-type]
    assert Answers(lambda _: {}).of(di.Asked("GET", "/x"), "").status == 500  # type: ignore[arg-type,return-value]
    assert "the answer is dict, and should be di.Reply, bytes, text or None" in caplog.text


@pytest.mark.proves("sdk.md#answers-of-a-hub/di-gone-the-training-is-over")
def test_the_end_is_raised_by_the_answering_side(other: Other, url: str) -> None:
    other.replies = [di.Gone("the training is over")]
    with pytest.raises(di.Gone, match="the training is over") as gone:
        di.call("GET", f"{url}/x")
    assert gone.value.status == 410


@pytest.mark.proves("sdk.md#reference/di-asked-method-str-path-str-query")
def test_a_missing_value_of_the_query_is_the_askers_mistake(other: Other) -> None:
    with di.Hub(lambda asked: asked.query["who"], 0) as hub:
        url = f"http://127.0.0.1:{hub.port}/x"
        assert di.call("GET", f"{url}?who=a") == b"a"
        with pytest.raises(di.Refused, match="the query has no who"):
            di.call("GET", url)


def test_an_incomplete_request_is_not_handled(other: Other, url: str) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert other.asked == []


def test_an_answer_is_sent_in_one_packet(url: str) -> None:
    """In two the second waits for an acknowledgement, which takes its time."""
    host, _, port = url.removeprefix("http://").partition(":")
    for _ in range(2):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(b"POST /x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
            assert connection.recv(10_000).endswith(b"\r\n\r\ncba")


@pytest.mark.proves("sdk.md#reference/close-none-accept-no-new-requests-and-wait-for")
def test_closing_a_hub_waits_for_open_requests() -> None:
    asked, go_on, answers = threading.Event(), threading.Event(), list[bytes]()

    def slow(_: di.Asked) -> di.Reply:
        asked.set()
        assert go_on.wait(60)
        return di.Reply(body=b"late")

    hub = di.Hub(slow, 0)
    url = f"http://127.0.0.1:{hub.port}"
    asking = threading.Thread(target=lambda: answers.append(di.call("GET", url)))
    asking.start()
    assert asked.wait(60)
    closing = threading.Thread(target=hub.close)
    closing.start()
    go_on.set()
    for thread in (closing, asking):
        thread.join(60)
    assert answers == [b"late"]


@pytest.mark.proves("sdk.md#reference/di-refused", "sdk.md#reference/di-gone")
@pytest.mark.parametrize(
    ("status", "error"), [(302, di.Refused), (404, di.Refused), (410, di.Gone)]
)
def test_a_permanent_refusal_is_raised(
    status: int, error: type[di.DIError], other: Other, url: str
) -> None:
    other.replies = [di.Reply(status, b"no")]
    with pytest.raises(error):
        di.call("GET", f"{url}/x")
    assert len(other.asked) == 1


def test_a_request_body_is_bounded(other: Other, url: str) -> None:
    assert len(di.call("POST", url, bytes(1000))) == 1000
    leaving = threading.Event()
    leaving.set()
    # Its answer may be overtaken by the end of the connection.
    with pytest.raises((di.Refused, di.Left)):
        di.call("POST", url, bytes(1_000_000), leaving=leaving)
    assert len(other.asked) == 1


def test_an_answer_body_is_bounded(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "MAX_ANSWER", 10)
    seconds = iter((0.0, 120.0))
    with pytest.raises(di.Unreachable, match="longer than 10 bytes"):
        di.call("POST", url, bytes(11), clock=lambda: next(seconds))


@pytest.mark.proves("sdk.md#reference/di-left")
def test_a_leaving_pod_does_not_wait_for_an_answer() -> None:
    leaving = threading.Event()
    leaving.set()
    with pytest.raises(di.Left, match=NOBODY):
        di.call("GET", NOBODY, leaving=leaving)


@pytest.mark.proves("sdk.md#reference/di-unreachable")
def test_a_call_gives_up_after_its_time() -> None:
    seconds = iter((0.0, 119.0, 120.0))
    with pytest.raises(di.Unreachable, match="within 120 s"):
        di.call("GET", NOBODY, clock=lambda: next(seconds))
    assert list(seconds) == []


def test_a_proxy_variable_is_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert di.call("GET", url) == b""


def test_the_default_port_is_the_contracts() -> None:
    assert di.job().port() == di.PORT == names.DI_PORT


@pytest.mark.proves(
    "sdk.md#between-pods",
    "sdk.md#reference/pack-arrays-any-bytes",
    "sdk.md#reference/unpack-message-bytes-dict-str-any",
)
def test_arrays_travel_without_code() -> None:
    found = unpack(pack(version=7, weights=[1.5, 2.5]))
    assert int(found["version"]) == 7
    assert found["weights"].tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="allow_pickle"):
        pack(x=object())
    for message in (b"", b"PK\x03\x04", b"{}", b"\x93NUMPY", pack(x=1)[:-30]):
        with pytest.raises(ValueError, match="no arrays"):
            unpack(message)
