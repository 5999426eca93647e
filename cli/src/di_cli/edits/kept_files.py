"""Files that outlive the pods of a job, on PersistentVolumeClaims, and a pod that reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from di_api.base_template import with_base
from di_api.field_error import items, mapping
from di_api.names import CHECKPOINT_VOLUME
from di_api.pods.main_container import main_container
from di_api.spec import Checkpoint
from di_api.spec.artifact import artifacts_folder
from di_api.validation.templates.rules import coordinated_templates

Object = Mapping[str, Any]
READER: Final = "files"
"""Name of the container that reads, also part of the pod's name."""
SECONDS: Final = 3600
"""Time after which a reading pod ends, if the command that made it was killed."""
_COPIED: Final = (
    *("imagePullSecrets", "nodeSelector", "tolerations", "serviceAccountName", "runtimeClassName"),
    *("priorityClassName", "schedulerName"),
)
"""Fields of a pod that decide where and with which image it can run."""
_RESOURCES: Final = {"cpu": "100m", "memory": "128Mi"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPath:
    """A path in the pods of a task that is on a claim.

    Attributes:
        sub_path: the part of the volume that is mounted; empty: all of it.
        is_of_pods: whether it has a folder for each pod, by its name: an item of `spec.artifacts`.
    """

    task: str
    path: str
    claim: str
    sub_path: str = ""
    is_of_pods: bool = False

    def of_pod(self, pod: str, path: str) -> str:
        """Return the place of a path of a pod in a pod that has the folders of all."""
        return f"{self.path}/{pod}{path.removeprefix(self.path)}"

    def has(self, path: str) -> bool:
        """Return whether a path is at or below this one."""
        return f"{path.rstrip('/')}/".startswith(f"{self.path}/")


def kept_paths(job: Object) -> list[KeptPath]:
    """Return the paths on claims of each task of a job of any shape, a path of a task once."""
    spec = with_base(mapping(job.get("spec")))
    of_job = _claims(spec)
    found: dict[tuple[str, str], KeptPath] = {}
    artifacts = list(_artifacts(job, of_job))
    for task, is_learner, template in _templates(spec):
        pod = mapping(template.get("spec"))
        claims = {**of_job, **_claims(pod)}
        checkpoint = _checkpoint(task, spec, of_job) if is_learner else []
        containers = map(mapping, items(pod.get("containers")))
        mounts = (mapping(each) for one in containers for each in items(one.get("volumeMounts")))
        own = (replace(each, task=task) for tasks, each in artifacts if not tasks or task in tasks)
        for kept in (*checkpoint, *own, *_mounted(task, mounts, claims)):
            found.setdefault((kept.task, kept.path), kept)
    return list(found.values())


def of_task(kept: Sequence[KeptPath], path: str, task: str | None) -> list[KeptPath]:
    """Return all paths of the first task that has `path` on a claim; `task`: only this one."""
    names = [each.task for each in kept if each.has(path) and task in (None, each.task)]
    return [each for each in kept if names and each.task == names[0]]


def without_repeats(kept: Sequence[KeptPath]) -> dict[str, list[KeptPath]]:
    """Return the paths by task, without those whose files an earlier task has as well."""
    by_task: dict[str, list[KeptPath]] = {}
    seen = set[tuple[str, str]]()
    for each in kept:
        if (each.claim, each.sub_path) not in seen:
            seen.add((each.claim, each.sub_path))
            by_task.setdefault(each.task, []).append(each)
    return by_task


def reader_pod(
    job: Object, kept: Sequence[KeptPath], name: str, image: str, node: str = ""
) -> dict[str, Any]:
    """Return a pod that mounts paths of one task, read-only, and waits.

    It has no label of the job's own pods, and is deleted with the job.

    Args:
        job: with its uid.
        kept: the paths, at least one.
        name: of the pod.
        image: with `sh`, `tar` and `find`; empty: that of the task.
        node: that it runs on, because a claim can be mounted there only; empty: any.
    """
    claims = list(dict.fromkeys(each.claim for each in kept))
    mounts = [
        {
            **{"name": f"claim-{claims.index(each.claim)}", "mountPath": each.path},
            **({"subPath": each.sub_path} if each.sub_path else {}),
            "readOnly": True,
        }
        for each in kept
    ]
    pod = waiting_pod(job, kept[0].task, name, image, node, claims=claims, mounts=mounts)
    about = mapping(job.get("metadata"))
    owner = {key: job.get(key) for key in ("apiVersion", "kind")}
    owner |= {key: about.get(key) for key in ("name", "uid")}
    return {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}


def waiting_pod(
    job: Object,
    task: str,
    name: str,
    image: str,
    node: str,
    *,
    claims: Sequence[str],
    mounts: Sequence[Object],
) -> dict[str, Any]:
    """Return a pod that waits, where a task of the job can run and with its permissions.

    Args:
        task: name of the task or role.
        name: of the pod.
        image: with `sh`; empty: that of the task.
        node: that it runs on; empty: any.
        claims: the volume of each is `claim-` and its index.
        mounts: of its container.
    """
    spec = with_base(mapping(job.get("spec")))
    templates = {of: template for of, _, template in _templates(spec)}
    pod = mapping(mapping(templates.get(task)).get("spec"))
    main = main_container([mapping(each) for each in items(pod.get("containers"))]) or {}
    security = {"securityContext": main["securityContext"]} if main.get("securityContext") else {}
    container = {
        **{"name": READER, "image": image or main.get("image"), **security},
        **{"command": ["sh", "-c", f"trap exit TERM; sleep {SECONDS} & wait"]},
        **{"resources": {"requests": _RESOURCES, "limits": _RESOURCES}},
        "volumeMounts": [*mounts],
    }
    of_pod = mapping(pod.get("securityContext"))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            **{field: pod[field] for field in _COPIED if field in pod},
            **({"securityContext": dict(of_pod)} if of_pod else {}),
            **(_on(node) if node else {}),
            "activeDeadlineSeconds": SECONDS,
            "automountServiceAccountToken": False,
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "volumes": [
                {"name": f"claim-{index}", "persistentVolumeClaim": {"claimName": claim}}
                for index, claim in enumerate(claims)
            ],
        },
    }


def first_task(job: Object) -> str:
    """Return the name of the first task or role of a job; empty if it has none."""
    return next((task for task, _, _ in _templates(with_base(mapping(job.get("spec"))))), "")


def listing(kept: Sequence[KeptPath]) -> list[str]:
    """Return the command that lists the files below paths, for any image with `find` and `wc`."""
    return ["find", *(each.path for each in kept), "-type", "f", "-exec", "wc", "-c", "{}", "+"]


@dataclass(frozen=True, slots=True, order=True)
class KeptFile:
    """A file that outlives its pod; `pod` is empty for a file that all pods of the task share."""

    path: str
    pod: str
    size: str
    claim: str
    task: str


def kept_files(told: str, kept: Sequence[KeptPath], job: Object) -> list[KeptFile]:
    """Return the file of each line that `listing` printed, by path."""
    found = []
    for line in told.splitlines():
        size, _, file = line.strip().partition(" ")
        # The other lines are sums of several files.
        on = [each for each in kept if file.startswith("/") and each.has(file)]
        if on and size.isdecimal():
            inner = max(on, key=lambda each: len(each.path))
            task, pod = inner.task, ""
            if inner.is_of_pods:
                pod, _, rest = file.removeprefix(f"{inner.path}/").partition("/")
                task, file = task_of_folder(job, pod), f"{inner.path}/{rest}"
            found.append(KeptFile(file, pod, _size(int(size)), inner.claim, task))
    return sorted(found)


def task_of_folder(job: Object, pod: str) -> str:
    """Return the task or role of the pod that has a folder; empty for a folder of no pod."""
    name = mapping(job.get("metadata")).get("name")
    tasks = [task for task, _, _ in _templates(with_base(mapping(job.get("spec"))))]
    return max((each for each in tasks if pod.startswith(f"{name}-{each}-")), key=len, default="")


def folders(told: str, job: Object, task: str | None) -> list[str]:
    """Return the folders of pods that `ls` printed, the first pods of each task first.

    Args:
        task: its pods only; None: those of all tasks, in the order of the tasks.
    """
    tasks = [each for each, _, _ in _templates(with_base(mapping(job.get("spec"))))]
    found = [
        (tasks.index(of), [int(part) for part in re.findall(r"\d+", pod)], pod)
        for pod in told.splitlines()
        if (of := task_of_folder(job, pod)) and task in (None, of)
    ]
    return [pod for _, _, pod in sorted(found)]


def _size(count: int) -> str:
    amount, units = float(count), ["B", "KiB", "MiB", "GiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def _templates(spec: Object) -> Iterator[tuple[str, bool, Object]]:
    """Yield name and template of each task or role, and whether its pods are learners."""
    for task in map(mapping, items(spec.get("tasks"))):
        kind = str(task.get("type") or "")
        yield str(task.get("name") or kind), kind == "learner", mapping(task.get("template"))
    for path, template in coordinated_templates(spec):
        if template is not None:
            role = path.split(".")[2]
            yield role, "learner" in role.lower(), mapping(template)


def _claims(holder: Object) -> dict[str, str]:
    """Return the claim of each volume that has one, by the volume's name."""
    found: dict[str, str] = {}
    for volume in map(mapping, items(holder.get("volumes"))):
        claim = mapping(volume.get("persistentVolumeClaim")).get("claimName")
        if isinstance(claim, str):
            found[str(volume.get("name"))] = claim
    return found


def _checkpoint(task: str, spec: Object, claims: Mapping[str, str]) -> list[KeptPath]:
    checkpoint = mapping(spec.get("checkpoint"))
    own = checkpoint.get("persistentVolumeClaim")
    claims = {CHECKPOINT_VOLUME: str(own)} if own else claims
    volume = CHECKPOINT_VOLUME if own else checkpoint.get("volume")
    mount = {"name": volume, "mountPath": checkpoint.get("path", Checkpoint().path)}
    return list(_mounted(task, [mount] if checkpoint else [], claims))


def _artifacts(job: Object, claims: Mapping[str, str]) -> Iterator[tuple[list[Any], KeptPath]]:
    """Yield the tasks and the path of each item of `spec.artifacts` that is on a claim."""
    about = mapping(job.get("metadata"))
    for each in map(mapping, items(mapping(job.get("spec")).get("artifacts"))):
        claim = each.get("persistentVolumeClaim") or claims.get(str(each.get("volume")))
        if claim and isinstance(path := each.get("path"), str):
            folder = artifacts_folder(
                str(about.get("name")), str(about.get("uid")), str(each.get("name"))
            )
            kept = KeptPath(task="", path=path, claim=str(claim), sub_path=folder, is_of_pods=True)
            yield items(each.get("tasks")), kept


def _on(node: str) -> dict[str, Any]:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    terms = {"nodeSelectorTerms": [{"matchFields": fields}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"nodeAffinity": required}}


def _mounted(task: str, mounts: Any, claims: Mapping[str, str]) -> Iterator[KeptPath]:
    """Yield the mounts of claims. What a `subPathExpr` selects is only known in a pod."""
    for mount in mounts:
        name, path = mount.get("name"), mount.get("mountPath")
        if not isinstance(name, str) or not isinstance(path, str) or mount.get("subPathExpr"):
            continue
        if name in claims:
            sub_path, at = str(mount.get("subPath") or ""), path.rstrip("/")
            yield KeptPath(task=task, path=at, claim=claims[name], sub_path=sub_path)
