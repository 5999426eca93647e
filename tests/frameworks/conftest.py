"""The cluster of the e2e tests, for images that are too large for them: `make test-all LANE=frameworks`."""

from __future__ import annotations

from tests.e2e.conftest import (
    cluster,
    images,
    kubectl,
    namespace,
    python_image,
    release,
    reporter,
    unreleased,
)

__all__ = [
    "cluster",
    "images",
    "kubectl",
    "namespace",
    "python_image",
    "release",
    "reporter",
    "unreleased",
]
