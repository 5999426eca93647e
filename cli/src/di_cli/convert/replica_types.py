"""Replica types of the training-operator: so many pods of one template, and when they restart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from di_api.field_error import items, mapping
from di_cli.convert.fields import Fields, Object, RefusedManifest
from di_cli.convert.pods import template_of
from di_cli.convert.run_policy import restart_policy


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """A kind of the training-operator.

    Attributes:
        kind: as in manifests.
        replicas: field of the spec with the replica types.
        types: the replica types.
        single: those that have one pod.
        aliases: other names of types, in lower case.
        framework: that of the process group.
        container: name of the container with the program.
        port: name of the port at which the group meets.
        restart_policy: default of a replica type.
    """

    kind: str
    replicas: str
    types: tuple[str, ...]
    single: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    framework: str
    container: str
    port: str
    restart_policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaType:
    """The pods of one replica type.

    Attributes:
        name: as in the manifest.
        place: path in the manifest.
        replicas: number of pods, 1 or more.
        policy: restart policy.
        template: pod template of a DIJob.
        main: path in the manifest of the container that comes first in the template.
    """

    name: str
    place: str
    replicas: int
    policy: str
    template: Object
    main: str


def replica_types(spec: Fields, kind: JobKind) -> dict[str, ReplicaType]:
    """Return the replica types that have pods, in the order of `kind.types`."""
    specs = spec.inner(kind.replicas)
    known = {**{each.lower(): each for each in kind.types}, **kind.aliases}
    found: dict[str, ReplicaType] = {}
    for name in specs:
        role = known.get(name.lower())
        if role is None or role in found:
            raise RefusedManifest(
                specs.at(name),
                f"the replica types of a {kind.kind} are {', '.join(kind.types)}, each once",
                "correct the name",
            )
        fields = specs.inner(name)
        given = fields.whole("replicas")
        count = 1 if given is None else given
        policy = restart_policy(fields, kind.restart_policy)
        main = f"{fields.at('template')}.spec.containers[{_main_index(fields, kind)}]"
        template = template_of(fields, main=kind.container, port=kind.port)
        fields.rest()
        if role in kind.single and count > 1:
            raise RefusedManifest(
                fields.at("replicas"), f"a {kind.kind} has one {role}", "make the others workers"
            )
        if count:
            found[role] = ReplicaType(
                name=name,
                place=fields.path,
                replicas=count,
                policy=policy,
                template=template,
                main=main,
            )
        else:
            specs.remark(name, "it has no replicas")
    if not found:
        raise RefusedManifest(
            specs.path, "has no replicas", f"give a {' or a '.join(kind.types[:2])}"
        )
    return {role: found[role] for role in kind.types if role in found}


def _main_index(fields: Fields, kind: JobKind) -> int:
    """Return the index of the container with the program in its template."""
    spec = mapping(mapping(fields.get("template")).get("spec"))
    names = [mapping(each).get("name") for each in items(spec.get("containers"))]
    return names.index(kind.container) if kind.container in names else 0
