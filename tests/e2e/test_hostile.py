"""Good clients, admissions and probes on a real node while a pod holds on to the services.

In short form all three services at once, for a few seconds of each kind. `make hostile` takes each
alone, for a minute of each kind, and says how long good clients waited: out/hostile/report.json.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from di_api.names import GROUP, PLURAL, SERVER_NAME, SERVER_TLS_PORT, VERSION
from di_api.quantity import parse_quantity
from di_cluster.release import Release
from tests.e2e.conftest import ROOT
from tests.e2e.jobs import job, sleep, task
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import wait_for_pods
from tests.e2e.release.test_install import restarts
from tests.unit.webhook.reviews import review
from tests.waiting import wait_until
from tools.hostile.attackers import AT_NOBODY, KINDS, ONLY_REVIEWS
from tools.hostile.target import request

SECONDS = float(os.environ.get("HOSTILE_SECONDS", "0"))
# The long form attacks each service for a minute with each kind: no limit of a single test fits.
pytestmark = [pytest.mark.extended, *([pytest.mark.timeout(0)] if SECONDS else [])]

CONNECTIONS = 500
WARM_SECONDS = 1.0
"""For an attack to be there in full."""
THINK_SECONDS = 0.2
"""Four visitors with it stay below what di-server takes from one job, 20 requests a second."""
FOLDER = ROOT / "out" / "hostile"
MODULES = ("attackers", "orders", "reviews", "target", "visitors")
SERVICES = ("webhook", "server", "operator")
PEAK = """
import os
from pathlib import Path

def peak(status):
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))

found = Path("/proc").glob("[0-9]*/status")
print(sum(peak(each.read_text()) for each in found if each.parent.name != str(os.getpid())))
"""
"""KiB of memory that the other processes of a container had at most, added up."""
Targets = dict[str, dict[str, Any]]


def at(host: str, port: int, request: bytes, *, tls: bool = False) -> dict[str, Any]:
    """A target as an order has it."""
    return {"host": host, "port": port, "tls": tls, "request": request.decode()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Testbed:
    """A job, a pod that visits the services and one that holds on to them."""

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    kubectl: Kubectl
    namespace: str
    release: Release
    attacked: Targets
    """By service."""
    visited: Targets
    """What good clients ask for: an admission, a job's replicas, and each service's probe."""

    def carry_out(self, pod: str, seconds: float, targets: Targets, **order: Any) -> Any:
        """What `tools.hostile.orders` in a pod reports."""
        text = json.dumps({"seconds": seconds, "targets": targets, **order})
        said = self.kubectl(
            *("--namespace", self.namespace, "exec", pod, "--"),
            *("python3", "-m", "tools.hostile.orders", text),
            seconds=seconds + 60,
        )
        return json.loads(said.splitlines()[-1])

    def visit(self, seconds: float, *, after: float = 0.0) -> Any:
        """What good clients see from some seconds after now on."""
        order = {"visitors": 4, "think": THINK_SECONDS, "after": after}
        return self.carry_out("visitor", seconds, self.visited, **order)

    def visit_beside(self, kind: str, services: tuple[str, ...], seconds: float) -> Any:
        """What good clients saw, and how the attack went."""
        targets = {service: self.attacked[service] for service in services}
        with ThreadPoolExecutor(1) as pool:
            attack = pool.submit(
                self.carry_out,
                "attacker",
                seconds + WARM_SECONDS,
                targets,
                attack=kind,
                connections=CONNECTIONS,
            )
            waits = self.visit(seconds, after=WARM_SECONDS)
            return waits | {"attack": attack.result()}

    def pods(self) -> dict[str, tuple[int, str]]:
        """Of each pod of the services its restarts, and since when it is ready."""
        found = {}
        for pod in self._services_pods():
            ready = next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")
            found[pod["metadata"]["name"]] = restarts(pod), f"{ready['status']} {_since(ready)}"
        return found

    def last_ends(self) -> dict[str, Any]:
        """By pod and container: how its previous process ended."""
        return {
            f"{pod['metadata']['name']} {container['name']}": container["lastState"]
            for pod in self._services_pods()
            for container in pod["status"]["containerStatuses"]
            if container.get("lastState")
        }

    def _services_pods(self) -> list[Object]:
        selector = f"--selector=app.kubernetes.io/component in ({','.join(SERVICES)})"
        return self.kubectl.items("pods", selector, namespace=self.release.namespace)

    def failed_probes(self) -> set[str]:
        """The kubelet's complaints so far."""
        selector = "--field-selector=reason=Unhealthy"
        events = self.kubectl.items("events", selector, namespace=self.release.namespace)
        return {
            f"{event['involvedObject']['name']} {event.get('count')}: {event['message']}"
            for event in events
        }

    def peaks(self) -> dict[str, float]:
        """The most memory each pod of the services ever had, as a share of its limit.

        The processes' own, added up: what two of them share counts twice.
        """
        found = {}
        for pod in self._services_pods():
            name = pod["metadata"]["name"]
            where = ("--namespace", self.release.namespace, "exec", name, "--")
            kibibytes = int(self.kubectl(*where, "python3", "-c", PEAK))
            limit = pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
            found[name] = round(1024 * kibibytes / int(parse_quantity(limit)), 3)
        return found


def _since(condition: Object) -> str:
    return str(condition["lastTransitionTime"])


@pytest.fixture
def testbed(kubectl: Kubectl, namespace: str, release: Release, python_image: str) -> Testbed:
    kubectl.apply(
        job(
            "quiet",
            namespace=namespace,
            tasks=[task("learner", image=python_image, program=sleep(3600))],
        )
    )
    sources = {name: (ROOT / f"tools/hostile/{name}.py").read_text() for name in MODULES}
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "hostile", "namespace": namespace},
            "data": {f"{name}.py": text for name, text in sources.items()},
        }
    )
    # Rights of a person who may edit in this namespace, and no more.
    kubectl("--namespace", namespace, "create", "serviceaccount", "person")
    kubectl(
        *("--namespace", namespace, "create", "rolebinding", "person"),
        *("--clusterrole=edit", f"--serviceaccount={namespace}:person"),
    )
    kubectl.apply(_pod("visitor", namespace, python_image, {"requests": {"cpu": "10m"}}))
    # Limited, and no more of a right to the processor than the visitor. A request as high as the
    # limit, the default, would let the cluster take half a processor from the services for it.
    few = {"requests": {"cpu": "10m"}, "limits": {"cpu": "500m"}}
    kubectl.apply(_pod("attacker", namespace, python_image, few))
    wait_for_pods(kubectl, "quiet", "quiet-learner-0", namespace=namespace)
    for pod in ("visitor", "attacker"):
        kubectl(
            *("--namespace", namespace, "wait", f"pod/{pod}", "--for=condition=Ready"),
            *("--timeout=240s",),
        )
    return Testbed(
        kubectl=kubectl,
        namespace=namespace,
        release=release,
        attacked=_attacked(kubectl, release, namespace),
        visited=_visited(kubectl, release, namespace),
    )


def _pod(name: str, namespace: str, image: str, resources: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532},
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["python3", "-c", sleep(3600)],
                    "workingDir": "/hostile",
                    "resources": resources,
                    "volumeMounts": [{"name": "code", "mountPath": "/hostile"}],
                }
            ],
            "volumes": [
                {
                    "name": "code",
                    "configMap": {
                        "name": "hostile",
                        "items": [
                            {"key": f"{each}.py", "path": f"tools/hostile/{each}.py"}
                            for each in MODULES
                        ],
                    },
                }
            ],
        },
    }


def _attacked(kubectl: Kubectl, release: Release, namespace: str) -> Targets:
    learner = task("learner", image="demo", program="")
    body = review(job("x", namespace=namespace, tasks=[learner]))
    operator = _addresses(kubectl, release, "operator")[0]
    return {
        "webhook": at(
            f"di-webhook.{release.namespace}.svc",
            443,
            request("POST", "/validate", body=body),
            tls=True,
        ),
        "server": at(
            f"di-server.{release.namespace}.svc",
            SERVER_TLS_PORT,
            request("GET", f"/v2alpha1/job/{namespace}.quiet/replicas"),
            tls=True,
        ),
        "operator": at(operator, 8080, request("GET", "/metrics")),
    }


def _visited(kubectl: Kubectl, release: Release, namespace: str) -> Targets:
    def token(audience: str = "") -> str:
        options = [f"--audience={audience}"] if audience else []
        return kubectl("--namespace", namespace, "create", "token", "person", *options).strip()

    resource = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/{PLURAL}/quiet?dryRun=All"
    patch = request(
        "PATCH",
        resource,
        # A change that is reviewed, as most are not.
        body=b'{"spec": {"backoffLimit": 5}}',
        kind="application/merge-patch+json",
        token=token(),
    )
    replicas = request("GET", f"/v2alpha1/job/{namespace}.quiet/replicas", token=token(SERVER_NAME))
    probes = {
        f"probe of {service}": at(
            _addresses(kubectl, release, service)[0],
            8082 if service == "server" else 8080,
            request("GET", "/readyz" if service != "operator" else "/healthz"),
        )
        for service in SERVICES
    }
    return {
        "webhook": at("kubernetes.default.svc", 443, patch, tls=True),
        "server": at(f"di-server.{release.namespace}.svc", SERVER_TLS_PORT, replicas, tls=True),
        **probes,
    }


def _addresses(kubectl: Kubectl, release: Release, service: str) -> list[str]:
    selector = f"--selector=app.kubernetes.io/component={service}"
    pods = kubectl.items("pods", selector, namespace=release.namespace)
    return [pod["status"]["podIP"] for pod in pods]


def _rounds(kind: str, rounds: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The services to attack, one entry after the other."""
    if kind in ONLY_REVIEWS:
        return [("webhook",)]
    return rounds[:1] if kind in AT_NOBODY else rounds


def _write(report: dict[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "report.json").write_text(json.dumps(report, indent=2))


def _is_as_before(testbed: Testbed, pods: dict[str, tuple[int, str]]) -> bool:
    found = testbed.pods()
    assert found == pods, (found, testbed.last_ends())
    return True


def test_no_admission_answer_or_probe_is_lost_to_clients_that_hold_on(testbed: Testbed) -> None:
    seconds = SECONDS or 2.0
    pods, complaints = testbed.pods(), testbed.failed_probes()
    testbed.visit(0.5)
    clean = testbed.visit(seconds)
    rounds: list[tuple[str, ...]] = (
        [SERVICES] if not SECONDS else [(service,) for service in SERVICES]
    )
    report: dict[str, Any] = {"connections": CONNECTIONS, "seconds": seconds, "clean": clean}
    report["kinds"] = {}
    for kind in KINDS:
        for services in _rounds(kind, rounds):
            seen = testbed.visit_beside(kind, services, seconds)
            report["kinds"][f"{kind} at {' and '.join(services)}"] = seen
            _write(report)
    report["memory"] = testbed.peaks()
    report["last ends"] = testbed.last_ends()
    _write(report)
    for name in testbed.visited:
        line = ", ".join(f"{kind} {seen[name]['p99_ms']}" for kind, seen in report["kinds"].items())
        print(f"p99 of {name}, ms: clean {clean[name]['p99_ms']}, {line}", file=sys.stderr)
    for kind, seen in {"clean": clean, **report["kinds"]}.items():
        for name in testbed.visited:
            assert seen[name]["requests"] > 0, (kind, name, seen[name])
            assert seen[name]["failures"] == 0, (kind, name, seen[name])
    # A moment for the kubelet to complain of the last of its probes.
    wait_until(lambda: _is_as_before(testbed, pods), what="the services' pods to be as they were")
    assert testbed.failed_probes() == complaints
    assert max(report["memory"].values()) < 0.9, report["memory"]
