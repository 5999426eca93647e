"""Each command of `di` in a remedy is one that can be copied: it prints what it is for."""

from __future__ import annotations

import re

import pytest

from di_api.explain import explain
from di_api.explain.failure_causes import FAILURE_CAUSES
from di_api.explain.reasons import REASONS
from di_api.explain.refusals import explain_refusal
from di_cli.exit_codes import ExitCode
from tests.fakes.history import answering
from tests.unit.api.explain.test_first_lines import CASES
from tests.unit.cli.conftest import PODS, Di, pod, terminated

_COMMAND = re.compile(r"\bdi ([a-z][a-z-]*(?: [^,;:()\n?]*)?)")
_VALUES = {
    "job": "cartpole",
    "namespace": "rl",
    "pod": "cartpole-learner-0",
    "node": "gpu-1",
    "container": "di-container",
    "cordoned": "gpu-1",
    "cordoned_node": "gpu-1",
    "logs": "di logs cartpole",
}


def _remedies() -> list[str]:
    return [
        *(explain(case.facts).remedy for case in CASES.values()),
        *(cause.remedy.format_map(_VALUES) for cause in FAILURE_CAUSES),
        *(row.remedy.format_map(_VALUES) for row in REASONS.values()),
        *(
            explain_refusal("x", code=code, reason="", message="").remedy
            for code in (0, 400, 401, 403, 404, 409, 422, 429)
        ),
    ]


_COMMANDS = sorted({found.strip() for text in _remedies() for found in _COMMAND.findall(text)})


def test_remedies_name_commands() -> None:
    assert len(_COMMANDS) > 5


@pytest.mark.parametrize("command", _COMMANDS)
def test_a_command_in_a_remedy_can_be_copied(
    di: Di, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    di.job(phase="Failed")
    body = pod("cartpole", "learner", 0, 0, **terminated(1, "Error", "11:19:00"))
    body["spec"]["initContainers"] = [{"name": "prepare"}]
    name = body["metadata"]["name"]
    di.world.put(f"{PODS}/{name}", body)
    for log in (name, f"{name}/previous", f"{name}/prepare/previous"):
        di.world.logs[log] = ["2026-03-01T11:18:59Z line"]
    with answering() as history:
        monkeypatch.setenv("DI_HISTORY_URL", history.url)
        said = di(*command.split())
    assert said.code == ExitCode.DONE, said.err
    assert said.out
