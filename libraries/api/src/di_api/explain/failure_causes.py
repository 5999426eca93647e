"""Table of failure causes; the first row that matches an observation decides.

The texts are those of Kubernetes 1.30 and newer: reasons of kubelet and scheduler
(https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/), messages of admission.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from di_api.explain.cause import Cause
from di_api.explain.observations import Observation, Source

_SAID: Final = frozenset({Source.CONDITION, Source.SCHEDULER, Source.EVENT, Source.WAITING})
_DISRUPTED: Final = frozenset({Source.POD, Source.EVENT, Source.CONDITION})
_OF_ENDS: Final = frozenset({Source.ENDED, Source.CONDITION})


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureCause:
    """A row: the observations that it matches, and the explanation.

    An observation matches by its reason, its exit code or its text. Summary and remedy can insert
    its fields.
    """

    cause: Cause
    summary: str
    remedy: str
    reasons: frozenset[str] = frozenset()
    pattern: str = ""
    codes: frozenset[int] = frozenset()
    sources: frozenset[Source] = frozenset(Source) - {Source.LOG}
    is_init: bool | None = None
    is_beside: bool = False
    unless: str = ""
    """Pattern of texts that exclude the row."""
    is_program: bool = False
    """Whether the log of the program has the cause, and not the observation's own message."""

    def fits(self, seen: Observation) -> bool:
        """Return whether the row matches the observation."""
        if seen.source not in self.sources or self.is_init not in (None, seen.is_init):
            return False
        if seen.is_beside is not self.is_beside:
            return False
        if self.unless and re.search(self.unless, seen.message, re.IGNORECASE):
            return False
        return (
            seen.reason in self.reasons
            or (seen.exit_code is not None and seen.exit_code in self.codes)
            or bool(self.pattern and re.search(self.pattern, seen.message, re.IGNORECASE))
        )


def _of(*words: str) -> frozenset[str]:
    return frozenset(words)


FAILURE_CAUSES: Final = (
    FailureCause(
        cause=Cause.SIDECAR,
        pattern=r"^",
        is_beside=True,
        summary="container {container} of {pod} has ended, and its program runs on",
        remedy="kubectl logs {pod} -c {container} -n {namespace}: correct what ended it; as an "
        "init container with restartPolicy Always the node starts it again",
    ),
    FailureCause(
        cause=Cause.SIDECAR,
        reasons=_of("SidecarEnded"),
        sources=_SAID,
        summary="a container beside the program of {pod} has ended, and the program runs on",
        remedy="kubectl logs {pod} -c CONTAINER -n {namespace}: correct what ended it",
    ),
    FailureCause(
        cause=Cause.NO_SUCH_NODE,
        reasons=_of("NodeNotFound"),
        pattern=r"binds it to node \S+, which does not exist",
        sources=frozenset({Source.CONDITION, Source.EVENT}),
        summary="{pod} is bound to node {node}, and there is no such node",
        remedy="correct nodeName in the template of its task, or leave it out and use nodeSelector",
    ),
    FailureCause(
        cause=Cause.DEADLINE,
        pattern=r"active on the node longer than the specified deadline",
        sources=_DISRUPTED,
        summary="the node ended {pod} for the activeDeadlineSeconds of its template",
        remedy="raise activeDeadlineSeconds of the template, or leave it out: the job and each "
        "task have one of their own",
    ),
    FailureCause(
        cause=Cause.OVER_LIMIT,
        pattern=r"exceeds the (total )?limit|exceeded its local ephemeral storage limit",
        sources=_DISRUPTED,
        summary="{pod} was evicted because it used more disk than its own limit",
        remedy="have it write less, or raise the limit that is named (sizeLimit of the volume, "
        "ephemeral-storage of the container)",
    ),
    FailureCause(
        cause=Cause.OUT_OF_MEMORY,
        reasons=_of("OOMKilled", "OOMLimit"),
        pattern=r"OOM-?killed",
        sources=_OF_ENDS,
        summary="{pod} ran out of memory",
        remedy="raise the memory limit of its task, or let failurePolicy.rules grow it "
        "(growMemory.limit); if it grows without bound, bound the buffer that does",
    ),
    FailureCause(
        cause=Cause.PREEMPTED,
        reasons=_of("PreemptionByScheduler", "Preempting", "Preempted"),
        sources=_DISRUPTED,
        summary="{pod} had to make way for a pod of higher priority",
        remedy="it is created again when a node has free capacity; a higher priorityClassName, or "
        "fewer jobs at once, keeps it there",
    ),
    FailureCause(
        cause=Cause.NODE_LOST,
        reasons=_of(
            "NodeLost",
            "NodeNotReady",
            "NodeGone",
            "DeletionByTaintManager",
            "DeletionByPodGC",
            "TaintManagerEviction",
        ),
        sources=_DISRUPTED | {Source.NODE},
        summary="the node {node} of {pod} is lost",
        remedy="the job goes on by itself on another node; kubectl describe node {node}",
    ),
    FailureCause(
        cause=Cause.EVICTED,
        reasons=_of("Evicted", "EvictionByEvictionAPI", "TerminationByKubelet"),
        sources=_DISRUPTED,
        summary="{pod} was evicted from its node",
        remedy="it is created again by itself; if the node ran out of memory or disk, request what "
        "it uses (resources.requests), if it was drained, there is nothing to do",
    ),
    FailureCause(
        cause=Cause.REJECTED,
        reasons=_of("PodRejected"),
        sources=_DISRUPTED,
        summary="{pod} was refused by its node before any of its containers ran",
        remedy="the node's message has what it lacks: correct nodeName, nodeSelector or the "
        "requests of its task; the pod is created again after growing delays",
    ),
    FailureCause(
        cause=Cause.IMAGE,
        reasons=_of("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
        pattern=r"ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|"
        r"failed to pull image",
        sources=_SAID,
        summary="the image of {pod} cannot be pulled",
        remedy="correct the image's name and tag, or give the pod an imagePullSecret; then delete "
        "the job and submit it again",
    ),
    FailureCause(
        cause=Cause.CONFIG_MISSING,
        pattern=r"references non-existent (config|secret) key|couldn't find key",
        sources=_SAID,
        summary="{pod} needs a key that its ConfigMap or Secret lacks",
        remedy="add the key in namespace {namespace}, or correct its name in the template: the pod "
        "starts by itself once the key is there",
    ),
    FailureCause(
        cause=Cause.CONFIG_MISSING,
        pattern=r"(configmap|secret)s? \S+ not found",
        sources=_SAID,
        summary="a ConfigMap or Secret that {pod} needs does not exist",
        remedy="create it in namespace {namespace}: the pod starts by itself then",
    ),
    FailureCause(
        cause=Cause.NOT_MADE,
        reasons=_of("CreateContainerConfigError"),
        pattern=r"CreateContainerConfigError",
        sources=_SAID,
        summary="the node cannot make the container of {pod}",
        remedy="correct what the message names (a ConfigMap, a Secret, securityContext) in the "
        "template or the image",
    ),
    FailureCause(
        cause=Cause.VOLUME,
        pattern=r"volume node affinity conflict",
        sources=_SAID,
        unless=r"Insufficient",
        summary="the volume of {pod} is bound to other nodes than those that could take it",
        remedy="have the pod run where the volume is (kubectl get pv -o wide), or use a storage "
        "class with volumeBindingMode WaitForFirstConsumer",
    ),
    FailureCause(
        cause=Cause.VOLUME,
        pattern=r"Multi-Attach error",
        sources=_SAID,
        summary="the volume of {pod} is still attached to another node",
        remedy="it starts by itself once the pod that has the volume has ended and its node has "
        "released it; pods on several nodes need a volume with ReadWriteMany",
    ),
    FailureCause(
        cause=Cause.VOLUME,
        reasons=_of("VolumeNotBound", "FailedMount", "FailedAttachVolume"),
        pattern=r"persistentvolumeclaim",
        sources=_SAID,
        summary="a volume of {pod} is not available",
        remedy="correct what the message names: create the claim that is missing, or give it a "
        "storage class that provides it (kubectl get pvc -n {namespace})",
    ),
    FailureCause(
        cause=Cause.NOT_PREPARED,
        reasons=_of("FailedCreatePodSandBox"),
        sources=frozenset({Source.EVENT}),
        summary="the node cannot make the network or the sandbox of {pod}",
        remedy="ask the cluster's administrators to repair the network plugin of that node",
    ),
    FailureCause(
        cause=Cause.SERVICE_ACCOUNT,
        pattern=r"service ?account \S+ not found|error looking up service account",
        sources=_SAID,
        summary="the service account of the pods does not exist",
        remedy="kubectl create serviceaccount NAME -n {namespace}, or correct serviceAccountName",
    ),
    FailureCause(
        cause=Cause.WEBHOOK_DOWN,
        pattern=r"failed calling webhook",
        sources=_SAID,
        summary="an admission webhook does not answer, so the API server takes no object",
        remedy="tell who runs the cluster: the webhook named above has no pod that is ready",
    ),
    FailureCause(
        cause=Cause.QUOTA,
        reasons=_of("QuotaExceeded"),
        pattern=r"exceeded quota|failed quota",
        sources=_SAID,
        summary="the quota of namespace {namespace} does not allow the pods",
        remedy="kubectl describe quota -n {namespace}: end what is not needed, ask for less, or "
        "have it raised; the job tries again by itself",
    ),
    FailureCause(
        cause=Cause.REFUSED,
        pattern=r"(maximum|minimum) \S+ usage per |limit to request ratio per ",
        sources=_SAID,
        summary="{limits} of namespace {namespace} does not allow the pods",
        remedy="kubectl describe limitrange -n {namespace}: change resources in the template, or "
        "have the LimitRange changed; the job tries again by itself",
    ),
    FailureCause(
        cause=Cause.REFUSED,
        pattern=r"violates PodSecurity",
        sources=_SAID,
        summary="the Pod Security level of namespace {namespace} does not allow the pods",
        remedy="set what the message names in securityContext of the template; the job tries again "
        "by itself",
    ),
    FailureCause(
        cause=Cause.REFUSED,
        reasons=_of("CreateForbidden", "GrantWithdrawn"),
        sources=_SAID,
        summary="the cluster refuses the job's pods",
        remedy="change what the message names, or ask who runs the cluster to allow it",
    ),
    FailureCause(
        cause=Cause.SCHEDULING_GATE,
        reasons=_of("SchedulingGated"),
        sources=_SAID,
        summary="{pod} has scheduling gates that nobody has opened",
        remedy="whoever set the gates (schedulingGates of the template) has to open them",
    ),
    FailureCause(
        cause=Cause.RESOURCE_CLAIM,
        pattern=r"the ResourceClaims that it needs have to exist",
        sources=frozenset({Source.CONDITION}),
        summary="{pod} waits for its ResourceClaims, of which one may not exist",
        remedy="kubectl get resourceclaims -n {namespace}: create those that the message names; "
        "the pod starts by itself then",
    ),
    FailureCause(
        cause=Cause.NO_SCHEDULER,
        pattern=r"has not considered it",
        sources=frozenset({Source.CONDITION}),
        summary="no scheduler considers {pod}",
        remedy="correct schedulerName of the template, or run the scheduler that it names; the pod "
        "starts by itself then",
    ),
    FailureCause(
        cause=Cause.CORDONED,
        pattern=r"node\(s\) were unschedulable",
        sources=_SAID,
        unless=r"Insufficient",
        summary="no node takes {pod}: {cordoned}",
        remedy="kubectl uncordon {cordoned_node}, when its maintenance is over: the pod starts by "
        "itself then",
    ),
    FailureCause(
        cause=Cause.NODE_LOST,
        pattern=r"untolerated taint \{node\.kubernetes\.io/",
        sources=_SAID,
        unless=r"Insufficient",
        summary="no node takes {pod}: a node is not ready, or short of memory, disk or processes",
        remedy="the pod starts by itself when a node is ready; see what it lacks: kubectl describe "
        "nodes",
    ),
    FailureCause(
        cause=Cause.TAINT,
        pattern=r"untolerated taint",
        sources=_SAID,
        unless=r"Insufficient",
        summary="no node takes {pod}: their taints are not tolerated",
        remedy="give the template a toleration for the taint that is named, or take it off a node",
    ),
    FailureCause(
        cause=Cause.NO_SUCH_NODE,
        pattern=r"didn't match Pod's node (affinity|selector)|admits its pods",
        sources=_SAID,
        unless=r"Insufficient",
        summary="no node is of the kind that {pod} asks for",
        remedy="compare nodeSelector and affinity with kubectl get nodes --show-labels",
    ),
    FailureCause(
        cause=Cause.NO_ROOM,
        pattern=r"didn't have free ports",
        sources=_SAID,
        unless=r"Insufficient",
        summary="the host port of {pod} is taken on every node",
        remedy="choose another hostPort in the template, leave it out, or end the pod that has it",
    ),
    FailureCause(
        cause=Cause.NO_ROOM,
        reasons=_of("Unschedulable", "PodGroupPending"),
        pattern=r"\bInsufficient [a-z]|there is room for \d+",
        sources=_SAID,
        summary="no node has room for {pod}",
        remedy="ask for less (resources.requests), end other jobs, or add nodes",
    ),
    FailureCause(
        cause=Cause.NOT_MADE,
        pattern=r"error during container init|running (prestart |createRuntime )?hook",
        sources=_OF_ENDS | _SAID,
        summary="the node cannot make the container of {pod}",
        remedy="the message names what the node lacks, such as the driver of a GPU: ask "
        "the administrators of the cluster, or correct what the template mounts",
    ),
    FailureCause(
        cause=Cause.CANNOT_EXECUTE,
        pattern=r"exec format error",
        sources=frozenset(Source),
        summary="the image of {pod} is for another processor than that of its node",
        remedy="change the image, not the command: build it for the node's processor (label "
        "kubernetes.io/arch), or choose nodes by that label; a script lacks its first line (#!)",
    ),
    FailureCause(
        cause=Cause.CANNOT_EXECUTE,
        codes=frozenset({126}),
        pattern=r"exec: \S+: permission denied|exec \S+: permission denied|exit code 126\b",
        sources=frozenset(Source),
        summary="the program of {pod} is not executable",
        remedy="chmod +x the file in the image, or have its interpreter start it (command: [sh, "
        "FILE])",
    ),
    FailureCause(
        cause=Cause.CANNOT_EXECUTE,
        reasons=_of("StartError", "ContainerCannotRun"),
        codes=frozenset({127}),
        pattern=r"executable file not found|exit code 127\b|\(StartError\)|"
        r"no such file or directory: unknown",
        sources=frozenset(Source),
        is_program=True,
        summary="the program of {pod} cannot be executed",
        remedy="correct command and args: the image must have the program",
    ),
    FailureCause(
        cause=Cause.NOT_MADE,
        reasons=_of("CreateContainerError", "RunContainerError"),
        pattern=r"CreateContainerError|RunContainerError",
        sources=_SAID,
        summary="the node cannot make the container of {pod}",
        remedy="correct what the message names (securityContext, command, mounts) in the template",
    ),
    FailureCause(
        cause=Cause.CODE,
        pattern=r"code not unpacked: |requirements not installed: ",
        summary="the code of {pod} cannot be prepared, and its program was not started",
        remedy="push or submit files that keep the rule in the message; what pip or uv wrote is in "
        "kubectl logs {pod} -c {container} -n {namespace}",
    ),
    FailureCause(
        cause=Cause.INIT_CONTAINER,
        reasons=_of("Error"),
        pattern=r".",
        sources=frozenset({Source.ENDED, Source.WAITING}),
        is_init=True,
        is_program=True,
        summary="init container {container} of {pod} fails",
        remedy="kubectl logs {pod} -c {container} -n {namespace}: correct what it says",
    ),
    FailureCause(
        cause=Cause.PROBE,
        pattern=r"(liveness|startup) probe",
        sources=frozenset({Source.EVENT}),
        summary="the node ends {pod} because a probe of it fails",
        remedy="correct the probe, or give the program more time (startupProbe, failureThreshold)",
    ),
    FailureCause(
        cause=Cause.PROBE,
        pattern=r"readiness probe",
        sources=frozenset({Source.EVENT}),
        summary="{pod} is not ready: its readiness probe fails",
        remedy="di logs {job}: see whether the program is up; correct the probe, or the program",
    ),
    FailureCause(
        cause=Cause.CRASH_LOOP,
        reasons=_of("CrashLoopBackOff"),
        pattern=r"CrashLoopBackOff",
        sources=_SAID - {Source.EVENT},
        is_program=True,
        summary="container {container} of {pod} ends again and again",
        remedy="{logs}: correct what ends it",
    ),
    FailureCause(
        cause=Cause.PROGRAM_FAILED,
        pattern=r"exit code \d+",
        codes=frozenset(range(1, 256)),
        sources=_OF_ENDS,
        is_program=True,
        summary="the program of {pod} failed",
        remedy="{logs}: correct what ended it",
    ),
)


def first_failure_cause(
    observations: Iterable[Observation],
) -> tuple[FailureCause, Observation] | None:
    """Return the first row that matches any observation, and the first observation that it matches;
    observations of pods come before others.
    """
    found = tuple(observations)
    for kind in FAILURE_CAUSES:
        if fitting := [seen for seen in found if kind.fits(seen)]:
            own = [seen for seen in fitting if seen.source is not Source.CONDITION]
            named = (seen for seen in own if seen.pod)
            return kind, next(named, own[0] if own else fitting[0])
    return None
