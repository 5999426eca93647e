"""`spec.tasks[].elastic`: settings for the replicas above a task's minimum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from di_api.spec.declared import Declared
from di_api.spec.kinds import TemplatePatch, Text
from di_api.spec.template import Template
from di_api.template_patch import patched


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticTier:
    """Differences in replicas with an index of at least `minReplicas`."""

    priority_class_name: Annotated[
        str | None,
        Declared(
            kind=Text(),
            about="Priority class of pods of the elastic tier: of the replicas from index "
            "`minReplicas` on.",
            more="[What that means](../how-to/roles.md#core-and-elastic-tier).",
            absent="that of the template",
        ),
    ] = None
    template_patch: Annotated[
        Mapping[str, Any] | None,
        Declared(
            kind=TemplatePatch(),
            about="Changes of the template for pods of the elastic tier, a JSON merge patch on top "
            "of `leaderTemplatePatch`; containers, volumes and variables are merged by name.",
        ),
    ] = None

    def applied_to(self, template: Template) -> Template:
        """Return the template for pods of the elastic tier, from the one of the others."""
        found: Template = template
        if self.priority_class_name is not None:
            # A priority number beside a class is refused unless it is that of the class.
            priority = {"priorityClassName": self.priority_class_name, "priority": None}
            found = patched(found, {"spec": priority})
        return found if self.template_patch is None else patched(found, self.template_patch)
