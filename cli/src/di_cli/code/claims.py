"""Bundles on a claim: those that are too large for ConfigMaps.

A pod of this module writes them, with the rights of the user and the placement of the job.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib import resources
from typing import Any, Final

from di_api.code_names import ANNOTATION_CODE_HASH, CODE_FOLDER, LABEL_CODE_OF, LABEL_CODE_STORE
from di_api.field_error import items, mapping
from di_api.names import CODE_CONTAINER
from di_cli.access.kubectl import command_line, kubectl
from di_cli.code.bundle import MOST_IN_PARTS, Bundle, kib
from di_cli.edits.kept_files import READER, first_task, waiting_pod
from di_cli.errors import CommandError
from di_cli.exit_codes import ExitCode
from di_cli.output import note
from di_cli.session import Session
from di_cli.temporary_pod import running
from di_kube.errors import ApiError, NotFound
from di_kube.resources import CLAIMS, CONFIGMAPS, PODS
from di_unpack.keep import FOLDER, PRESENT

Object = dict[str, Any]
_PROGRAM: Final = "DI_CODE_KEEP"
"""Variable of the pod with the program that writes bundles."""
_START: Final = ["sh", "-c", f'exec python3 -c "${_PROGRAM}"']
_LIMITS: Final = {"cpu": "1", "memory": "256Mi"}
_MOST_OF_NAME: Final = 40
_SECONDS: Final = 60
"""Time for the program to start and to check a bundle that is there."""
_SLOWEST: Final = 64 << 10
"""Bytes in a second of the slowest connection that is waited for."""
_ENDED: Final = ("Succeeded", "Failed")


def claim_for(
    session: Session, bundle: Bundle, given: str | None, current: str | None = None
) -> str | None:
    """Return the claim for a bundle; None if ConfigMaps can hold it.

    Args:
        given: by the user.
        current: of the job's present bundle.

    Raises:
        CommandError: there is none, or several and the user has named none.
    """
    if not bundle.is_large:
        return None
    if name := given or current:
        try:
            session.client.get(CLAIMS, name, session.namespace)
        except NotFound as error:
            raise CommandError(
                f"there is no claim {name} in namespace {session.namespace} for the code",
                remedy="kubectl get persistentvolumeclaims; then --store CLAIM",
                code=ExitCode.NOT_FOUND,
            ) from error
        return name
    selector = f"{LABEL_CODE_STORE}=true"
    found, _ = session.client.list(CLAIMS, session.namespace, label_selector=selector)
    names = sorted(str(each["metadata"]["name"]) for each in found)
    if len(names) == 1:
        return names[0]
    if names:
        raise CommandError(
            f"several claims of namespace {session.namespace} are for code: {', '.join(names)}",
            remedy=f"choose one with --store {names[0]}",
        )
    raise CommandError(
        f"the files have {kib(len(bundle.packed))} KiB when compressed, ConfigMaps have "
        f"{kib(MOST_IN_PARTS)} KiB at most, and namespace {session.namespace} has no claim for "
        "code",
        where=bundle.largest,
        remedy="leave out data with a file .diignore, or --store CLAIM; for the whole namespace "
        f"kubectl label persistentvolumeclaim CLAIM {LABEL_CODE_STORE}=true",
    )


def keep(session: Session, job: Object, bundle: Bundle, claim: str) -> None:
    """Keep a bundle on a claim, unless it is there, and delete those that no job needs.

    Raises:
        CommandError: the pod does not start, or the claim is full.
    """
    name = str(job["metadata"]["name"])
    _remove_ended(session, name)
    body = keeping_pod(job, claim, _node(session, name, claim))
    size = len(bundle.packed)
    request: Object = {"sha256": bundle.sha256, "needed": _needed(session), "size": size}
    remedy = "di submit PROGRAM --store CLAIM, with another claim; else try again"
    with running(session, body, f"keeps the code on claim {claim}", remedy) as pod:
        if _told(session, pod, claim, request) == PRESENT:
            return
        note(f"code: {kib(size)} KiB go to claim {claim}")
        request |= {"packed": hashlib.sha256(bundle.packed).hexdigest()}
        _told(session, pod, claim, request, bundle.packed)


def keeping_pod(job: Object, claim: str, node: str = "") -> Object:
    """Return the pod that writes a bundle, with the folder of all bundles alone.

    Args:
        job: whose first task has the image.
        node: that it runs on; empty: any.
    """
    of = str(job["metadata"]["name"])
    name = f"{of[:_MOST_OF_NAME].rstrip('-.')}-{CODE_CONTAINER}-{secrets.token_hex(3)}"
    mount = {"name": "claim-0", "mountPath": FOLDER, "subPath": CODE_FOLDER}
    pod = waiting_pod(job, first_task(job), name, "", node, claims=[claim], mounts=[mount])
    (container,) = pod["spec"]["containers"]
    container["env"] = [{"name": _PROGRAM, "value": _program()}]
    container["resources"] = {**container["resources"], "limits": _LIMITS}
    labels = {LABEL_CODE_OF: of}
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}}


def _told(
    session: Session, pod: str, claim: str, request: Mapping[str, Any], packed: bytes = b""
) -> str:
    """Return the answer of the program in the pod. Raises CommandError."""
    words = ["exec", "--stdin", pod, "--container", READER, "--", *_START]
    command = command_line(session.access, session.namespace, words)
    try:
        done = subprocess.run(
            [kubectl(command), *command[1:]],
            input=json.dumps(request).encode() + b"\n" + packed,
            capture_output=True,
            timeout=_SECONDS + len(packed) / _SLOWEST,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _not_kept(claim, f"no answer of pod {pod} within {error.timeout:.0f} s") from error
    answer = done.stdout.decode(errors="replace").strip()
    if done.returncode or not answer:
        raise _not_kept(claim, done.stderr.decode(errors="replace"))
    return answer


def _not_kept(claim: str, where: str) -> CommandError:
    remedy = "the same command continues"
    if "No space left" in where or "Disk quota exceeded" in where:
        remedy = "a larger claim, or di delete of jobs whose code is there"
    elif "Permission denied" in where:
        remedy = (
            "the pod has the user of the first task: a securityContext with fsGroup in a template, "
            "or a claim that this user can write"
        )
    return CommandError(
        f"the code is not on claim {claim}, and nothing was submitted or pushed",
        where=where,
        remedy=remedy,
    )


def _needed(session: Session) -> list[str]:
    """Return the hashes of all bundles that ConfigMaps of the namespace name."""
    # Without those that have bundles themselves, which are large.
    selector = f"{LABEL_CODE_STORE}=true"
    found, _ = session.client.list(
        CONFIGMAPS, session.namespace, label_selector=selector, timeout=_SECONDS
    )
    named = (mapping(each["metadata"].get("annotations")) for each in found)
    return sorted(
        {str(each[ANNOTATION_CODE_HASH]) for each in named if ANNOTATION_CODE_HASH in each}
    )


def _node(session: Session, job: str, claim: str) -> str:
    """Return the node of the job's pods if the claim can be mounted on one node only."""
    found = session.client.get(CLAIMS, claim, session.namespace)
    modes = items(mapping(found.get("spec")).get("accessModes"))
    if "ReadWriteMany" in modes:
        return ""
    nodes = [mapping(each.get("spec")).get("nodeName") for each in session.pods(job)]
    return next((str(each) for each in nodes if each), "")


def _remove_ended(session: Session, job: str) -> None:
    """Delete the pods of interrupted commands that have ended."""
    with suppress(ApiError):
        selector = f"{LABEL_CODE_OF}={job}"
        found, _ = session.client.list(PODS, session.namespace, label_selector=selector)
        for each in found:
            if mapping(each.get("status")).get("phase") in _ENDED:
                session.client.delete(PODS, str(each["metadata"]["name"]), session.namespace)


def _program() -> str:
    return (resources.files("di_unpack") / "keep.py").read_text("utf-8")
