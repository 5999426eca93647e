"""The type of raw pod templates in the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Template: TypeAlias = Mapping[str, Any]
"""A core/v1 PodTemplateSpec as the user wrote it; must not be modified."""
