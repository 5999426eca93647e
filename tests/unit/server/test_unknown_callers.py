"""What callers without a good token cost, and whom they do not stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from werkzeug.test import TestResponse

from di_api.kube.errors import Unavailable
from di_api.service.token_buckets import TokenBuckets
from di_api.service.ttl_cache import TtlCache
from di_server.access.rate_limits import AuthFailureLimiter
from di_server.access.single_flight import SingleFlight
from di_server.config import AuthMode
from di_server.deadline import Deadline
from di_server.problems import Busy, TooMany
from tests.unit.server.fakes import Clock, Harness, coordinated, job, make_harness, pod, watch

PATH = "/v2alpha1/rl.cartpole/replicas"
COORDINATED = "/v1alpha1/replicas"
MINE = "10.0.0.1"
UNKNOWN = "10.9.9.9"
LISTS = ("list", "pods")
REVIEWS = ("create", "tokenreviews")


def _harness(mode: AuthMode = AuthMode.OPTIONAL, **settings: Any) -> Harness:
    """A server that has seen one job with one pod, and knows two good tokens."""
    harness = make_harness(auth=mode, **settings)
    harness.add(job())
    harness.add_pods(pod("mine", 0, MINE))
    watch(harness)
    harness.kube.allowed = {("ann", "get", "rl/cartpole"), ("bob", "get", "rl/cartpole")}
    harness.kube.users = {"good": {"username": "ann"}, "new": {"username": "bob"}}
    return harness


def _get(
    harness: Harness, token: str | None = None, *, ip: str = UNKNOWN, path: str = PATH
) -> TestResponse:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return harness.client.get(path, headers=headers, environ_overrides={"REMOTE_ADDR": ip})


def _codes(
    harness: Harness, count: int, token: str | None = None, *, ip: str = UNKNOWN
) -> list[int]:
    return [_get(harness, token, ip=ip).status_code for _ in range(count)]


class TestRefusalsOfOneAddress:
    @pytest.mark.parametrize("token", [None, "forged"])
    def test_they_are_limited(self, token: str | None) -> None:
        harness = _harness()
        assert _codes(harness, 25, token) == [401] * 20 + [429] * 5
        refused = _get(harness, token)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert refused.json is not None
        assert refused.json["success"] is False
        assert UNKNOWN in refused.json["message"]
        harness.clock.sleep(2)
        assert _codes(harness, 4, token) == [401, 401, 429, 429]

    @pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", None])
    def test_those_without_a_call_count_too(self, header: str | None) -> None:
        harness = _harness(AuthMode.REQUIRED)
        headers = {"Authorization": header} if header else {}
        codes = [harness.client.get(PATH, headers=headers).status_code for _ in range(22)]
        assert codes == [401] * 20 + [429] * 2

    def test_what_they_cost_the_api_server_is_bounded(self) -> None:
        harness = _harness()
        _codes(harness, 500)
        assert harness.kube.calls[LISTS] == 20
        for number in range(500):
            _get(harness, f"forged-{number}", ip="10.9.9.8")
        assert harness.kube.calls[REVIEWS] == 20
        assert harness.kube.calls.total() == 40

    def test_the_list_of_all_jobs_is_no_way_around(self) -> None:
        harness = _harness()
        for _ in range(100):
            _get(harness, path=COORDINATED)
        assert harness.kube.calls[LISTS] == 20

    def test_another_address_pays_nothing_for_them(self) -> None:
        harness = _harness()
        _codes(harness, 25)
        assert _codes(harness, 1, ip="10.9.9.8") == [401]

    def test_good_tokens_and_known_pods_behind_it_are_served(self) -> None:
        harness = _harness()
        assert _codes(harness, 1, "good", ip=MINE) == [200]
        for number in range(30):
            _get(harness, f"forged-{number}", ip=MINE)
        assert _codes(harness, 1, "forged", ip=MINE) == [429]
        assert _codes(harness, 1, "good", ip=MINE) == [200]
        assert _codes(harness, 1, ip=MINE) == [200]
        # Its review is old by now; it is asked about again, as it held before.
        harness.clock.sleep(61)
        for number in range(100):
            _get(harness, f"again-{number}", ip=MINE)
        assert _codes(harness, 1, "good", ip=MINE) == [200]

    def test_any_number_of_good_tokens_come_from_one_address(self) -> None:
        harness = _harness(rate=1e6, burst=1_000_000)
        for number in range(200):
            harness.kube.users[f"pod-{number}"] = {"username": "ann"}
            assert _codes(harness, 1, f"pod-{number}") == [200]

    def test_a_token_that_holds_no_more_is_refused_and_counts(self) -> None:
        harness = _harness()
        assert _codes(harness, 1, "good") == [200]
        del harness.kube.users["good"]
        harness.clock.sleep(61)
        assert _codes(harness, 22, "good") == [401] * 20 + [429] * 2

    def test_an_api_server_that_is_away_is_nobodys_fault(self) -> None:
        harness = _harness()
        harness.kube.failure = Unavailable(kind="Pod")
        assert _codes(harness, 30) == [503] * 30
        harness.kube.failure = None
        assert _codes(harness, 1) == [401]

    @pytest.mark.parametrize(
        ("first", "second", "shared"),
        [
            ("10.0.0.9", "::ffff:10.0.0.9", True),
            ("10.0.0.9", "10.0.0.8", False),
            ("fd00:1:2:3::1", "fd00:1:2:3:ffff::2", True),
            ("fd00:1:2:3::1", "fd00:1:2:4::1", False),
            ("fe80::1%eth0", "fe80::2%eth1", True),
            ("", "junk", True),
        ],
    )
    def test_what_one_address_is(self, first: str, second: str, shared: bool) -> None:
        refusals = AuthFailureLimiter(rate=1, burst=1, clock=Clock())
        refusals.check(first)
        refusals.count(first)
        if shared:
            with pytest.raises(TooMany):
                refusals.check(second)
        else:
            refusals.check(second)

    def test_all_that_were_let_through_at_once_are_counted(self) -> None:
        clock = Clock()
        refusals = AuthFailureLimiter(rate=1, burst=4, clock=clock)
        for _ in range(7):
            refusals.check(UNKNOWN)
        for _ in range(7):
            refusals.count(UNKNOWN)
        clock.sleep(3.5)
        with pytest.raises(TooMany):
            refusals.check(UNKNOWN)
        clock.sleep(1)
        refusals.check(UNKNOWN)

    def test_memory_is_bounded(self) -> None:
        buckets = TokenBuckets[int](rate=1, burst=1, clock=Clock())
        for number in range(10_000):
            buckets.take(number)
        assert buckets.wait(0) == 1
        buckets.take(-1)
        assert (buckets.wait(0), buckets.wait(1)) == (0, 1)


class TestJustStarted:
    def test_a_pod_that_the_watch_has_not_shown_yet_is_let_in(self) -> None:
        harness = _harness()
        assert _codes(harness, 1, ip="10.0.0.5") == [401]
        harness.add_pods(pod("new", 1, "10.0.0.5"))
        assert _codes(harness, 1, ip="10.0.0.5") == [200]
        watch(harness)
        harness.kube.calls.clear()
        assert _codes(harness, 5, ip="10.0.0.5") == [200] * 5
        assert harness.kube.calls.total() == 0

    @pytest.mark.parametrize("is_late", [True, False])
    def test_in_a_flood_it_waits_for_the_watch_or_its_turn(self, is_late: bool) -> None:
        harness = _harness(lookup_rate=1)
        for number in range(2):
            _get(harness, ip=f"10.9.0.{number}")
        harness.add_pods(pod("new", 1, "10.0.0.5"))
        harness.kube.calls.clear()
        if not is_late:
            harness.clock.after_sleep = lambda: watch(harness)
        assert _codes(harness, 1, ip="10.0.0.5") == [200]
        assert harness.kube.calls[LISTS] == is_late

    def test_before_the_caches_are_synced_good_clients_do_not_wait_for_unknown_callers(
        self,
    ) -> None:
        harness = _harness(lookup_rate=0.1)
        harness.caches.clear()
        for number in range(50):
            _get(harness, ip=f"10.9.0.{number}")
        began = harness.clock.now
        assert _codes(harness, 5, ip=MINE) == [200] * 5
        assert harness.clock.now == began


class TestBudgets:
    def test_unknown_callers_of_many_addresses_share_one_budget_of_lists(self) -> None:
        harness = _harness(lookup_rate=5)
        began = harness.clock.now
        codes = {
            _get(harness, ip=f"10.9.{number // 250}.{number % 250}").status_code
            for number in range(300)
        }
        assert codes == {401}
        assert harness.kube.calls[LISTS] <= 10 + 5 * (harness.clock.now - began) + 1

    def test_and_one_of_reviews(self) -> None:
        harness = _harness(review_rate=5)
        began = harness.clock.now
        for number in range(300):
            _get(harness, f"forged-{number}", ip=f"10.9.{number // 250}.{number % 250}")
        assert harness.kube.calls[REVIEWS] <= 10 + 5 * (harness.clock.now - began) + 1

    def test_who_cannot_wait_so_long_is_told_when_to_come_back(self) -> None:
        harness = _harness(review_rate=0.1)
        assert _get(harness, "forged").status_code == 401
        refused = _get(harness, "new")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
        harness.clock.sleep(10)
        assert _get(harness, "new").status_code == 200

    def test_they_wait_in_a_quarter_of_the_threads(self) -> None:
        harness = _harness(review_rate=1)
        for number in range(2):
            _get(harness, f"forged-{number}")
        waits, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            waits.set()
            assert go_on.wait(10)

        harness.clock.after_sleep = hold
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(
                harness.client.application.test_client().get,
                PATH,
                headers={"Authorization": "Bearer new"},
            )
            assert waits.wait(10)
            # The fake's clock went on while it waits: its call is taken by somebody else.
            assert _get(harness, "other").status_code == 401
            # There is one place where there is one thread.
            assert _get(harness, "another").status_code == 503
            harness.clock.after_sleep = lambda: None
            go_on.set()
            assert first.result(10).status_code == 200

    def test_a_known_token_and_a_known_pod_need_none(self) -> None:
        harness = _harness(review_rate=0.1, lookup_rate=0.1)
        assert _get(harness, "good").status_code == 200
        _get(harness, ip="10.9.9.1")
        began = harness.clock.now
        harness.clock.sleep(61)
        _get(harness, "forged", ip="10.9.9.2")
        assert _get(harness, "good").status_code == 200
        assert _get(harness, ip=MINE).status_code == 200
        assert harness.clock.now == began + 61


class TestTokens:
    def test_those_that_do_not_hold_never_put_out_good_ones(self) -> None:
        harness = _harness(review_rate=1e6, refusal_burst=1_000_000)
        assert _get(harness, "good").status_code == 200
        for number in range(11_000):
            _get(harness, f"forged-{number}")
        harness.kube.calls.clear()
        assert _get(harness, "good").status_code == 200
        assert harness.kube.calls[REVIEWS] == 0

    def test_one_that_does_not_hold_is_asked_about_again_after_a_while(self) -> None:
        harness = _harness()
        for pause, reviews in ((0, 1), (9, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _get(harness, "forged").status_code == 401
            assert harness.kube.calls[REVIEWS] == reviews

    def test_few_are_remembered(self) -> None:
        clock = Clock()
        recent = TtlCache[int, bool](seconds=10, most=3, clock=clock)
        for number in range(3):
            recent.put(number, True)
        assert recent.get(0)
        recent.put(3, True)
        assert [number for number in range(4) if recent.had(number)] == [0, 2, 3]
        clock.sleep(10)
        assert (recent.get(0), recent.had(0)) == (None, True)

    def test_many_requests_with_one_token_cost_one_review(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness = _harness()
        asked, answer, create = threading.Event(), threading.Event(), harness.kube.create

        def slow(resource: Any, body: Any, **options: Any) -> Any:
            if resource.plural == "tokenreviews":
                asked.set()
                assert answer.wait(10)
            return create(resource, body, **options)

        monkeypatch.setattr(harness.kube, "create", slow)
        entered = threading.Semaphore(0)

        def ask() -> int:
            client = harness.client.application.test_client()
            entered.release()
            return client.get(PATH, headers={"Authorization": "Bearer good"}).status_code

        with ThreadPoolExecutor(8) as pool:
            first = pool.submit(ask)
            assert asked.wait(10)
            others = [pool.submit(ask) for _ in range(7)]
            for _ in range(8):
                assert entered.acquire(timeout=10)
            answer.set()
            assert {future.result(10) for future in (first, *others)} == {200}
        assert harness.kube.calls[REVIEWS] == 1


class TestSingleFlight:
    def test_an_error_is_everybodys_and_is_not_kept(self) -> None:
        flight, deadline = SingleFlight[str, int](), Deadline.after(Clock())

        def fail() -> int:
            raise Unavailable(kind="Pod")

        with pytest.raises(Unavailable):
            flight.run("a", fail, deadline)
        assert flight.run("a", lambda: 1, deadline) == 1

    def test_who_joins_waits_no_longer_than_the_deadline(self) -> None:
        flight, clock = SingleFlight[str, int](), Clock()

        def call() -> int:
            # Asked for again while it is under way, by one whose time is up.
            with ThreadPoolExecutor(1) as pool:
                joined = pool.submit(
                    flight.run, "a", lambda: 2, Deadline.after(clock, seconds=0.01)
                )
                with pytest.raises(Busy):
                    joined.result(10)
                other = pool.submit(flight.run, "b", lambda: 3, Deadline.after(clock))
                assert other.result(10) == 3
            return 1

        assert flight.run("a", call, Deadline.after(clock)) == 1


def test_a_pod_of_another_job_is_an_unknown_caller_here() -> None:
    harness = _harness()
    other = coordinated(name="other", uid="uid-2")
    harness.add(other)
    harness.add_pods(pod("theirs", 0, "10.0.0.2", owner=other))
    watch(harness)
    assert _codes(harness, 22, ip="10.0.0.2") == [401] * 20 + [429] * 2
    assert harness.kube.calls[LISTS] == 20
    assert _get(harness, ip="10.0.0.2", path=COORDINATED).status_code == 200
