"""A coordinator at work: what it asks of di-server, and what stands behind the answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from di_api.names import LABEL_DIJOB_NAME, LABEL_REPLICA_TYPE
from tests.e2e.jobs import coordinated, template
from tests.e2e.kubectl import Kubectl, Object
from tests.e2e.pods import OBEY, run_in_pod
from tests.waiting import wait_until

COORDINATOR = "x-coordinator"

SERVE = """
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["KUBERNETES_POD_NAME"].encode())

port = os.environ.get("COLLECTOR_PORT") or os.environ["LEARNER_PORT"]
http.server.ThreadingHTTPServer(("", int(port)), Handler).serve_forever()
"""
"""Answers on its own port with its own name."""

VISIT = """
import json, time, urllib.request
deadline = time.monotonic() + 240

def visit(address):
    while True:
        try:
            with urllib.request.urlopen(f"http://{{address}}", timeout=2) as answer:
                return answer.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)

print(json.dumps([visit(address) for address in {addresses!r}]))
"""
"""Tells who answers at each address."""

ASK = """
import json, os, urllib.error, urllib.request
base = os.environ["KUBERNETES_SERVER_URL"].replace(":8080", ":{port}")
body = {body!r}
request = urllib.request.Request(
    base + {path!r}, method={method!r}, data=None if body is None else body.encode()
)
try:
    with urllib.request.urlopen(request, timeout=40) as answer:
        print(json.dumps([answer.status, json.load(answer)]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, json.load(error)]))
"""
"""Sends one request to di-server, which may take 30 s for it."""


class Testbed:
    """Job `x` of one namespace, seen from its coordinator and from outside."""

    __test__: ClassVar[bool] = False  # no class of tests, whatever its name begins with

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self._kubectl = kubectl
        self.namespace = namespace

    def start(self, image: str, **spec: Any) -> str:
        """Apply the job and wait until its coordinator runs; returns what kubectl said."""
        serving = template(image=image, program=SERVE)
        templates = {
            "coordinator": template(image=image, program=OBEY),
            "collector": serving,
            "learner": serving,
            **spec.pop("templates", {}),
        }
        body = coordinated("x", namespace=self.namespace, templates=templates, **spec)
        said = self._kubectl.apply(body)
        self.wait_for_phase("Running")
        return said

    def job(self, version: str = "v1alpha1") -> Object:
        return self._kubectl.get(
            f"dijobs.{version}.diengine.opendilab.org", "x", namespace=self.namespace
        )

    def wait_for_phase(self, phase: str) -> None:
        wait_until(
            lambda: self.job().get("status", {}).get("phase") == phase,
            what=f"x is {phase}",
        )

    def ask(
        self,
        method: str,
        path: str = "",
        *,
        version: str = "v1alpha1",
        port: int = 8080,
        **body: Any,
    ) -> Any:
        """di-server's `data` to a request of the coordinator that succeeds.

        For GET `body` has the query, by default the coordinator.
        """
        whole = {"namespace": self.namespace, **(body or {"coordinator": COORDINATOR})}
        where, sent = f"/{version}/replicas{path}", None
        if method == "GET":
            where += "?" + "&".join(f"{key}={value}" for key, value in whole.items())
        else:
            sent = json.dumps({"coordinator": COORDINATOR, **whole})
        program = ASK.format(port=port, body=sent, path=where, method=method)
        status, answer = run_in_pod(self._kubectl, COORDINATOR, program, namespace=self.namespace)
        assert (status, answer["success"], answer["code"]) == (200, True, 0), answer
        return answer["data"]

    def wait_for_collectors(self, accepts: Callable[[list[str]], bool]) -> list[str]:
        """The collectors that di-server lists, once it lists such.

        Each of its replicas hears of the writes of the others a moment later.
        """

        def listed() -> tuple[list[str]]:
            found: list[str] = self.ask("GET")["collectors"]
            assert accepts(found), found
            return (found,)

        (found,) = wait_until(listed, what="di-server to list the collectors")
        return found

    def visit(self, addresses: list[str]) -> list[str]:
        """Who answers the coordinator at these addresses."""
        program = VISIT.format(addresses=addresses)
        found: list[str] = run_in_pod(self._kubectl, COORDINATOR, program, namespace=self.namespace)
        return found

    def pods(self, role: str = "") -> dict[str, Object]:
        """The job's pods by name, all or those of a role."""
        return self._found("pods", role)

    def services(self, role: str = "") -> dict[str, Object]:
        """The job's Services by name."""
        return self._found("services", role)

    def wait_for(self, *names: str) -> None:
        """Wait until the job has these pods and their Services, and no others."""

        def settled() -> bool:
            assert set(self.pods()) == set(names)
            assert set(self.services()) == set(names)
            return True

        wait_until(settled, what=f"pods and Services {', '.join(names)}")

    def _found(self, kind: str, role: str) -> dict[str, Object]:
        selector = f"--selector={LABEL_DIJOB_NAME}=x" + (
            f",{LABEL_REPLICA_TYPE}={role}" if role else ""
        )
        items = self._kubectl.items(kind, selector, namespace=self.namespace)
        return {item["metadata"]["name"]: item for item in items}


def pod_of(address: str) -> str:
    """The pod that an address is of."""
    return address.partition(".")[0]


def variables(pod: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the pod's first container."""
    return {e["name"]: e.get("value", "") for e in pod["spec"]["containers"][0].get("env", [])}


def ports(owner: Mapping[str, Any]) -> dict[str, int]:
    """The ports of a Service, or of a pod's first container, by name."""
    spec = owner["spec"]
    if "containers" in spec:
        return {p["name"]: p["containerPort"] for p in spec["containers"][0]["ports"]}
    return {p["name"]: p["port"] for p in spec["ports"]}
