"""The cluster of the e2e tests, for images that are too large for `make test`."""

from __future__ import annotations

from tests.e2e.conftest import (
    bucket,
    cluster,
    images,
    kubectl,
    namespace,
    python_image,
    release,
    reporter,
    unreleased,
    values,
)

__all__ = [
    "bucket",
    "cluster",
    "images",
    "kubectl",
    "namespace",
    "python_image",
    "release",
    "reporter",
    "unreleased",
    "values",
]
