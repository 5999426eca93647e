"""Kubernetes' own description of pods inside of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Template: TypeAlias = Mapping[str, Any]
"""A core/v1 PodTemplateSpec as the user wrote it; not to be modified."""
