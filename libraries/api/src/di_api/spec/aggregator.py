"""The spec of an AggregatorConfig."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from di_api.spec.declared import Declared
from di_api.spec.kinds import PodTemplate, Struct
from di_api.spec.template import Template


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorPods:
    """Pods of aggregators."""

    template: Annotated[
        Template,
        Declared(
            kind=PodTemplate(),
            about="Template of an aggregator's pod, as core/v1 PodTemplateSpec.",
            may_change=True,
        ),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatorConfigSpec:
    """Spec of an AggregatorConfig."""

    aggregator: Annotated[
        AggregatorPods,
        Declared(kind=Struct(AggregatorPods), about="Pods of aggregators.", may_change=True),
    ]
