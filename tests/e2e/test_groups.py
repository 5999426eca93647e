"""An elastic group whose programs know no framework: they ask di-server who belongs to it."""

from __future__ import annotations

import json
from typing import Any

from di_api.names import DI_PORT
from tests.e2e.jobs import job, task
from tests.e2e.kubectl import Kubectl
from tests.e2e.pods import run_in_pod, wait_for_pods
from tests.e2e.test_scaling import rest
from tests.waiting import wait_until

MEMBER = f"""
import http.server, json, os, ssl, threading, time, urllib.request

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ["HOSTNAME"].encode())

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("", {DI_PORT}), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
trust = ssl.create_default_context(cafile=os.environ["DI_SERVER_CA_FILE"])
base, group = os.environ["DI_SERVER_URL"], os.environ["DI_TASK_NAME"]
url = f"{{base}}/v2alpha1/job/{{os.environ['DI_JOB_ID']}}/group/{{group}}"

def ask(known):
    with open(os.environ["DI_SERVER_TOKEN_FILE"]) as file:
        headers = {{"Authorization": "Bearer " + file.read()}}
    request = urllib.request.Request(f"{{url}}?generation={{known}}&wait=20", headers=headers)
    with urllib.request.urlopen(request, timeout=40, context=trust) as answer:
        return json.load(answer)["data"]

def visit(address):
    with urllib.request.urlopen(f"http://{{address}}:{DI_PORT}", timeout=5) as answer:
        return answer.read().decode()

known = 0
while True:
    try:
        world = ask(known)
        if not world["members"] or world["generation"] == known:
            time.sleep(1)
            continue
        met = [visit(member["address"]) for member in world["members"]]
    except OSError:
        # Somebody has gone meanwhile, or the server is not there yet.
        time.sleep(0.3)
        continue
    known = world["generation"]
    print(json.dumps({{"generation": known, "met": met}}), flush=True)
"""
"""Meets, in each world that it is told of, all the others at their addresses."""

READ = """
import json, os
print(open(os.environ["DI_GROUP_FILE"]).read().strip())
"""


def worlds(kubectl: Kubectl, namespace: str, pod: str) -> list[dict[str, Any]]:
    """Those that a member has met in."""
    return [json.loads(line) for line in kubectl.logs(pod, namespace=namespace).splitlines()]


def wait_for_world(kubectl: Kubectl, namespace: str, *indexes: int, after: int = 0) -> int:
    """Wait until these have met in one world, past a generation; returns its generation."""
    names = [f"x-learner-{index}" for index in indexes]

    def met() -> int:
        last = {name: worlds(kubectl, namespace, name)[-1] for name in names}
        generations = {each["generation"] for each in last.values()}
        assert len(generations) == 1, last
        assert all(each["met"] == names for each in last.values()), last
        (generation,) = generations
        assert generation > after, last
        return int(generation)

    return wait_until(met, 60, what=f"a world of {', '.join(names)}", every=0.5)


def test_members_meet_anew_whenever_one_comes_or_goes_and_who_stays_keeps_its_pod(
    kubectl: Kubectl, namespace: str, python_image: str
) -> None:
    group = {"elastic": True, "lastCallSeconds": 5}
    learner = task(
        "learner",
        image=python_image,
        program=MEMBER,
        replicas=2,
        minReplicas=2,
        maxReplicas=4,
        processGroup=group,
    )
    kubectl.apply(job("x", namespace=namespace, tasks=[learner]))
    first = wait_for_pods(kubectl, "x", "x-learner-0", "x-learner-1", namespace=namespace)
    generation = wait_for_world(kubectl, namespace, 0, 1)
    told = run_in_pod(kubectl, "x-learner-0", READ, namespace=namespace)
    # The kubelet brings the file of a world within a minute or so; here it is that it is there.
    assert set(told) == {"generation", "state", "worldSize", "masterAddress", "members"}

    status, _ = rest(kubectl, namespace, "POST", {"task": "learner", "replicas": 1})
    assert status == 200
    generation = wait_for_world(kubectl, namespace, 0, 1, 2, after=generation)

    kubectl("--namespace", namespace, "delete", "pod", "x-learner-1", "--wait=false")
    three = [f"x-learner-{index}" for index in range(3)]

    def replaced() -> bool:
        found = kubectl.get("pod", "x-learner-1", namespace=namespace)["metadata"]["uid"]
        assert found != first["x-learner-1"].uid
        return True

    wait_until(replaced, 60, what="another pod x-learner-1", every=0.3)
    after = wait_for_pods(kubectl, "x", *three, namespace=namespace)
    assert after["x-learner-0"].uid == first["x-learner-0"].uid
    generation = wait_for_world(kubectl, namespace, 0, 1, 2, after=generation)

    status, _ = rest(kubectl, namespace, "DELETE", {"task": "learner", "replicas": 1})
    assert status == 200
    wait_for_world(kubectl, namespace, 0, 1, after=generation)
    left = wait_for_pods(kubectl, "x", *three[:2], namespace=namespace)
    assert {name: left[name].uid for name in three[:2]} == {n: after[n].uid for n in three[:2]}
    found = kubectl.get("dijob", "x", namespace=namespace)["status"]
    assert sorted(found["groups"]["learner"]["members"]) == ["0", "1"]
    assert found.get("restarts", 0) == 0
