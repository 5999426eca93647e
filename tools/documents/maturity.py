"""The page of features and their stages, from the table in `di_api.spec.maturity`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from di_api.spec.maturity import FEATURES, Feature, Stage
from tools.documents.rows import ROOT

FILE = ROOT / "docs/reference/maturity.md"
_HEAD = """# Maturity

How far each feature is. Made by `make generate` from the table in `di_api/spec/maturity.py`.
`kubectl explain` shows the stage of a field, and the chart's
[values](../../charts/di-orchestrator/values.yaml) that of a value.

<!-- not tested: definitions -->

## Stages

| stage | what you can expect |
|---|---|
| alpha | off unless switched on; may change or go in any version; little experience under load |
| beta | tested with a real API server and under faults; may change, as the changelog then says |
| stable | changes only with a conversion, so that existing manifests and programs keep working |

## Features

| feature | stage | switched on by |
|---|---|---|
"""


def document() -> str:
    """The whole document."""
    return _HEAD + "\n".join(_rows()) + "\n"


def _rows() -> Iterator[str]:
    for stage in (Stage.ALPHA, Stage.BETA, Stage.STABLE):
        yield from (_row(each) for each in FEATURES if each.stage is stage)


def _row(each: Feature) -> str:
    page = os.path.relpath(ROOT / "docs" / each.page, FILE.parent)
    return f"| [{each.name}]({page}) | {each.stage} | {each.switch} |"
