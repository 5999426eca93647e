"""The operator's Prometheus metrics, in one registry that main owns."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from di_kube.cache import WatchCache
from di_operator.metrics.jobs.collect import JobMetrics, Source

# Label values are bounded: results, action types, reasons from our own constants. Never a job's
# name: metrics of single jobs are in `metrics/jobs`, which limits their number.
RECONCILE_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """Counters that the operator increments, and gauges that are read at each scrape."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of_jobs: JobMetrics | None = None
        self._reconciles = Counter(
            "di_operator_reconciles",
            "Reconciles of a job, by result.",
            ["result"],
            registry=self.registry,
        )
        self._duration = Histogram(
            "di_operator_reconcile_duration_seconds",
            "Time of one reconcile, writes included.",
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._actions = Counter(
            "di_operator_actions",
            "Writes to objects of jobs, by action and result.",
            ["action", "result"],
            registry=self.registry,
        )
        self._status_writes = Counter(
            "di_operator_status_writes",
            "Status patches, by result.",
            ["result"],
            registry=self.registry,
        )
        self._events = Counter(
            "di_operator_events",
            "Events on jobs, by type and by what became of them.",
            ["type", "result"],
            registry=self.registry,
        )
        self._requests = _Requests()
        self.registry.register(self._requests)
        self._caches = _Caches()
        self.registry.register(self._caches)
        self._anomalies = Counter(
            "di_operator_anomalies",
            "Warning events decided, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self._duty_failures = Counter(
            "di_operator_duty_failures",
            "Failures of a part of the operator that was then started again, by part.",
            ["duty"],
            registry=self.registry,
        )
        self._unreadable = Gauge(
            "di_operator_unreadable",
            "Objects that the allocator cannot read and leaves out, by kind.",
            ["kind"],
            registry=self.registry,
        )
        self._queues = Gauge(
            "di_allocator_queue_resources",
            "What namespaces with a queue are guaranteed, may have and have of a resource, in base "
            "units, by amount (guarantee, quota, used, borrowed).",
            ["namespace", "resource", "amount"],
            registry=self.registry,
        )
        self._notifications = Counter(
            "di_operator_notifications",
            "Notifications about jobs, by target and result.",
            ["target", "result"],
            registry=self.registry,
        )
        self.task_looks = _Looks(
            Counter(
                "di_operator_task_looks",
                "Looks at the DIJobTasks of a job, by result.",
                ["result"],
                registry=self.registry,
            )
        )
        self.sweeps = _Looks(
            Counter(
                "di_operator_sweep_reconciles",
                "Reconciles of DISweeps, by result.",
                ["result"],
                registry=self.registry,
            )
        )
        self.pod_trials = _Looks(
            Counter(
                "di_operator_pod_trials",
                "Jobs that wait whose pods were to be tried in dry runs, by result.",
                ["result"],
                registry=self.registry,
            )
        )
        self._policy_calls = Histogram(
            "di_operator_policy_duration_seconds",
            "Time of one call of the allocation policy, by call and result.",
            ["call", "result"],
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )

    def allocated(self, call: str, result: str, seconds: float) -> None:
        """Count one call of the policy (`allocate`, `optimize`) and its duration in seconds."""
        self._policy_calls.labels(call, result).observe(seconds)

    def unreadable(self, kind: str, number: int) -> None:
        """Set the number of objects of a kind that the allocator currently ignores."""
        self._unreadable.labels(kind).set(number)

    def queues(self, amounts: Mapping[tuple[str, str, str], float]) -> None:
        """Set the amounts of the namespaces' queues, by namespace, resource and amount; the
        settings bound their number.
        """
        for labels, value in amounts.items():
            self._queues.labels(*labels).set(value)

    def notified(self, target: str, result: str) -> None:
        """Count one notification (`sent`, `failed` or `dropped`) by the target's name."""
        self._notifications.labels(target, result).inc()

    def duty_failed(self, duty: str) -> None:
        """Count one failure of a part of the operator, by its name."""
        self._duty_failures.labels(duty).inc()

    def reconciled(self, result: str, seconds: float) -> None:
        """Count one reconcile and its duration in seconds."""
        self._reconciles.labels(result).inc()
        self._duration.observe(seconds)

    def acted(self, action: str, result: str) -> None:
        """Count one executed action (`CreatePod`, ...) and its result."""
        self._actions.labels(action, result).inc()

    def status_written(self, result: str) -> None:
        """Count one status patch: `ok`, `conflict` or `error`."""
        self._status_writes.labels(result).inc()

    def event(self, type_: str, result: str) -> None:
        """Count one event: `sent`, `over_budget`, `queue_full` or `error`."""
        self._events.labels(type_, result).inc()

    def anomaly(self, reason: str) -> None:
        """Count one anomaly by its event reason."""
        self._anomalies.labels(reason).inc()

    def gauge(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Register a gauge whose value is read at each scrape."""
        Gauge(name, text, registry=self.registry).set_function(read)

    def jobs(self, read: Callable[[], Mapping[str, int]]) -> None:
        """Register the gauge of jobs by phase, read at each scrape."""
        self.registry.register(_JobsByPhase(read))

    def of_jobs(self, source: Source) -> JobMetrics:
        """Register the metrics of single jobs; the caller has to call `follow` of the returned
        object for each change.
        """
        self._of_jobs = JobMetrics(source)
        return self._of_jobs

    def cache(self, plural: str, cache: WatchCache) -> None:
        """Expose the counters of a watch cache at each scrape."""
        self._caches.watched[plural] = cache

    def requests(self, tally: Mapping[tuple[str, str, int], int]) -> None:
        """Expose the requests a client has finished, by verb, plural and status code."""
        self._requests.tallies.append(tally)

    def begin(self) -> Callable[[], bytes]:
        """Collect the values that the event loop owns, which is cheap. The returned function
        renders all metrics as text, in any thread.
        """
        families = list(self.registry.collect())
        of_jobs = self._of_jobs.begin() if self._of_jobs is not None else list[Metric]
        return lambda: generate_latest(_Collected([*families, *of_jobs()]))

    def render(self) -> bytes:
        """Return the text exposition of all metrics."""
        return self.begin()()


class _Collected:
    """Families that were already collected, in place of a registry."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


class _Looks:
    """Metrics of a controller other than the reconciler."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter

    def reconciled(self, result: str, _: float) -> None:
        """Count one reconcile."""
        self._counter.labels(result).inc()


class _JobsByPhase(Collector):
    """Reads the sizes of the cache's index: a separate count would drift after a missed event."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    @override
    def collect(self) -> Iterable[Metric]:
        family = GaugeMetricFamily("di_jobs", "DIJobs in the cluster, by phase.", labels=["phase"])
        for phase, number in sorted(self._read().items()):
            family.add_metric([phase], number)
        yield family


class _Caches(Collector):
    """Reads the counters of the watch caches."""

    def __init__(self) -> None:
        self.watched: dict[str, WatchCache] = {}

    @override
    def collect(self) -> Iterable[Metric]:
        objects = GaugeMetricFamily(
            "di_operator_cache_objects", "Objects in a cache.", labels=["plural"]
        )
        away = GaugeMetricFamily(
            "di_operator_cache_away_seconds",
            "Time since the API server last answered a watch; 0 while it is open.",
            labels=["plural"],
        )
        happenings = CounterMetricFamily(
            "di_operator_cache_happenings",
            "What a cache went through, by kind.",
            labels=["plural", "kind"],
        )
        for plural, cache in self.watched.items():
            objects.add_metric([plural], len(cache))
            away.add_metric([plural], cache.away)
            for field in fields(cache.stats):
                happenings.add_metric([plural, field.name], getattr(cache.stats, field.name))
        return [objects, away, happenings]


class _Requests(Collector):
    """Reads the counters of the API clients."""

    def __init__(self) -> None:
        self.tallies: list[Mapping[tuple[str, str, int], int]] = []

    @override
    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "di_operator_api_requests",
            "Finished requests to the API server; code 0 is one without an answer.",
            labels=["verb", "plural", "code"],
        )
        total: Tally[tuple[str, str, int]] = Tally()
        for tally in self.tallies:
            total.update(tally)
        for (verb, plural, code), number in sorted(total.items()):
            family.add_metric([verb, plural, str(code)], number)
        yield family
