"""An API server of a few dictionaries, and the application on top of it."""

from __future__ import annotations

import copy
import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from random import Random
from typing import Any

from flask.testing import FlaskClient

from di_api.names import (
    ANNOTATION_RANK,
    API_VERSION,
    KIND,
    LABEL_JOB,
    LABEL_OPERATOR,
    LABEL_TASK_NAME,
    OPERATOR_NAME,
)
from di_kube.errors import ApiError, Conflict, Invalid, NotFound
from di_kube.resources import DIJOBS, PODS, TOKEN_REVIEWS, Resource
from di_server.config import AuthMode, load_config
from di_server.jobs.profilings import merge
from di_server.main import build_app
from di_server.members.service import lives
from di_server.members.shared import Members
from di_server.metrics import Metrics
from di_server.model.references import ConfigRef
from di_server.probes import Probes
from di_server.storage.caches import Caches
from di_server.storage.jobs import JobStore
from di_server.storage.transforms import transform_job, transform_pod
from di_service.spans import Tracing
from di_service.tracing import OFF

Object = dict[str, Any]


class Clock:
    """Monotonic seconds that pass only when the test moves them, or in a sleep."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.after_sleep: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.after_sleep()

    def wall(self) -> datetime:
        """The API server's time, which goes along."""
        return datetime.fromtimestamp(1_767_225_600 + self.now - 1000.0, UTC)


class FakeKube:
    """Implements what `di_server.storage.kube.Kube` asks for."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.calls: Counter[tuple[str, str]] = Counter()
        self.users: dict[str, Object] = {}
        self.allowed: set[tuple[str, str, str]] = set()
        self.failure: ApiError | None = None
        self.failures: list[ApiError] = []
        """Of the next calls, one each."""
        self.before_patch: Callable[[], None] = lambda: None
        self._versions = itertools.count(1)
        self._lock = threading.Lock()

    def put(self, resource: Resource, body: Object) -> Object:
        """Store an object as it stands, with a new version."""
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[resource.plural, metadata.get("namespace", ""), metadata["name"]] = body
        return body

    def get(
        self, resource: Resource, name: str, namespace: str | None = None, *, timeout: float | None
    ) -> Object:
        self._count("get", resource, timeout)
        return copy.deepcopy(self._find(resource, name, namespace))

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout: float | None,
    ) -> tuple[list[Object], str]:
        self._count("list", resource, timeout)
        assert resource.namespaced or namespace is None
        found = [
            copy.deepcopy(body)
            for (plural, where, _), body in self.objects.items()
            if plural == resource.plural and namespace in (None, where)
        ]
        if label_selector:
            key, _, value = label_selector.partition("=")
            found = [each for each in found if each["metadata"]["labels"].get(key) == value]
        if field_selector and field_selector.startswith("status.podIP="):
            ip = field_selector.removeprefix("status.podIP=")
            found = [each for each in found if each["status"].get("podIP") == ip]
        return found, "1"

    def create(self, resource: Resource, body: Object, *, timeout: float | None) -> Object:
        self._count("create", resource, timeout)
        spec = body["spec"]
        if resource == TOKEN_REVIEWS:
            user = self.users.get(spec["token"])
            status = {"authenticated": user is not None, "audiences": spec["audiences"]}
            return {"status": {**status, **({"user": user} if user else {})}}
        asked = spec["resourceAttributes"]
        assert (asked["resource"], asked["subresource"]) == ("dijobs", "scale")
        key = (spec["user"], asked["verb"], f"{asked['namespace']}/{asked['name']}")
        return {"status": {"allowed": key in self.allowed}}

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        namespace: str | None = None,
        *,
        content_type: str,
        subresource: str | None = None,
        field_manager: str | None = None,
        timeout: float | None,
    ) -> Object:
        self._count("patch", resource, timeout)
        self.before_patch()
        with self._lock:
            current = self._find(resource, name, namespace)
            if isinstance(patch, dict):
                assert (content_type, subresource) == ("application/merge-patch+json", "status")
                new = merge(current, patch)
            else:
                assert (content_type, subresource) == ("application/json-patch+json", None)
                new = copy.deepcopy(current)
                for operation in patch:
                    _apply(new, operation)
            if new["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
                raise Conflict(kind=resource.kind, namespace=namespace, name=name, code=409)
            return copy.deepcopy(self.put(resource, new))

    def _count(self, verb: str, resource: Resource, timeout: float | None) -> None:
        assert timeout is not None, "every call has a time-out"
        assert timeout > 0
        self.calls[verb, resource.plural] += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.failure is not None:
            raise self.failure

    def _find(self, resource: Resource, name: str, namespace: str | None) -> Object:
        try:
            return self.objects[resource.plural, namespace or "", name]
        except KeyError:
            raise NotFound(kind=resource.kind, namespace=namespace, name=name, code=404) from None


def _apply(target: Object, operation: Object) -> None:
    *parents, last = [
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    ]
    inner: Any = target
    for part in parents:
        if isinstance(inner, dict) and part not in inner:
            raise Invalid(kind=KIND, code=422, message=f"no path {operation['path']}")
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    inner[last] = operation["value"]


def task(kind: str = "collector", replicas: int = 2, **more: object) -> Object:
    """A raw task."""
    return {"name": kind, "type": kind, "replicas": replicas, "template": {}, **more}


def job(
    name: str = "cartpole",
    namespace: str = "rl",
    *,
    tasks: Sequence[Object] | None = None,
    phase: str | None = "Running",
    uid: str = "uid-1",
    **spec: object,
) -> Object:
    """A raw DIJob as the API server returns it."""
    tasks = [task("learner", 1), task()] if tasks is None else list(tasks)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1"},
        "spec": {"tasks": tasks, **spec},
        "status": {"phase": phase} if phase else {},
    }


def template(port: int | None = None) -> Object:
    """A pod template, its container listening on `port` if one is given."""
    ports = [{"name": "di-port", "containerPort": port}] if port else []
    return {"spec": {"containers": [{"name": "di-container", "ports": ports}]}}


def coordinated(
    *replicas: Object,
    name: str = "cartpole",
    roles: Iterable[str] = ("collector", "learner"),
    **more: object,
) -> Object:
    """A raw DIJob with a coordinator and `replicas`; `more` as in `job`."""
    body = job(name, tasks=(), **more)  # type: ignore[arg-type]  # what job takes, it checks
    del body["spec"]["tasks"]
    body["spec"]["coordinated"] = {
        "coordinator": {"template": template()},
        **{role: {"template": template()} for role in roles},
        "replicas": list(replicas),
    }
    return body


def replica(name: str, role: str = "collector", **more: object) -> Object:
    """A raw entry of spec.coordinated.replicas."""
    return {"name": name, "role": role, **more}


def pod(
    name: str,
    rank: int | str,
    ip: str | None = None,
    *,
    owner: Object | None = None,
    phase: str = "Running",
    ports: Iterable[Object] = (),
    container: str = "di-container",
    task: str = "collector",
    **spec: object,
) -> Object:
    """A raw pod of a job."""
    owner = owner or job()
    return {
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "uid": f"uid-of-{name}",
            "labels": {
                LABEL_JOB: owner["metadata"]["name"],
                LABEL_OPERATOR: OPERATOR_NAME,
                LABEL_TASK_NAME: task,
            },
            "annotations": {ANNOTATION_RANK: str(rank)},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": owner["metadata"]["name"],
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": container, "ports": list(ports)}], **spec},
        "status": {"phase": phase, **({"podIP": ip} if ip else {})},
    }


@dataclass
class Harness:
    """The application, a client of it, and what is below it."""

    kube: FakeKube
    clock: Clock
    client: FlaskClient
    caches: Caches
    draining: threading.Event
    certified: threading.Event
    """Whether there is a certificate to serve, where one is needed."""
    asked: threading.Event
    """Whether the other replicas were asked for their members."""
    members: Members

    def add(self, *jobs: Object) -> None:
        for each in jobs:
            self.kube.put(DIJOBS, each)

    def add_pods(self, *pods: Object) -> None:
        for each in pods:
            self.kube.put(PODS, each)

    def job(self, name: str = "cartpole", namespace: str = "rl") -> Object:
        return self.kube.objects[DIJOBS.plural, namespace, name]

    def replicas(self, index: int = 1) -> int:
        value: int = self.job()["spec"]["tasks"][index]["replicas"]
        return value

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        method: str | None = None,
        token: str | None = None,
        ip: str = "127.0.0.1",
        scheme: str = "http",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """The status of the answer, and its data or the message of the refusal.

        GET, or POST with a body: bytes as they are, anything else as JSON.
        """
        answer = self.client.open(
            path,
            method=method or ("GET" if body is None else "POST"),
            data=body if isinstance(body, bytes | None) else json.dumps(body),
            headers={**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})},
            environ_overrides={"REMOTE_ADDR": ip, "wsgi.url_scheme": scheme},
        )
        found = json.loads(answer.data)
        return answer.status_code, found["data" if answer.status_code == 200 else "message"]


def make_harness(
    *, config: ConfigRef | None = None, traces: Tracing = OFF, **settings: Any
) -> Harness:
    """The application over an empty fake; without sign-in, and `settings` of Config besides."""
    kube, clock, draining, caches = FakeKube(), Clock(), threading.Event(), Caches()
    certified, asked = threading.Event(), threading.Event()
    certified.set()
    asked.set()
    defaults = replace(load_config([], {}), auth=AuthMode.OFF, threads=1, watch_nodes=True)
    used = replace(defaults, aggregator_config=config, **settings)
    metrics = Metrics()
    members = Members(lives=lives(caches.pods), clock=clock, now=clock.wall)
    app = build_app(
        settings=used,
        kube=kube,
        caches=caches,
        members=members,
        server="this",
        probes=Probes(
            jobs=JobStore(kube=kube, namespace=used.watch_namespace, cache=caches.jobs),
            registry=metrics.registry,
            draining=draining,
            has_certificate=certified.is_set,
            has_asked=asked.is_set,
            clock=clock,
            exemplars=traces is not OFF,
        ),
        draining=draining,
        metrics=metrics,
        clock=clock,
        now=clock.wall,
        sleep=clock.sleep,
        rng=Random(1),
        traces=traces,
    )
    return Harness(
        kube=kube,
        clock=clock,
        client=app.test_client(),
        caches=caches,
        draining=draining,
        certified=certified,
        asked=asked,
        members=members,
    )


def watch(harness: Harness) -> None:
    """Show the server all there is, as its watches do."""
    for cache, resource, transform in (
        (harness.caches.jobs, DIJOBS, transform_job),
        (harness.caches.pods, PODS, transform_pod),
    ):
        for (plural, _, _), body in list(harness.kube.objects.items()):
            if plural == resource.plural:
                cache.on_event("ADDED", transform(body))
        cache.mark_synced()


def pod_user(name: str, *, namespace: str = "rl", uid: str | None = None) -> Object:
    """What a TokenReview returns for the token of a pod."""
    extra = {
        "authentication.kubernetes.io/pod-name": [name],
        "authentication.kubernetes.io/pod-uid": [uid or f"uid-of-{name}"],
    }
    return {"username": f"system:serviceaccount:{namespace}:default", "extra": extra}
