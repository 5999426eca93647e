"""What callers without a good token cost, and which callers they do not stop."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from typing_extensions import override
from werkzeug.test import TestResponse

from di_kube.errors import Unavailable
from di_kube.reviews import User
from di_server.access.budget import Budget
from di_server.access.rate_limits import AuthFailureLimiter
from di_server.access.single_flight import SingleFlight
from di_server.access.tokens import TokenAuthenticator
from di_server.config import AuthMode
from di_server.deadline import Deadline
from di_server.problems import Busy, TooMany
from di_server.storage.reviews import ReviewStore
from di_service.token_buckets import TokenBuckets
from di_service.ttl_cache import TtlCache
from tests.unit.server.fakes import Clock, Harness, coordinated, job, make_harness, pod, watch

PATH = "/v2alpha1/rl.cartpole/replicas"
COORDINATED = "/v1alpha1/replicas"
MINE = "10.0.0.1"
UNKNOWN = "10.9.9.9"
LISTS = ("list", "pods")
REVIEWS = ("create", "tokenreviews")
REFUSED = [401] * 20 + [429] * 2


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


def _codes(harness: Harness, tokens: Iterable[str | None], **caller: Any) -> list[int]:
    return [_get(harness, token, **caller).status_code for token in tokens]


class _Reviews(ReviewStore):
    """Holds every token for good, and counts the reviews."""

    def __init__(self) -> None:
        self.count = 0

    @override
    def user_of(self, token: str, deadline: Deadline) -> User:
        self.count += 1
        return User(name=token)


def test_the_tokens_of_all_pods_of_a_large_cluster_stay_known() -> None:
    clock, reviews, pods = Clock(), _Reviews(), 20_000
    known = TokenAuthenticator(reviews=reviews, budget=Budget(rate=pods, clock=clock), clock=clock)
    for _ in range(2):
        for number in range(pods):
            known.user_of(f"token-{number}", Deadline.after(clock))
        clock.sleep(10)
    assert reviews.count == pods


def _forged(count: int) -> list[str]:
    return [f"forged-{number}" for number in range(count)]


@pytest.fixture
def harness() -> Harness:
    return _harness()


class TestRefusalsOfOneAddress:
    @pytest.mark.proves("rest.md#answers/429")
    @pytest.mark.parametrize("token", [None, "forged"])
    def test_refusals_are_limited(self, harness: Harness, token: str | None) -> None:
        assert _codes(harness, [token] * 22) == REFUSED
        refused = _get(harness, token)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert UNKNOWN in refused.text
        harness.clock.sleep(2)
        assert _codes(harness, [token] * 4) == [401, 401, 429, 429]
        assert _codes(harness, [token], ip="10.9.9.8") == [401]

    @pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", None])
    def test_refusals_without_a_review_count_too(self, header: str | None) -> None:
        harness = _harness(AuthMode.REQUIRED)
        headers = {"Authorization": header} if header else {}
        assert [harness.ask(PATH, headers=headers)[0] for _ in range(22)] == REFUSED

    def test_their_requests_to_the_api_server_are_bounded(self, harness: Harness) -> None:
        _codes(harness, [None] * 250)
        # The list of all jobs is no way around.
        _codes(harness, [None] * 250, path=COORDINATED)
        _codes(harness, _forged(500), ip="10.9.9.8")
        assert harness.kube.calls == {LISTS: 20, REVIEWS: 20}

    @pytest.mark.proves("security.md#unknown-callers")
    def test_good_tokens_and_known_pods_of_the_address_are_served(self, harness: Harness) -> None:
        assert _codes(harness, ["good"], ip=MINE) == [200]
        _codes(harness, _forged(30), ip=MINE)
        assert _codes(harness, ["forged", "good", None], ip=MINE) == [429, 200, 200]
        # The review has expired; it is asked for again, since the token was good before.
        harness.clock.sleep(61)
        _codes(harness, _forged(100), ip=MINE)
        assert _codes(harness, ["good"], ip=MINE) == [200]

    def test_any_number_of_good_tokens_come_from_one_address(self) -> None:
        harness = _harness(rate=1e6, burst=1_000_000)
        tokens = [f"pod-{number}" for number in range(200)]
        harness.kube.users = {token: {"username": "ann"} for token in tokens}
        assert _codes(harness, tokens) == [200] * 200

    def test_a_token_that_has_expired_is_refused_and_counts(self, harness: Harness) -> None:
        assert _codes(harness, ["good"]) == [200]
        del harness.kube.users["good"]
        harness.clock.sleep(61)
        assert _codes(harness, ["good"] * 22) == REFUSED

    def test_refusals_while_the_api_server_is_unreachable_do_not_count(
        self, harness: Harness
    ) -> None:
        harness.kube.failure = Unavailable(kind="Pod")
        assert _codes(harness, [None] * 30) == [503] * 30
        harness.kube.failure = None
        assert _codes(harness, [None]) == [401]

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
    def test_a_64_bit_ipv6_prefix_is_one_address(
        self, first: str, second: str, shared: bool
    ) -> None:
        refusals = AuthFailureLimiter(rate=1, burst=1, clock=Clock())
        refusals.count(first)
        if shared:
            with pytest.raises(TooMany):
                refusals.check(second)
        else:
            refusals.check(second)

    def test_refusals_of_concurrent_requests_are_all_counted(self) -> None:
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

    def test_the_number_of_buckets_is_bounded(self) -> None:
        buckets = TokenBuckets[int](rate=1, burst=1, clock=Clock())
        for number in range(10_000):
            buckets.take(number)
        assert buckets.wait(0) == 1
        buckets.take(-1)
        assert (buckets.wait(0), buckets.wait(1)) == (0, 1)


class TestJustStarted:
    def test_a_pod_that_the_watch_has_not_shown_yet_is_served(self, harness: Harness) -> None:
        assert _codes(harness, [None], ip="10.0.0.5") == [401]
        harness.add_pods(pod("new", 1, "10.0.0.5"))
        assert _codes(harness, [None], ip="10.0.0.5") == [200]
        watch(harness)
        harness.kube.calls.clear()
        assert _codes(harness, [None] * 5, ip="10.0.0.5") == [200] * 5
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
        assert _codes(harness, [None], ip="10.0.0.5") == [200]
        assert harness.kube.calls[LISTS] == is_late

    def test_before_the_caches_are_synced_known_pods_do_not_wait_for_unknown_callers(self) -> None:
        harness = _harness(lookup_rate=0.1)
        harness.caches.clear()
        for number in range(50):
            _get(harness, ip=f"10.9.0.{number}")
        began = harness.clock.now
        assert _codes(harness, [None] * 5, ip=MINE) == [200] * 5
        assert harness.clock.now == began


class TestBudgets:
    @pytest.mark.parametrize(("token", "calls"), [(None, LISTS), ("forged-{}", REVIEWS)])
    def test_unknown_callers_of_many_addresses_share_one_budget(
        self, token: str | None, calls: tuple[str, str]
    ) -> None:
        harness = _harness(lookup_rate=5, review_rate=5)
        began = harness.clock.now
        for number in range(300):
            ip = f"10.9.{number // 250}.{number % 250}"
            assert _codes(harness, [token and token.format(number)], ip=ip) == [401]
        assert harness.kube.calls[calls] <= 10 + 5 * (harness.clock.now - began) + 1

    def test_a_caller_that_would_wait_too_long_is_refused_with_retry_after(self) -> None:
        harness = _harness(review_rate=0.1)
        assert _codes(harness, ["forged"]) == [401]
        refused = _get(harness, "new")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "10")
        harness.clock.sleep(10)
        assert _codes(harness, ["new"]) == [200]

    def test_unknown_callers_wait_in_a_quarter_of_the_threads(self) -> None:
        harness = _harness(review_rate=1)
        _codes(harness, _forged(2))
        waits, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            waits.set()
            assert go_on.wait(60)

        harness.clock.after_sleep = hold
        with ThreadPoolExecutor(1) as pool:
            client = harness.client.application.test_client()
            first = pool.submit(client.get, PATH, headers={"Authorization": "Bearer new"})
            assert waits.wait(60)
            # The fake's clock went on while it waits: another caller takes its call.
            assert _codes(harness, ["other"]) == [401]
            # There is one place where there is one thread.
            assert _codes(harness, ["another"]) == [503]
            harness.clock.after_sleep = lambda: None
            go_on.set()
            assert first.result(60).status_code == 200

    def test_a_known_token_and_a_known_pod_need_no_budget(self) -> None:
        harness = _harness(review_rate=0.1, lookup_rate=0.1)
        assert _codes(harness, ["good"]) == [200]
        _get(harness, ip="10.9.9.1")
        began = harness.clock.now
        harness.clock.sleep(61)
        _get(harness, "forged", ip="10.9.9.2")
        assert _codes(harness, ["good"]) == [200]
        assert _codes(harness, [None], ip=MINE) == [200]
        assert harness.clock.now == began + 61


class TestTokens:
    def test_rejected_tokens_never_evict_good_ones(self) -> None:
        harness = _harness(review_rate=1e6, refusal_burst=1_000_000)
        assert _codes(harness, ["good"]) == [200]
        _codes(harness, _forged(11_000))
        harness.kube.calls.clear()
        assert _codes(harness, ["good"]) == [200]
        assert harness.kube.calls[REVIEWS] == 0

    def test_a_rejected_token_is_reviewed_again_after_ten_seconds(self, harness: Harness) -> None:
        for pause, reviews in ((0, 1), (9, 1), (2, 2)):
            harness.clock.sleep(pause)
            assert _codes(harness, ["forged"]) == [401]
            assert harness.kube.calls[REVIEWS] == reviews

    def test_the_number_of_cached_reviews_is_bounded(self) -> None:
        clock = Clock()
        recent = TtlCache[int, bool](seconds=10, most=3, clock=clock)
        for number in range(3):
            recent.put(number, True)
        assert recent.get(0)
        recent.put(3, True)
        assert [number for number in range(4) if recent.had(number)] == [0, 2, 3]
        clock.sleep(10)
        assert (recent.get(0), recent.had(0)) == (None, True)

    def test_concurrent_requests_with_one_token_cost_one_review(
        self, harness: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked, answer, create = threading.Event(), threading.Event(), harness.kube.create

        def slow(resource: Any, body: Any, **options: Any) -> Any:
            if resource.plural == "tokenreviews":
                asked.set()
                assert answer.wait(60)
            return create(resource, body, **options)

        monkeypatch.setattr(harness.kube, "create", slow)
        entered = threading.Semaphore(0)

        def ask() -> int:
            client = harness.client.application.test_client()
            entered.release()
            return client.get(PATH, headers={"Authorization": "Bearer good"}).status_code

        with ThreadPoolExecutor(8) as pool:
            first = pool.submit(ask)
            assert asked.wait(60)
            others = [pool.submit(ask) for _ in range(7)]
            for _ in range(8):
                assert entered.acquire(timeout=60)
            answer.set()
            assert {future.result(60) for future in (first, *others)} == {200}
        assert harness.kube.calls[REVIEWS] == 1


class TestSingleFlight:
    def test_an_error_is_raised_for_all_and_not_kept(self) -> None:
        flight, deadline = SingleFlight[str, int](), Deadline.after(Clock())

        def fail() -> int:
            raise Unavailable(kind="Pod")

        with pytest.raises(Unavailable):
            flight.run("a", fail, deadline)
        assert flight.run("a", lambda: 1, deadline) == 1

    def test_a_call_that_joins_another_waits_until_its_own_deadline(self) -> None:
        flight, clock = SingleFlight[str, int](), Clock()

        def call() -> int:
            with ThreadPoolExecutor(1) as pool:
                expired = Deadline.after(clock, seconds=0.01)
                with pytest.raises(Busy):
                    pool.submit(flight.run, "a", lambda: 2, expired).result(60)
                other = pool.submit(flight.run, "b", lambda: 3, Deadline.after(clock))
                assert other.result(60) == 3
            return 1

        assert flight.run("a", call, Deadline.after(clock)) == 1


def test_a_pod_of_another_job_is_an_unknown_caller(harness: Harness) -> None:
    other = coordinated(name="other", uid="uid-2")
    harness.add(other)
    harness.add_pods(pod("theirs", 0, "10.0.0.2", owner=other))
    watch(harness)
    assert _codes(harness, [None] * 22, ip="10.0.0.2") == REFUSED
    assert harness.kube.calls[LISTS] == 20
    assert _codes(harness, [None], ip="10.0.0.2", path=COORDINATED) == [200]
