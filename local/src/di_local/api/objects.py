"""The store of objects, with the semantics of an API server. No I/O; objects are replaced, never
modified.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from di_api.timestamps import format_time
from di_kube.resources import (
    CONFIGMAPS,
    DIJOBS,
    EVENTS,
    PODS,
    SECRETS,
    SERVICES,
    Resource,
)
from di_local.api.paths import bad_data
from di_local.api.refused import Refused, conflict, invalid, not_found
from di_local.api.selectors import Selector

Object: TypeAlias = dict[str, Any]
Admit: TypeAlias = Callable[[Object, Object | None], Object]
"""Returns the form in which an object is created, or changed from the second argument; can raise
Refused.
"""

RESOURCES: Final = {
    each.plural: each for each in (DIJOBS, PODS, SERVICES, CONFIGMAPS, SECRETS, EVENTS)
}
DEFAULT_GRACE: Final = 30
"""Seconds of grace that core/v1 gives a pod without its own."""
_REMEMBERED: Final = 20_000
"""Number of remembered changes for watches that are behind."""
_MOST_EVENTS: Final = 2_000
_ENDED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the old and the new object, None before creation and after deletion."""

    version: int
    plural: str
    before: Object | None
    after: Object | None

    def seen(self, select: Selector) -> tuple[str, Object] | None:
        """Return the event for a watch with this selector; None: no event."""
        was = self.before is not None and select(self.before)
        now = self.after is not None and select(self.after)
        if now and self.after is not None:
            return ("MODIFIED" if was else "ADDED"), self.after
        if was and self.before is not None:
            last = self.after or self.before
            metadata = {**last["metadata"], "resourceVersion": str(self.version)}
            return "DELETED", {**last, "metadata": metadata}
        return None


class Objects:
    """All objects of a small cluster.

    Args:
        now: wall-clock time.
        admit: called for each DIJob that is created or whose spec changes.
    """

    def __init__(self, *, now: Callable[[], datetime], admit: Admit) -> None:
        self._now = now
        self._admit = admit
        self._version = 1
        self._found: dict[str, dict[tuple[str, str], Object]] = {each: {} for each in RESOURCES}
        self._changes: deque[Change] = deque(maxlen=_REMEMBERED)
        self._subscribers: list[Callable[[Change], None]] = []

    @property
    def version(self) -> int:
        """Return the version of the last write."""
        return self._version

    def subscribe(self, told: Callable[[Change], None]) -> Callable[[], None]:
        """Call a function for every change from now on; return a function that cancels this."""
        self._subscribers.append(told)
        return lambda: self._subscribers.remove(told)

    def since(self, version: int) -> list[Change]:
        """Return the changes after a version.

        Raises:
            Refused: they are no longer remembered.
        """
        if version < self._version and (
            not self._changes or version < self._changes[0].version - 1
        ):
            raise Refused(410, "Expired", f"too old resource version: {version}")
        return [change for change in self._changes if change.version > version]

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return one object. Raises Refused if there is none."""
        found = self._found[resource.plural].get((namespace, name))
        if found is None:
            raise not_found(resource.plural, name)
        return found

    def list(self, resource: Resource, select: Selector = lambda _: True) -> list[Object]:
        """Return all selected objects."""
        return [each for each in self._found[resource.plural].values() if select(each)]

    def create(self, resource: Resource, body: Object) -> Object:
        """Create an object in the namespace of its metadata. Raises Refused."""
        metadata = body.get("metadata") or {}
        name, namespace = metadata.get("name"), metadata.get("namespace")
        if not name and metadata.get("generateName"):
            name = f"{metadata['generateName']}{uuid.uuid4().hex[:5]}"
        if not name or not namespace:
            raise invalid(f"{resource.kind}: metadata.name and metadata.namespace are required")
        if (namespace, name) in self._found[resource.plural]:
            raise Refused(409, "AlreadyExists", f'{resource.plural} "{name}" already exists')
        made: Object = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            **body,
            "metadata": {
                **metadata,
                "name": name,
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": self._stamp(),
            },
        }
        if resource == DIJOBS:
            made = self._admit({**made, "status": {}}, None)
            made["metadata"] = {**made["metadata"], "generation": 1}
        _check_keys(resource, made)
        if resource == PODS:
            made["spec"] = {"terminationGracePeriodSeconds": DEFAULT_GRACE, **made["spec"]}
            made["status"] = {"phase": "Pending"}
        if resource == EVENTS:
            self._forget_old_events()
        return self._write(resource, None, made)

    def replace(
        self, resource: Resource, namespace: str, name: str, body: Object, *, status: bool = False
    ) -> Object:
        """Replace an object; for a DIJob or a pod either everything except its status, or with
        `status` only that. Raises Refused.
        """
        before = self.get(resource, namespace, name)
        metadata = body.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            if metadata.get(field) not in (None, before["metadata"][field]):
                raise conflict(resource.plural, name, f"the {field} is another one")
        if resource in (DIJOBS, PODS):
            body = (
                {**before, "status": body.get("status") or {}}
                if status
                else {**body, "status": before.get("status") or {}}
            )
        kept = (
            *("uid", "name", "namespace", "creationTimestamp", "generation"),
            *("deletionTimestamp", "deletionGracePeriodSeconds"),
        )
        fixed = {key: before["metadata"][key] for key in kept if key in before["metadata"]}
        after = {**body, "metadata": {**(body.get("metadata") or {}), **fixed}}
        if resource == DIJOBS and after.get("spec") != before.get("spec"):
            after = self._admit(after, before)
            if after.get("spec") != before.get("spec"):
                fixed["generation"] = before["metadata"]["generation"] + 1
                after = {**after, "metadata": {**after["metadata"], **fixed}}
        _check_keys(resource, after)
        version = before["metadata"]["resourceVersion"]
        after["metadata"] = {**after["metadata"], "resourceVersion": version}
        return before if after == before else self._write(resource, before, after)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> Object | None:
        """Delete an object, and the objects that it owns; a running pod gets its grace period.

        Returns the object if it still exists. Raises Refused.
        """
        before = self.get(resource, namespace, name)
        metadata = before["metadata"]
        if uid not in (None, metadata["uid"]):
            raise conflict(resource.plural, name, "the UID in the precondition is another one")
        if resource_version not in (None, metadata["resourceVersion"]):
            raise conflict(resource.plural, name, "the object has been modified")
        seconds = _grace(before, grace) if resource == PODS else 0
        if seconds > 0:
            return self._end_within(before, seconds)
        self._write(resource, before, None)
        for plural, dependents in self._found.items():
            for each in list(dependents.values()):
                owners = each["metadata"].get("ownerReferences") or ()
                if any(owner.get("uid") == metadata["uid"] for owner in owners):
                    mine = each["metadata"]
                    self.delete(RESOURCES[plural], mine["namespace"], mine["name"])
        return None

    def _end_within(self, pod: Object, seconds: int) -> Object:
        metadata = pod["metadata"]
        if metadata.get("deletionGracePeriodSeconds", seconds + 1) <= seconds:
            return pod
        marks = {
            "deletionTimestamp": self._stamp(timedelta(seconds=seconds)),
            "deletionGracePeriodSeconds": seconds,
        }
        return self._write(PODS, pod, {**pod, "metadata": {**metadata, **marks}})

    def _write(self, resource: Resource, before: Object | None, after: Object | None) -> Object:
        self._version += 1
        if after is not None:
            metadata = {**after["metadata"], "resourceVersion": str(self._version)}
            after = {**after, "metadata": metadata}
        shown = after if after is not None else before
        assert shown is not None, "a write has an object"
        key = (shown["metadata"]["namespace"], shown["metadata"]["name"])
        if after is None:
            del self._found[resource.plural][key]
        else:
            self._found[resource.plural][key] = after
        change = Change(self._version, resource.plural, before, after)
        self._changes.append(change)
        for told in list(self._subscribers):
            told(change)
        return shown

    def _forget_old_events(self) -> None:
        events = self._found[EVENTS.plural]
        if len(events) >= _MOST_EVENTS:
            self._write(EVENTS, next(iter(events.values())), None)

    def _stamp(self, later: timedelta = timedelta()) -> str:
        return format_time(self._now() + later)


def _check_keys(resource: Resource, obj: Object) -> None:
    if resource in (CONFIGMAPS, SECRETS) and (found := bad_data(resource.kind, obj)):
        name = obj["metadata"]["name"]
        raise invalid(f'{resource.kind} "{name}" is invalid: {"; ".join(found)}')


def _grace(pod: Object, asked: int | None) -> int:
    """Return the seconds until a pod has to be gone; 0 if nothing runs in it."""
    if (pod.get("status") or {}).get("phase") in _ENDED or not pod["spec"].get("nodeName"):
        return 0
    own: int = pod["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE)
    return own if asked is None else asked
