"""Failures that are seeded on purpose, and what the first line of `di why` has to have for each.

A seed's job is called as its key. Most have one pod of the image that every node has; what is wrong
with it is all that the seed declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from di_api.explain import Cause
from di_api.names import ANNOTATION_RESTART_ATTEMPT
from di_cluster.nodes.simulated import NODE_LABEL
from tests.e2e.jobs import coordinated, job, sleep, task, template

Object = dict[str, Any]
ABSENT: Final = "127.0.0.1:1/none:1"
"""Nobody listens there: the pull is refused at once."""
FOREVER: Final = sleep(3600)
GPU: Final = "nvidia.com/gpu"
_FILLS_MEMORY: Final = "x = bytearray(96 << 20); x[::4096] = b'x' * len(x[::4096])"
_SMALL: Final = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "48Mi"}}
_FALSE: Final = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
_OF_ANOTHER_PROCESSOR: Final = (
    "printf '\\177ELF\\002\\001' > /tmp/learner && chmod +x /tmp/learner && exec /tmp/learner"
)
_ENDS_WELL_ON_SIGTERM: Final = f"""
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
{FOREVER}
"""
_ENDS_WITH_7: Final = ["python3", "-c", "raise SystemExit(7)"]
_REPORTS_ONCE: Final = f"""
import json, os, ssl, time, urllib.request
job = os.environ["DI_SERVER_URL"] + "/v2alpha1/job/" + os.environ["DI_JOB_ID"]
trusted = ssl.create_default_context(cafile=os.environ["DI_SERVER_CA_FILE"])
report = json.dumps({{"step": 62, "totalSteps": 100}}).encode()
while True:
    try:
        urllib.request.urlopen(job + "/profilings", report, 10, context=trusted)
        break
    except OSError:
        time.sleep(0.5)
{FOREVER}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seed:
    """A failure.

    Attributes:
        cause: that has to be found.
        says: words that the first line has to have.
        program: of the learner, the only task.
        container: fields of its container.
        pod: fields of its pod.
        spec: fields of the job.
        init: fields of an init container, if there is to be one.
        needs: a second task, which the learner waits for.
        is_coordinated: the program is a coordinator, started again in its pod.
        beside: objects that are there before the job.
    """

    cause: Cause
    says: str
    program: str = FOREVER
    container: Mapping[str, Any] = field(default_factory=dict)
    pod: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    init: Mapping[str, Any] = field(default_factory=dict)
    needs: Mapping[str, Any] = field(default_factory=dict)
    is_coordinated: bool = False
    beside: Sequence[Object] = ()

    def manifest(self, name: str, *, namespace: str, image: str) -> Object:
        """The job."""
        if self.is_coordinated:
            coordinator = template(image=image, program=self.program)
            coordinator["spec"] |= self.pod
            made: Object = coordinated(
                name, namespace=namespace, templates={"coordinator": coordinator}
            )
            return made
        learner = task("learner", image=image, program=self.program)
        pod = learner["template"]["spec"]
        (container,) = pod["containers"]
        if self.init:
            pod["initContainers"] = [{**container, "name": "prepare", **self.init}]
        container |= self.container
        pod |= self.pod
        tasks = [learner]
        if self.needs:
            first = task("collector", image=image, program=FOREVER)
            first["template"]["spec"]["containers"][0] |= self.needs
            learner["dependsOn"] = ["collector"]
            tasks.append(first)
        found: Object = job(name, namespace=namespace, tasks=tasks, **self.spec)
        return found


def _env(source: str, name: str, key: str) -> Object:
    return {"env": [{"name": "X", "valueFrom": {source: {"name": name, "key": key}}}]}


def _mounted(**volume: Any) -> Object:
    return {
        "container": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
        "pod": {"volumes": [{"name": "data", **volume}]},
    }


def _object(kind: str, name: str, *, version: str = "v1", **fields: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def _required(key: str, value: str) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


_AT_ONCE: Final = {"backoffLimit": 0}
_NO_GROWTH: Final = {"rules": [{"action": "Restart"}]}
_LITTLE_GROWTH: Final = {
    "rules": [
        {
            "onReasons": ["OOMKilled"],
            "action": "RestartTask",
            "growMemory": {"factor": 2, "limit": "48Mi"},
        }
    ]
}
_ENDS_IT: Final = {
    "rules": [{"onExitCodes": {"operator": "In", "values": [42]}, "action": "FailJob"}]
}
_BEGINS_ANEW: Final = {"rules": [{"action": "RestartTask"}]}
_CLAIM: Final = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "none",
    "resources": {"requests": {"storage": "1Gi"}},
}
_OF_SOMEBODY: Final = {
    "containers": [{"name": "c", "image": ABSENT}],
    "nodeSelector": {"no": "such-node"},
}
_NO_PROFILE: Final = {"type": "Localhost", "localhostProfile": "none-such.json"}

SEEDS: Final[Mapping[str, Seed]] = {
    # Images.
    "pull": Seed(cause=Cause.IMAGE, says=ABSENT, container={"image": ABSENT}),
    "never": Seed(
        cause=Cause.IMAGE,
        says="ErrImageNeverPull",
        container={"image": ABSENT, "imagePullPolicy": "Never"},
    ),
    "image-name": Seed(cause=Cause.IMAGE, says="No/Name", container={"image": "No/Name"}),
    "init-image": Seed(
        cause=Cause.IMAGE,
        says="prepare",
        init={"image": ABSENT, "imagePullPolicy": "Never"},
    ),
    "pull-too-long": Seed(
        cause=Cause.IMAGE,
        says=ABSENT,
        container={"image": ABSENT},
        spec={"pendingTimeoutSeconds": 5},
    ),
    # What the containers need.
    "config-map": Seed(
        cause=Cause.CONFIG_MISSING,
        says='configmap "none" not found',
        container=_env("configMapKeyRef", "none", "level"),
    ),
    "secret": Seed(
        cause=Cause.CONFIG_MISSING,
        says='secret "none" not found',
        container=_env("secretKeyRef", "none", "password"),
    ),
    "config-map-key": Seed(
        cause=Cause.CONFIG_MISSING,
        says="couldn't find key level in ConfigMap",
        container=_env("configMapKeyRef", "empty", "level"),
        beside=[_object("ConfigMap", "empty", data={"other": "1"})],
    ),
    "secret-key": Seed(
        cause=Cause.CONFIG_MISSING,
        says="couldn't find key token in Secret",
        container=_env("secretKeyRef", "of-another-key", "token"),
        beside=[_object("Secret", "of-another-key", stringData={"other": "1"})],
    ),
    "config-map-volume": Seed(
        cause=Cause.CONFIG_MISSING,
        says='configmap "none" not found',
        **_mounted(configMap={"name": "none"}),
    ),
    "secret-volume": Seed(
        cause=Cause.CONFIG_MISSING,
        says='secret "none" not found',
        **_mounted(secret={"secretName": "none"}),
    ),
    "claim": Seed(
        cause=Cause.VOLUME,
        says='persistentvolumeclaim "none" not found',
        **_mounted(persistentVolumeClaim={"claimName": "none"}),
    ),
    "unbound": Seed(
        cause=Cause.VOLUME,
        says="claim waits waits for storage class none, which does not exist",
        **_mounted(persistentVolumeClaim={"claimName": "waits"}),
        beside=[_object("PersistentVolumeClaim", "waits", spec=_CLAIM)],
    ),
    "no-folder": Seed(
        cause=Cause.VOLUME,
        says="/no/such/folder",
        **_mounted(hostPath={"path": "/no/such/folder", "type": "Directory"}),
    ),
    # What the pods ask for.
    "quota": Seed(
        cause=Cause.QUOTA,
        says=f"requests.{GPU}",
        container={"resources": {"limits": {GPU: "1"}}},
        beside=[_object("ResourceQuota", "none", spec={"hard": {f"requests.{GPU}": "0"}})],
    ),
    "service-account": Seed(
        cause=Cause.SERVICE_ACCOUNT,
        says='serviceaccount "trainer" not found',
        pod={"serviceAccountName": "trainer"},
    ),
    "priority-class": Seed(
        cause=Cause.REFUSED,
        says="no PriorityClass with name none",
        pod={"priorityClassName": "none"},
    ),
    "cores": Seed(
        cause=Cause.NO_ROOM,
        says="Insufficient cpu",
        container={"resources": {"requests": {"cpu": "4000"}}},
    ),
    "device": Seed(
        cause=Cause.NO_ROOM,
        says="Insufficient example.org/none",
        container={"resources": {"limits": {"example.org/none": "1"}}},
    ),
    "gang": Seed(
        cause=Cause.NO_ROOM,
        says="there is room for 0",
        container={"resources": {"requests": {"cpu": "4000"}}},
        spec={"scheduling": {"gang": True}},
    ),
    "selector": Seed(
        cause=Cause.NO_SUCH_NODE,
        says="node affinity/selector",
        pod={"nodeSelector": {"no": "such-node"}},
    ),
    "affinity": Seed(
        cause=Cause.NO_SUCH_NODE,
        says="node affinity/selector",
        pod=_required("no", "such-node"),
    ),
    "taint": Seed(
        cause=Cause.TAINT,
        says="untolerated taint",
        pod={"nodeSelector": {NODE_LABEL[0]: NODE_LABEL[1]}},
    ),
    "gate": Seed(
        cause=Cause.SCHEDULING_GATE,
        says="gate",
        pod={"schedulingGates": [{"name": "example.org/open"}]},
    ),
    "name-taken": Seed(
        cause=Cause.NAME_TAKEN,
        says="name-taken-learner-0",
        beside=[_object("Pod", "name-taken-learner-0", spec=_OF_SOMEBODY)],
    ),
    "companion-taken": Seed(
        cause=Cause.NAME_TAKEN,
        says="companion-taken-settings",
        spec={"companions": [_object("ConfigMap", "$(JOB)-settings", data={"a": "1"})]},
        beside=[_object("ConfigMap", "companion-taken-settings", data={"a": "2"})],
    ),
    "template": Seed(
        cause=Cause.INVALID_SPEC,
        says="allowPrivilegeEscalation",
        container={"securityContext": {"privileged": True, "allowPrivilegeEscalation": False}},
    ),
    "profile": Seed(
        cause=Cause.NOT_MADE,
        says="none-such.json",
        container={"securityContext": {"seccompProfile": _NO_PROFILE}},
    ),
    # Programs.
    "exit": Seed(
        cause=Cause.BACKOFF_LIMIT, says="exit code 3", program="raise SystemExit(3)", spec=_AT_ONCE
    ),
    "exception": Seed(
        cause=Cause.BACKOFF_LIMIT,
        says="KeyError: 'reward'",
        program="{}['reward']",
        spec=_AT_ONCE,
    ),
    "segmentation-fault": Seed(
        cause=Cause.BACKOFF_LIMIT,
        says="exit code 139",
        program="import ctypes; ctypes.string_at(0)",
        spec=_AT_ONCE,
    ),
    "rule": Seed(
        cause=Cause.FAILURE_RULE,
        says="exit code 42",
        program="raise SystemExit(42)",
        spec={"failurePolicy": _ENDS_IT},
    ),
    "restarted": Seed(
        cause=Cause.PROGRAM_FAILED,
        says="exit code 5",
        program=f"import os\nif not os.environ['ATTEMPT']: raise SystemExit(5)\n{FOREVER}",
        container={
            "env": [
                {
                    "name": "ATTEMPT",
                    "valueFrom": {
                        "fieldRef": {
                            "fieldPath": f"metadata.annotations['{ANNOTATION_RESTART_ATTEMPT}']"
                        }
                    },
                }
            ]
        },
        spec={"failurePolicy": _BEGINS_ANEW},
    ),
    "memory": Seed(
        cause=Cause.OUT_OF_MEMORY,
        says="ran out of memory: its limit is 48Mi",
        program=_FILLS_MEMORY,
        container={"resources": _SMALL},
        spec={**_AT_ONCE, "failurePolicy": _NO_GROWTH},
    ),
    "memory-limit": Seed(
        cause=Cause.OUT_OF_MEMORY,
        says="48Mi of memory",
        program=_FILLS_MEMORY,
        container={"resources": _SMALL},
        spec={"failurePolicy": _LITTLE_GROWTH},
    ),
    "command": Seed(
        cause=Cause.CANNOT_EXECUTE,
        says="trian",
        container={"command": ["trian"]},
        spec=_AT_ONCE,
    ),
    "no-program": Seed(
        cause=Cause.CANNOT_EXECUTE,
        says="permission denied",
        container={"command": ["/etc/passwd"]},
        spec=_AT_ONCE,
    ),
    "shell": Seed(
        cause=Cause.CANNOT_EXECUTE,
        says="trian: not found",
        container={"command": ["sh", "-c", "trian --now"]},
        spec=_AT_ONCE,
    ),
    "init": Seed(
        cause=Cause.INIT_CONTAINER,
        says="prepare",
        init={"command": _ENDS_WITH_7},
        spec=_AT_ONCE,
    ),
    "coordinator": Seed(
        cause=Cause.CRASH_LOOP,
        says="exit code 7",
        program="raise SystemExit(7)",
        pod={"restartPolicy": "Always"},
        is_coordinated=True,
    ),
    "sidecar": Seed(
        cause=Cause.CRASH_LOOP,
        says="prepare",
        init={"command": _ENDS_WITH_7, "restartPolicy": "Always"},
    ),
    "liveness": Seed(
        cause=Cause.PROBE,
        says="Liveness probe failed",
        container={"livenessProbe": _FALSE},
        spec=_AT_ONCE,
    ),
    "readiness": Seed(
        cause=Cause.PROBE, says="Readiness probe failed", container={"readinessProbe": _FALSE}
    ),
    "killed-with-exit-code-0": Seed(
        cause=Cause.PROBE,
        says="Liveness probe failed",
        program=_ENDS_WELL_ON_SIGTERM,
        container={"livenessProbe": {**_FALSE, "initialDelaySeconds": 2}},
        spec=_AT_ONCE,
    ),
    "module": Seed(
        cause=Cause.BACKOFF_LIMIT,
        says="ModuleNotFoundError: No module named 'torch'",
        program="import torch",
        spec=_AT_ONCE,
    ),
    "host-name": Seed(
        cause=Cause.BACKOFF_LIMIT,
        says="host name learner-0.nowhere could not be resolved: socket.gaierror",
        program="import socket; socket.create_connection(('learner-0.nowhere', 80))",
        spec=_AT_ONCE,
    ),
    "processor": Seed(
        cause=Cause.CANNOT_EXECUTE,
        says="is for another processor than that of its node",
        container={"command": ["sh", "-c", _OF_ANOTHER_PROCESSOR]},
        spec=_AT_ONCE,
    ),
    # The job as a whole.
    "at-once": Seed(
        cause=Cause.SUCCEEDED, says="at-once-learner-0 ended with exit code 0 after", program=""
    ),
    "deadline": Seed(cause=Cause.DEADLINE, says="3 seconds", spec={"activeDeadlineSeconds": 3}),
    "pending": Seed(
        cause=Cause.PENDING_TIMEOUT,
        says="0 of at least 1 pod ready",
        container={"readinessProbe": {**_FALSE, "initialDelaySeconds": 3600}},
        spec={"pendingTimeoutSeconds": 5},
    ),
    "hung": Seed(
        cause=Cause.HUNG,
        says="step is 62",
        program=_REPORTS_ONCE,
        spec={"progressPolicy": {"timeoutSeconds": 3, "action": "Notify"}},
    ),
    "depends-on": Seed(
        cause=Cause.DEPENDS_ON,
        says="task learner waits for task collector",
        needs={"readinessProbe": {**_FALSE, "initialDelaySeconds": 3600}},
    ),
    "suspended": Seed(cause=Cause.SUSPENDED, says="is suspended", spec={"suspend": True}),
}
"""By the name of the job."""
WRONG_NAME: Final = "memroy"
"""Asked for, and meant is `memory`: one more seed, without a job."""
