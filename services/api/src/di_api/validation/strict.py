"""Reading a spec of which all rules are asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from di_api.defaults import with_defaults
from di_api.field_error import FieldError, InvalidSpec
from di_api.spec.job import JobSpec
from di_api.spec.reading import read
from di_api.validation.relations import broken_rules
from di_api.validation.shape import cut_to_limits, shape_errors


def load_spec(spec: Mapping[str, Any]) -> JobSpec:
    """Read a raw spec, defaults applied.

    Raises:
        InvalidSpec: the spec breaks rules; the exception has all of them.
    """
    if not isinstance(spec, Mapping):
        raise InvalidSpec([FieldError("spec", spec, "must be an object")])
    full, errors = cut_to_limits(with_defaults(spec))
    errors += [*shape_errors(full), *broken_rules(full)]
    if errors:
        raise InvalidSpec(errors)
    return read(JobSpec, full, "spec")
