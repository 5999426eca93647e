"""Pages that change a job: each asks for confirmation, and shows the result."""

from __future__ import annotations

from typing import Final

from flask import Blueprint, abort, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from di_api.explain import explain_refusal
from di_api.field_error import mapping
from di_cli.edits.limits import Limits, limits
from di_cli.edits.scaling import Scaling, ScalingError, Wish, scaling
from di_dashboard.history.seen import Object, uid_of
from di_dashboard.pages.jobs import job_or_404
from di_dashboard.pages.parts import parts
from di_dashboard.views.effects import Action, Edit, done, effect, limits_of, possible
from di_dashboard.views.jobs import tasks_of
from di_kube.errors import ApiError, Conflict
from di_kube.resources import DIJOBS
from di_kube.wire import JSON_PATCH

actions: Final = Blueprint("actions", __name__)
_TRIES: Final = 5
_EDITS: Final = (Action.SCALE, Action.LIMITS)
_FIELDS: Final = ("task", "replicas", "least", "most")
_WORDS: Final = {
    Action.SCALE: "Scale",
    Action.LIMITS: "Change limits of",
    Action.SUSPEND: "Suspend",
    Action.RESUME: "Resume",
    Action.DELETE: "Delete",
}


class Refused(Exception):
    """The action failed; has the reason and what to do."""


@actions.get("/jobs/<namespace>/<name>/<any(scale, limits, suspend, resume, delete):action>")
def ask(namespace: str, name: str, action: str) -> str:
    """Return the page that shows the effect of an action, and asks for confirmation."""
    return _question(namespace, name, Action(action))


@actions.post("/jobs/<namespace>/<name>/<any(scale, limits, suspend, resume, delete):action>")
def act(namespace: str, name: str, action: str) -> Response | tuple[str, int]:
    """Execute an action, as the user, on the job that was shown and no other one of its name."""
    what, job = Action(action), job_or_404(namespace, name)
    _check(job, what)
    try:
        found = _do(what, job)
    except Refused as refused:
        return _question(namespace, name, what, refused=str(refused)), 409
    flash(f"{done(what, name, found)}.")
    if what is Action.DELETE:
        return redirect(url_for("pages.jobs", namespace=namespace))
    return redirect(url_for("pages.job", namespace=namespace, name=name))


def _question(namespace: str, name: str, action: Action, refused: str = "") -> str:
    job = job_or_404(namespace, name)
    _check(job, action)
    found: Edit | None = None
    wrong = ""
    if _is_given(action):
        try:
            found = _edit(action, job)
        except ScalingError as error:
            wrong = str(error)
    pods = len(parts().cluster_cache.pods_of(namespace, name))
    return render_template(
        "ask.html",
        job=job,
        uid=uid_of(job),
        namespace=namespace,
        name=name,
        action=action.value,
        word=_WORDS[action],
        tasks=tasks_of(job),
        limits={each.name: limits_of(job, each.name) for each in tasks_of(job)},
        given={key: request.values.get(key, "") for key in _FIELDS},
        edit=_as_form(found, request.values.get("least", ""), request.values.get("most", "")),
        is_asking=action not in _EDITS or found is not None,
        effect=effect(action, job, pods, found),
        wrong=wrong or refused,
    )


def _check(job: Object, action: Action) -> None:
    if parts().read_only:
        abort(403, "This page only reads (--read-only).")
    if action not in possible(job):
        abort(409, f"There is nothing to {action.value}: the job has changed meanwhile.")


def _do(action: Action, job: Object) -> Edit | None:
    metadata = mapping(job.get("metadata"))
    namespace, name = str(metadata.get("namespace")), str(metadata.get("name"))
    if request.form.get("uid") != uid_of(job):
        raise Refused(f"{name} is another job by now; look at it before you change it")
    client = parts().client
    try:
        match action:
            case Action.SCALE | Action.LIMITS:
                return _change(action, namespace, name)
            case Action.SUSPEND | Action.RESUME:
                patch = {
                    # Excludes a new job with this name.
                    "metadata": {"uid": uid_of(job)},
                    "spec": {"suspend": action is Action.SUSPEND},
                }
                client.patch(DIJOBS, name, patch, namespace)
            case Action.DELETE:
                client.delete(DIJOBS, name, namespace, uid=uid_of(job))
    except ApiError as error:
        raise Refused(_told(error)) from error
    return None


def _change(action: Action, namespace: str, name: str) -> Edit:
    client = parts().client
    for attempt in range(_TRIES):
        try:
            found = _edit(action, client.get(DIJOBS, name, namespace))
        except ScalingError as error:
            raise Refused(str(error)) from error
        try:
            client.patch(DIJOBS, name, found.patch, namespace, content_type=JSON_PATCH)
        except Conflict:
            # Another client has written; the requested number stays valid.
            if attempt == _TRIES - 1:
                raise
        else:
            return found
    raise AssertionError("unreachable: the last attempt returns or raises")


def _edit(action: Action, job: Object) -> Edit:
    """Return the edit in the form. Raises ScalingError."""
    given = {key: request.values.get(key, "") for key in _FIELDS}
    if action is Action.LIMITS:
        return limits(job, given["task"] or None, given["least"], given["most"])
    return scaling(job, _wish(given["task"], given["replicas"]))


def _is_given(action: Action) -> bool:
    """Return whether the form has values; a bound can be empty."""
    match action:
        case Action.SCALE:
            return bool(request.values.get("replicas"))
        case Action.LIMITS:
            return "least" in request.values and "most" in request.values
        case _:
            return False


def _as_form(edit: Edit | None, least: str, most: str) -> dict[str, object]:
    """Return the fields that the form has to send back: for a scaling the computed number."""
    match edit:
        case None:
            return {}
        case Scaling():
            return {"task": edit.task, "replicas": edit.after}
        case Limits():
            return {"task": edit.task, "least": least, "most": most}


def _wish(task: str, count: str) -> Wish:
    try:
        return Wish.parse(f"{task}={count}" if task else count)
    except ScalingError as error:
        raise ScalingError(f"{count!r} is no number of replicas") from error


def _told(error: ApiError) -> str:
    found = explain_refusal(
        error.target,
        code=error.code,
        reason=error.reason,
        message=error.message,
        causes=error.causes,
    )
    words = [": ".join(part for part in (e.label, e.text) if part) for e in found.evidence[:5]]
    return "; ".join([found.summary, *words, *([f"try: {found.remedy}"] if found.remedy else [])])
