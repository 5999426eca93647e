"""A job changes its own size over REST, a person by kubectl; the pods keep finding each other.

So do those who look for a task by its Service.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from di_api.changed_by import changed_by
from di_api.names import DI_PORT, LABEL_JOB, NODE_HOLE, pod_fqdn
from tests.e2e.examples import EXAMPLES, job_of, wait_for_end, with_image
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import Pod, run_in_pod, wait_for_event, wait_for_pods
from tests.waiting import wait_until

SERVE = f"""
import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())

http.server.ThreadingHTTPServer(("", {DI_PORT}), Handler).serve_forever()
"""
"""Answers on the port of the contract with the pod's own name."""

MEET = f"""
import json, os, time, urllib.request
deadline = time.monotonic() + 240

def visit(node):
    while True:
        try:
            with urllib.request.urlopen(f"http://{{node}}:{DI_PORT}", timeout=60) as answer:
                return answer.read().decode()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)

nodes = os.environ["DI_NODES"].split(",")
print(json.dumps([visit(node) if node != "{NODE_HOLE}" else "" for node in nodes]))
"""
"""Visits each address of DI_NODES and tells who answered there."""

LISTEN = """
import http.server, os, threading

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["DI_TASK_NAME"].encode())

def serve(port):
    http.server.ThreadingHTTPServer(("", int(port)), Handler).serve_forever()

if os.environ["DI_TASK_NAME"] == "learner":
    threading.Thread(target=serve, args=[os.environ["DI_PORT_MEETING"]], daemon=True).start()
serve(os.environ["DI_PORT_RPC"])
"""
"""Answers on its own port with the name of its task; a learner on that of the job as well."""

CALL = """
import json, os, urllib.request
url = "http://" + os.environ["DI_LEARNER_NODES"] + ":" + os.environ["DI_PORT_MEETING"]
try:
    print(json.dumps(urllib.request.urlopen(url, timeout=60).read().decode()))
except OSError as error:
    print(json.dumps(str(error)))
"""
"""Who answers where a learner is to listen."""

REPLICAS = """
import json, os, ssl, urllib.error, urllib.request
trust = ssl.create_default_context(cafile=os.environ["DI_SERVER_CA_FILE"])
job = {job!r} or os.environ["DI_JOB_ID"]
request = urllib.request.Request(
    os.environ["DI_SERVER_URL"] + "/v2alpha1/job/" + job + "/replicas",
    method={method!r},
    data={body!r}.encode(),
    headers={headers!r},
)
try:
    with urllib.request.urlopen(request, timeout=60, context=trust) as answer:
        print(json.dumps([answer.status, json.load(answer)["data"]]))
except urllib.error.HTTPError as error:
    print(json.dumps([error.code, json.load(error)["message"]]))
"""

MEMBER = """
import http.client, json, os, socket, ssl, time, urllib.parse
url = urllib.parse.urlsplit(os.environ["DI_SERVER_URL"])
peers = url.hostname.replace("di-server.", "di-server-peers.", 1)
path = "/v2alpha1/job/" + os.environ["DI_JOB_ID"] + "/members"
deadline = time.monotonic() + 240

def ask(ip, method, path, body):
    trust = ssl.create_default_context(cafile=os.environ["DI_SERVER_CA_FILE"])
    connection = http.client.HTTPSConnection(url.hostname, url.port)
    plain = socket.create_connection((ip, url.port), 10)
    connection.sock = trust.wrap_socket(plain, server_hostname=url.hostname)
    connection.request(method, path, body)
    return json.load(connection.getresponse())["data"]

def said():
    found = socket.getaddrinfo(peers, url.port, type=socket.SOCK_STREAM)
    ips = sorted({each[4][0] for each in found})
    ask(ips[0], "PUT", path + "/" + os.environ["HOSTNAME"], json.dumps({"url": "http://me"}))
    return [[each["pod"] for each in ask(ip, "GET", path, None)["members"]] for ip in ips]

while True:
    try:
        answers = said()
        # A replica that goes is there for a while, and its name for longer.
        if len(answers) == 2 and all(answers) or time.monotonic() > deadline:
            break
    except OSError:
        if time.monotonic() > deadline:
            raise
    time.sleep(0.5)
print(json.dumps(answers))
"""
"""Tells one replica of di-server that it is there, and asks all of them."""


def start(kubectl: Kubectl, namespace: str, image: str, **replicas: int) -> dict[str, Pod]:
    """Run job `x` of pods that answer; returns them."""
    kubectl.apply(
        job(
            "x",
            namespace=namespace,
            tasks=[
                task(kind, image=image, program=SERVE, replicas=count)
                for kind, count in replicas.items()
            ],
        )
    )
    return wait_for_pods(kubectl, "x", *names(**replicas), namespace=namespace)


def names(**replicas: int) -> list[str]:
    return [f"x-{kind}-{index}" for kind, count in replicas.items() for index in range(count)]


def rest(
    kubectl: Kubectl,
    namespace: str,
    method: str,
    body: dict[str, Any] | None = None,
    *,
    pod: str = "x-learner-0",
    job: str = "",
    key: str = "",
) -> tuple[int, Any]:
    """Status and data (or message) of di-server's answer to a pod that asks for its replicas."""
    headers = {"Idempotency-Key": key} if key else {}
    program = REPLICAS.format(job=job, method=method, body=json.dumps(body or {}), headers=headers)
    status, answer = run_in_pod(kubectl, pod, program, namespace=namespace)
    return status, answer


def ranks(pods: dict[str, Pod]) -> dict[str, int]:
    return {name: pod.rank for name, pod in pods.items()}


def fqdns(namespace: str, *pods: str) -> list[str]:
    return [pod_fqdn(pod, "x", namespace) if pod else NODE_HOLE for pod in pods]


def test_a_pod_scales_its_own_job_and_nobody_is_disturbed(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    before = start(kubectl, namespace, python_image, learner=1, collector=1)
    assert rest(kubectl, namespace, "POST", {"task": "collector", "replicas": 2}, key="more") == (
        *(200,),
        {"task": "collector", "replicas": 3},
    )
    # The same request once more, as after a lost answer.
    assert rest(kubectl, namespace, "POST", {"task": "collector", "replicas": 2}, key="more") == (
        *(200,),
        {"task": "collector", "replicas": 3},
    )
    grown = wait_for_pods(kubectl, "x", *names(learner=1, collector=3), namespace=namespace)
    assert {name: grown[name].uid for name in before} == {n: p.uid for n, p in before.items()}
    everyone = ["x-learner-0", "x-collector-0", "x-collector-1", "x-collector-2"]
    assert ranks(grown) == {name: rank for rank, name in enumerate(everyone)}
    newest = grown["x-collector-2"]
    assert newest.nodes == fqdns(namespace, *everyone)
    assert newest.environment["DI_COLLECTOR_NODES"].split(",") == newest.nodes[1:]
    assert run_in_pod(kubectl, newest.name, MEET, namespace=namespace) == everyone
    assert rest(kubectl, namespace, "GET") == (
        *(200,),
        [f"{grown[name].address}:{DI_PORT}" for name in everyone],
    )

    # What one replica of di-server is told the other one knows.
    answers = run_in_pod(kubectl, newest.name, MEMBER, namespace=namespace)
    assert answers == [[newest.name]] * 2

    status, _ = rest(kubectl, namespace, "DELETE", {"task": "collector", "replicas": 2})
    assert status == 200
    shrunk = wait_for_pods(kubectl, "x", *names(learner=1, collector=1), namespace=namespace)
    assert {n: p.uid for n, p in shrunk.items()} == {n: p.uid for n, p in before.items()}
    job = kubectl.get("dijob", "x", namespace=namespace)
    assert (job["status"]["reschedules"], job["status"].get("restarts", 0)) == (2, 0)
    # The webhook takes di-server's word for who that was.
    assert changed_by(job).startswith("pod x-")
    for change in ("from 1 to 3", "from 3 to 1"):
        wait_for_event(kubectl, "x", f"collector {change}", namespace=namespace)


def test_a_task_is_found_by_its_service_which_lists_only_who_is_ready(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """The learner asks on a new connection each time, and fails if a judge answers too early."""
    judged = yaml.safe_load((EXAMPLES / "roles" / "judge.yaml").read_text())
    kubectl.apply(with_image(judged, image=python_image, namespace=namespace))
    wait_for_end(kubectl, "judged", namespace=namespace)

    said = kubectl.logs("judged-learner-0", namespace=namespace).splitlines()
    assert said[-1] == "judged by judged-judge-0 judged-judge-1"
    assert kubectl.phase("judged", namespace=namespace) == "Succeeded"

    def gone() -> bool:
        mine = f"--selector={LABEL_JOB}=judged"
        assert kubectl.items("services", mine, namespace=namespace) == []
        return True

    wait_until(gone, what="the job's Services to be gone")


def test_a_job_runs_without_its_elastic_tier(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """No node is of the kind that the tier asks for."""
    spot, tiers = yaml.safe_load_all((EXAMPLES / "roles" / "elastic.yaml").read_text())
    kubectl.apply(spot)
    try:
        kubectl.apply(with_image(tiers, image=python_image, namespace=namespace))
        wait_for_end(kubectl, "tiers", namespace=namespace)
    finally:
        kubectl("delete", "priorityclass", spot["metadata"]["name"])
    assert kubectl.phase("tiers", namespace=namespace) == "Succeeded"
    said = kubectl.logs("tiers-worker-0", namespace=namespace).splitlines()
    assert said[-1] == "core 9"


@pytest.mark.extended
def test_no_request_is_lost_while_engines_come_and_go(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """The learner scales them twenty times, and fails if one request of it was not answered."""
    drained = yaml.safe_load((EXAMPLES / "roles" / "drain.yaml").read_text())
    kubectl.apply(with_image(drained, image=python_image, namespace=namespace))
    wait_for_end(kubectl, "drained", namespace=namespace)

    said = kubectl.logs("drained-learner-0", namespace=namespace).splitlines()
    # Four at first, and two each time that it scales up again.
    assert said[-1].startswith("14 engines answered"), said[-5:]
    assert said[-1].endswith("requests, 0 were lost")
    assert kubectl.phase("drained", namespace=namespace) == "Succeeded"


def test_pods_on_the_network_of_one_node_listen_on_different_ports(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    """Each serves on its own number, and all find the one of the job that only the first has."""
    rpc, meeting = {"name": "rpc"}, {"name": "meeting", "scope": "Job"}
    first = task("learner", image=python_image, program=LISTEN, ports=[rpc, meeting])
    others = task("collector", image=python_image, program=LISTEN, replicas=2, ports=[rpc])
    for each in (first, others):
        each["template"]["spec"] |= {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
    kubectl.apply(job("x", namespace=namespace, tasks=[first, others]))

    pods = wait_for_pods(
        kubectl, "x", "x-learner-0", "x-collector-0", "x-collector-1", namespace=namespace
    )

    assert len({pod.environment["DI_PORT_RPC"] for pod in pods.values()}) == 3
    wait_until(
        lambda: run_in_pod(kubectl, "x-collector-1", CALL, namespace=namespace) == "learner",
        what="the first pod to listen at the job's port",
    )


def test_the_pods_of_a_replica_find_their_own_leader(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    kubectl.apply(job_of("replicas", image=python_image, namespace=namespace))
    wait_for_end(kubectl, "replicas", namespace=namespace)
    assert kubectl.phase("replicas", namespace=namespace) == "Succeeded"
    said = {
        pod: kubectl("--namespace", namespace, "logs", pod).splitlines()[-1]
        for pod in ("replicas-rollout-0-1", "replicas-rollout-1-1")
    }
    assert said == {"replicas-rollout-0-1": "engine 0", "replicas-rollout-1-1": "engine 1"}
