"""Rules about one task."""

from __future__ import annotations

from typing import Final

from di_api.validation.relations.row import One, Relation
from di_api.validation.task.drain import hook_in_the_way, wrong_drain
from di_api.validation.task.elastic_tier import wrong_tier
from di_api.validation.task.framework import RULES_OF_TASK, missing_command
from di_api.validation.task.pod_groups import lonely_leader
from di_api.validation.task.ports import OURS, ports_of_containers, repeated_ports
from di_api.validation.task.process_group import wrong_process_group
from di_api.validation.task.scalable import unbounded_scalable
from di_api.validation.task.service import wrong_service
from di_api.validation.task.standby import wrong_standby
from di_api.validation.task.vacant_indexes import vacant_core, vacant_members
from di_api.validation.tasks import replicas_out_of_bounds, wrong_dependencies

_REPLICAS: Final = "(has(self.replicas) ? self.replicas : 1)"
_HAS_VACANT: Final = "has(self.vacant) && self.vacant.size() > 0"
_HAS_GROUPS: Final = "has(self.podsPerReplica) && self.podsPerReplica > 1"
_NO_STANDBY: Final = "!has(self.standby) || self.standby == 0"

OF_TASK: Final[tuple[Relation[One], ...]] = (
    Relation(
        errors=lambda _: iter(()),  # `shape` finds it: no default for the name
        rules=(
            {
                "rule": "self.type != 'none' || has(self.name)",
                "message": "a task of type none needs a name",
                "fieldPath": ".name",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: replicas_out_of_bounds(one.path, one.task),
        rules=(
            {
                "rule": f"(!has(self.minReplicas) || self.minReplicas <= {_REPLICAS}) && "
                f"(!has(self.maxReplicas) || {_REPLICAS} <= self.maxReplicas)",
                "message": "must be between minReplicas and maxReplicas",
                "fieldPath": ".replicas",
            },
        ),
    ),
    Relation(
        errors=lambda one: unbounded_scalable(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.scalable) || !self.scalable || has(self.maxReplicas)",
                "message": "needs maxReplicas",
                "fieldPath": ".scalable",
            },
        ),
    ),
    Relation(
        errors=lambda one: lonely_leader(one.path, one.task),
        rules=(
            {
                "rule": f"!has(self.leaderTemplatePatch) || {_HAS_GROUPS}",
                "message": "needs podsPerReplica above 1; change the template of the task",
                "fieldPath": ".leaderTemplatePatch",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_tier(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.elastic) || has(self.minReplicas) && "
                "(!has(self.maxReplicas) || self.minReplicas < self.maxReplicas)",
                "message": "elastic needs minReplicas, below maxReplicas",
                "fieldPath": ".elastic",
            },
            {
                "rule": "!has(self.elastic) || !has(self.processGroup) || "
                f"self.processGroup.elastic || {_HAS_GROUPS}",
                "message": "does not go with a process group of fixed size",
                "fieldPath": ".elastic",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: wrong_standby(one.path, one.task),
        rules=(
            {
                "rule": f"{_NO_STANDBY} || !({_HAS_GROUPS}) && !has(self.elastic) && "
                "!has(self.nodeCheck)",
                "message": "goes neither with podsPerReplica above 1 nor with elastic nor with "
                "nodeCheck",
                "fieldPath": ".standby",
            },
            {
                "rule": f"{_NO_STANDBY} || !has(self.processGroup) || "
                "self.processGroup.elastic && self.processGroup.framework == 'none'",
                "message": "needs a processGroup that is elastic and of framework none, or none "
                "at all",
                "fieldPath": ".standby",
            },
            {
                "rule": f"{_NO_STANDBY} || !has(self.ports) || self.ports.all(p, p.scope == 'Job')",
                "message": "the ports of a task with standby must be of scope Job",
                "fieldPath": ".standby",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_dependencies(one.path, one.task, one.known),
        rules=(
            {
                "rule": "!has(self.dependsOn) || "
                "!((has(self.name) ? self.name : self.type) in self.dependsOn)",
                "message": "a task cannot wait for itself",
                "fieldPath": ".dependsOn",
            },
        ),
        is_all=False,
    ),
    Relation(
        errors=lambda one: wrong_service(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.service) || self.service.ports.all(p, "
                "self.service.ports.exists_one(q, q.name == p.name) && "
                "self.service.ports.exists_one(q, q.port == p.port && q.protocol == p.protocol))",
                "message": "names of ports must be unique, and numbers with their protocol",
                "fieldPath": ".service.ports",
            },
        ),
    ),
    Relation(
        errors=lambda one: vacant_members(one.path, one.task),
        rules=(
            {
                "rule": f"!({_HAS_VACANT}) || !has(self.processGroup) || "
                f"self.processGroup.elastic || {_HAS_GROUPS}",
                "message": "the ranks of a process group that is not elastic are its indexes, with "
                "no gap",
                "fieldPath": ".vacant",
            },
        ),
    ),
    Relation(
        errors=lambda one: vacant_core(one.path, one.task),
        rules=(
            {
                "rule": f"!({_HAS_VACANT}) || !has(self.elastic) || !has(self.minReplicas) || "
                "self.vacant.all(i, i >= self.minReplicas)",
                "message": "the core of a task with an elastic tier has the indexes below "
                "minReplicas, with no gap",
                "fieldPath": ".vacant",
            },
        ),
    ),
    Relation(
        errors=lambda one: wrong_drain(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.drain) || has(self.drain.path) != "
                "(has(self.drain.command) && self.drain.command.size() > 0)",
                "message": "exactly one of path and command must be given",
                "fieldPath": ".drain",
            },
            {
                "rule": "!has(self.drain) || has(self.drain.path) == has(self.drain.port)",
                "message": "port goes with path",
                "fieldPath": ".drain",
            },
            {
                "rule": "!has(self.drain) || !has(self.drain.path) || "
                "self.drain.path.startsWith('/')",
                "message": "must begin with a slash",
                "fieldPath": ".drain.path",
            },
        ),
    ),
    Relation(errors=lambda one: hook_in_the_way(one.path, one.task), is_all=False),
    Relation(
        errors=lambda one: repeated_ports(one.path, one.task),
        rules=(
            {
                "rule": "!has(self.ports) || self.ports.all(p, "
                "self.ports.exists_one(q, q.name == p.name) && "
                f"!(p.name in [{', '.join(map(repr, OURS))}]))",
                "message": f"names of ports must be unique, and not {' or '.join(OURS)}",
                "fieldPath": ".ports",
            },
        ),
    ),
    Relation(errors=lambda one: ports_of_containers(one.path, one.task), is_all=False),
    Relation(errors=lambda one: missing_command(one.path, one.task), is_all=False),
    Relation(
        errors=lambda one: wrong_process_group(one.path, one.task),
        rules=(
            *RULES_OF_TASK,
            {
                "rule": "!has(self.processGroup) || !self.processGroup.elastic || "
                "has(self.minReplicas) && has(self.maxReplicas)",
                "message": "an elastic group needs minReplicas and maxReplicas",
                "fieldPath": ".processGroup.elastic",
            },
            {
                "rule": "!has(self.processGroup) || !self.processGroup.elastic || "
                f"!({_HAS_GROUPS})",
                "message": "must be false with podsPerReplica above 1, each replica is a group of "
                "its own",
                "fieldPath": ".processGroup.elastic",
            },
            {
                "rule": "!has(self.processGroup) || "
                "self.processGroup.lastCallSeconds <= self.processGroup.deadlineSeconds",
                "message": "must be at most deadlineSeconds",
                "fieldPath": ".processGroup.lastCallSeconds",
            },
        ),
    ),
)
