"""Jobs of tiny programs, by the operator's own rules."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from di_api.spec import Framework
from di_kube.resources import CONFIGMAPS, DIJOBS, PODS
from di_local.report_interval import REPORT_SECONDS
from di_orchestrator.training_run.sender import interval_of
from tests.unit.local.machine import FOR_EVER, Machine, job, played, task


@played
async def test_a_job_succeeds_with_its_learner(here: Machine) -> None:
    here.submit(job(task("print('done')"), task(FOR_EVER, "collector", replicas=2)))
    status = await here.ended()
    assert status["phase"] == "Succeeded"
    await here.kubelet.idle()
    assert here.kubelet.running == 0


@played
async def test_pods_get_their_rank_and_the_addresses_of_others(here: Machine) -> None:
    program = (
        "import json, os, pathlib, socket, time\n"
        "own = os.environ['DI_NODES'].split(',')[int(os.environ['DI_RANK'])]\n"
        "socket.create_server((own, 22270))\n"
        "keys = [key for key in os.environ if key.startswith('DI_') or key == 'HOSTNAME']\n"
        "print(json.dumps({key: os.environ[key] for key in keys}), flush=True)\n"
    )
    spoken = str(here.folder / "spoken")
    # The job ends with its learner, so the learner waits for the collector's output.
    collect = f"{program}pathlib.Path({spoken!r} + os.environ['DI_TASK_RANK']).touch()"
    learn = f"{program}while not pathlib.Path({spoken!r} + '1').exists(): time.sleep(0.01)"
    here.submit(job(task(learn), task(collect, "collector", replicas=2)))
    assert (await here.ended())["phase"] == "Succeeded"
    await here.kubelet.idle()
    told = [json.loads(here.said(f"tiny-{name}")) for name in ("learner-0", "collector-1")]
    assert [each["DI_RANK"] for each in told] == ["0", "2"]
    assert told[0]["DI_NODES"] == told[1]["DI_NODES"]
    nodes = told[0]["DI_NODES"].split(",")
    assert len(set(nodes)) == 3
    assert all(node.startswith("127.") for node in nodes)
    assert told[1]["DI_COLLECTOR_NODES"].split(",") == nodes[1:]
    assert told[1]["HOSTNAME"] == "tiny-collector-1"
    # Of this variable, the interval of a pod's reports.
    assert interval_of(told[0]) == REPORT_SECONDS


@played
async def test_variables_of_frameworks_have_addresses_in_place_of_names(here: Machine) -> None:
    program = "import json, os; print(json.dumps(dict(os.environ)), flush=True)"
    frameworks = [each for each in Framework if each not in (Framework.NONE, Framework.MPI)]
    tasks = [
        # The name is the role in a cluster of TensorFlow.
        task(program, name="worker" if each is Framework.TENSORFLOW else each.value, replicas=2)
        | {"processGroup": {"framework": each.value}}
        for each in frameworks
    ]
    here.submit(job(*tasks))
    assert (await here.ended())["phase"] == "Succeeded"
    await here.kubelet.idle()
    for each in tasks:
        told = json.loads(here.said(f"tiny-{each['name']}-1"))
        ours = {key: value for key, value in told.items() if ".svc" in value or ".di-tiny" in value}
        assert ours == {}
        assert any("127." in value for key, value in told.items() if not key.startswith("DI_"))


# It starts a process in each pod as mpirun does: by what the host file and the variables name.
_MPIRUN = """
for host in $(cut -d' ' -f1 "$OMPI_MCA_orte_default_hostfile"); do
  "$OMPI_MCA_plm_rsh_agent" -x $host 'read word; echo "$word $DI_TASK_RANK"; exit 3' << END
process
END
  echo "code $?"
done
"""
_IN_THE_LAST = """
for host in $(cut -d' ' -f1 "$OMPI_MCA_orte_default_hostfile"); do last=$host; done
"$OMPI_MCA_plm_rsh_agent" "$last" 'echo $$$$; exec sleep 3600'
"""


@played
@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/groups-of-mpi")
async def test_a_group_of_mpi_starts_processes_in_each_pod(here: Machine) -> None:
    of = task(["sh", "-c", _MPIRUN], replicas=2, processGroup={"framework": "mpi"})
    here.submit(job(of))
    found = await here.ended()
    said = here.said("tiny-learner-0")
    assert said.splitlines() == ["process 0", "code 3", "process 1", "code 3"]
    assert found["phase"] == "Succeeded"


@played
async def test_a_pod_of_mpi_that_is_deleted_ends_its_processes(here: Machine) -> None:
    here.submit(
        job(task(["sh", "-c", _IN_THE_LAST], replicas=2, processGroup={"framework": "mpi"}))
    )
    await here.until(lambda: here.said("tiny-learner-0").endswith("\n"))
    pid = int(here.said("tiny-learner-0"))
    here.objects.delete(PODS, "default", "tiny-learner-1")
    await here.until(lambda: not _lives(pid))


@played
async def test_a_failed_pod_is_replaced_and_counted(here: Machine) -> None:
    program = "import os, sys; sys.exit(0 if os.environ.get('DI_RESTARTS') == '1' else 3)"
    here.submit(job(task(program), backoffLimit=1))
    status = await here.ended()
    assert (status["phase"], status["restarts"]) == ("Succeeded", 1)


@played
async def test_a_job_fails_when_its_restarts_are_used(here: Machine) -> None:
    here.submit(job(task("import sys; sys.exit(3)"), backoffLimit=1))
    status = await here.ended()
    assert (status["phase"], status["restarts"]) == ("Failed", 1)
    failed = next(each for each in status["conditions"] if each["type"] == "Failed")
    assert "exit code 3" in failed["message"]


@played
async def test_a_task_waits_for_its_dependency(here: Machine) -> None:
    probe = _once_there(here.folder / "ready")
    first = task(FOR_EVER, "collector", pod={"container": {"readinessProbe": probe}})
    here.submit(job(first, task("print('here')", dependsOn=["collector"])))
    await here.until(lambda: len(here.pods()) == 1 and _phase(here.pods()[0]) == "Running")
    (here.folder / "ready").touch()
    assert (await here.ended())["phase"] == "Succeeded"
    made = [each.after for each in here.changes if each.plural == "pods" and not each.before]
    assert [each and each["metadata"]["name"] for each in made] == [
        "tiny-collector-0",
        "tiny-learner-0",
    ]


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/restartpolicy-onfailure-the-rule"
)
@played
async def test_a_failure_rule_restarts_a_container_in_its_pod(here: Machine) -> None:
    program = (
        "import os, pathlib, sys\n"
        "f = pathlib.Path(os.environ['STATE'], 'tries')\n"
        "n = len(f.read_text()) if f.exists() else 0\n"
        "f.write_text('x' * (n + 1)); sys.exit(0 if n == 2 else 1)"
    )
    pod = {
        "volumes": [{"name": "state", "emptyDir": {}}],
        "container": {
            "env": [{"name": "STATE", "value": "/state"}],
            "volumeMounts": [{"name": "state", "mountPath": "/state"}],
        },
    }
    rules = {"rules": [{"tasks": ["learner"], "action": "RestartInPlace"}]}
    here.submit(job(task(program, pod=pod), failurePolicy=rules, backoffLimit=5))
    status = await here.ended()
    assert status["phase"] == "Succeeded"
    made = [each for each in here.changes if each.plural == "pods" and each.before is None]
    assert len(made) == 1


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/init-containers-readiness-probes-prestop"
)
@played
async def test_a_pod_is_ready_when_its_probe_succeeds(here: Machine) -> None:
    flag = here.folder / "ready"
    probe = _once_there(flag)
    here.submit(job(task(FOR_EVER, pod={"container": {"readinessProbe": probe}})))
    await here.until(lambda: _phase(here.pod("tiny-learner-0")) == "Running")
    assert not here.is_ready("tiny-learner-0")
    flag.touch()
    await here.until(lambda: here.is_ready("tiny-learner-0"))


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/init-containers-readiness-probes-prestop"
)
@played
async def test_a_pod_whose_init_container_fails_has_failed(here: Machine) -> None:
    init = [{"name": "first", "image": "none", "command": ["false"]}]
    here.submit(job(task("print('too far')", pod={"initContainers": init})))
    assert (await here.ended())["phase"] == "Failed"
    assert here.said("tiny-learner-0") == ""


@played
async def test_scaling_starts_pods_and_ends_them_gracefully(here: Machine) -> None:
    leaving = f"import pathlib, signal, sys; f = pathlib.Path({str(here.folder / 'left')!r})\n" + (
        "signal.signal(signal.SIGTERM, lambda *_: (f.touch(), sys.exit(0)))\n"
        "print('here', flush=True); signal.pause()"
    )

    def scaled(here: Machine, replicas: int) -> None:
        found = json.loads(json.dumps(here.job()))
        found["spec"]["tasks"][1]["replicas"] = replicas
        here.objects.replace(DIJOBS, "default", "tiny", found)

    here.submit(job(task(FOR_EVER), task(leaving, "collector", maxReplicas=4)))
    await here.until(lambda: here.is_ready("tiny-collector-0"))
    scaled(here, 2)
    await here.until(lambda: here.is_ready("tiny-collector-1"))
    await here.until(lambda: here.said("tiny-collector-1"))
    scaled(here, 1)
    await here.until(lambda: here.pod("tiny-collector-1") is None)
    assert (here.folder / "left").exists()


@played
async def test_a_requested_restart_replaces_the_tasks_pods(here: Machine) -> None:
    here.submit(job(task(FOR_EVER), task(FOR_EVER, "collector"), backoffLimit=0))
    names = ("tiny-learner-0", "tiny-collector-0")
    await here.until(lambda: (here.job().get("status") or {}).get("phase") == "Running")
    old = {name: (here.pod(name) or {})["metadata"]["uid"] for name in names}
    found = json.loads(json.dumps(here.job()))
    found["spec"]["tasks"][1]["restartedAt"] = "2026-03-01T12:00:00Z"
    here.objects.replace(DIJOBS, "default", "tiny", found)

    def is_anew() -> bool:
        pod = here.pod("tiny-collector-0")
        return pod is not None and pod["metadata"]["uid"] != old["tiny-collector-0"]

    await here.until(lambda: is_anew() and here.is_ready("tiny-collector-0"))
    assert (here.pod("tiny-learner-0") or {})["metadata"]["uid"] == old["tiny-learner-0"]
    assert here.job()["status"]["restarts"] == 0


@played
async def test_after_the_grace_period_a_process_is_killed_with_its_children(here: Machine) -> None:
    program = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-S', '-c', {FOR_EVER!r}])\n"
        "print(child.pid, flush=True); child.wait()"
    )
    here.submit(job(task(program, pod={"terminationGracePeriodSeconds": 1})))
    await here.until(lambda: here.said("tiny-learner-0").endswith("\n"))
    pid = int(here.said("tiny-learner-0"))
    here.objects.delete(DIJOBS, "default", "tiny")
    await here.until(lambda: here.pod("tiny-learner-0") is None)
    # It has been killed, which takes a moment.
    await here.until(lambda: not _lives(pid))


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/init-containers-readiness-probes-prestop"
)
@played
async def test_a_pre_stop_hook_runs_before_the_end(here: Machine) -> None:
    hook = {"preStop": {"exec": {"command": ["touch", str(here.folder / "asked")]}}}
    here.submit(job(task(FOR_EVER, pod={"container": {"lifecycle": hook}})))
    await here.until(lambda: here.is_ready("tiny-learner-0"))
    await here.kubelet.end()
    assert (here.folder / "asked").exists()


@played
async def test_pods_created_after_the_end_do_not_run(here: Machine) -> None:
    here.submit(job(task(FOR_EVER)))
    await here.until(lambda: here.is_ready("tiny-learner-0"))
    first = here.pods()[0]["metadata"]["uid"]
    await here.kubelet.end(at_once=True)
    await here.until(lambda: here.pods() and here.pods()[0]["metadata"]["uid"] != first)
    assert here.kubelet.running == 0
    assert _phase(here.pods()[0]) == "Pending"


@pytest.mark.proves(
    "local.md#what-is-as-in-a-cluster-and-what-is-not/emptydir-configmap-secret-projected"
)
@played
async def test_a_mounted_configmap_is_updated(here: Machine) -> None:
    configmap = {
        "metadata": {"name": "settings", "namespace": "default"},
        "data": {"rate": "1", "peer": "tiny-learner-0.di-tiny.default.svc.cluster.local:1"},
    }
    pod = {
        "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
        "container": {
            "args": ["/etc/settings/rate"],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        },
    }
    made = here.objects.create(CONFIGMAPS, configmap)
    here.submit(job(task("import sys; print(sys.argv[1], flush=True)\n" + FOR_EVER, pod=pod)))
    await here.until(lambda: here.is_ready("tiny-learner-0"))
    await here.until(lambda: here.said("tiny-learner-0").endswith("\n"))
    file = Path(here.said("tiny-learner-0").strip())
    assert file.read_text() == "1"
    assert (file.parent / "peer").read_text().startswith("127.")
    changed = {**made, "data": {"rate": "2"}}
    here.objects.replace(CONFIGMAPS, "default", "settings", changed)
    assert file.read_text() == "2"


@played
async def test_a_missing_command_is_in_the_log(here: Machine) -> None:
    here.submit(job(task(["no-such-command"])))
    status = await here.ended()
    failed = next(each for each in status["conditions"] if each["type"] == "Failed")
    assert "exit code 127" in failed["message"]
    assert "no-such-command" in here.said("tiny-learner-0")


@pytest.mark.proves("local.md#what-is-as-in-a-cluster-and-what-is-not/ports")
@played
async def test_python_programs_on_all_addresses_may_use_the_same_port(here: Machine) -> None:
    # As programs of users are started, with their site packages.
    program = "import socket, signal; kept = socket.create_server(('', 22270))\n" + FOR_EVER
    command = [sys.executable, "-c", program.replace("\n", "; ")]
    here.submit(job(task(command), task(command, "collector")))
    await here.until(lambda: len(here.pods()) == 2 and all(map(_address, here.pods())))
    for pod in here.pods():
        await _connected(_address(pod))


async def _connected(address: str) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(address, 22270)
        except ConnectionRefusedError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return


def _once_there(path: Path) -> dict[str, Any]:
    """A probe that waits for a file; a failed probe would be repeated a second later."""
    wait = f"until test -e {path}; do sleep 0.02; done"
    return {"exec": {"command": ["sh", "-c", wait]}, "timeoutSeconds": 60}


def _phase(pod: dict[str, Any] | None) -> str:
    return str(((pod or {}).get("status") or {}).get("phase"))


def _address(pod: dict[str, Any]) -> str:
    found: str = (pod.get("status") or {}).get("podIP", "")
    return found


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
