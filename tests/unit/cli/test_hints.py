"""Commands in hints work when they are copied."""

from __future__ import annotations

import pytest

from di_cli.hints import with_options
from tests.unit.cli.conftest import JOBS, Di, job


@pytest.mark.parametrize(
    ("hint", "completed"),
    [
        ("di logs x --previous: correct it", "di -n a logs x --previous: correct it"),
        ("di describe x, di events x", "di -n a describe x, di -n a events x"),
        (
            "kubectl di why x; then kubectl get pods",
            "kubectl di -n a why x; then kubectl -n a get pods",
        ),
        ("di list -A shows all", "di list -A shows all"),
        ("kubectl get quota -n b", "kubectl get quota -n b"),
        ("log in again; di-server knows it", "log in again; di-server knows it"),
        ("a medium di", "a medium di"),
    ],
)
def test_commands_of_a_hint_have_the_options_that_were_given(hint: str, completed: str) -> None:
    assert with_options(hint, "-n a") == completed
    assert with_options(hint, "") == hint


def test_a_hint_names_the_namespace_that_was_given(di: Di) -> None:
    di.world.put(f"{JOBS.replace('/rl/', '/team/')}/x", job("x", "Failed"))
    said = di("wait", "x", "-n", "team", "--context", "test")
    assert said.err.splitlines()[-1] == "  try: di -n team --context test why x"
    di.job(phase="Failed")
    assert di("wait", "cartpole").err.splitlines()[-1] == "  try: di why cartpole"


def test_a_hint_that_names_the_namespace_works(di: Di) -> None:
    di.world.put(f"{JOBS.replace('/rl/', '/team/')}/x", job("x", "Failed"))
    hint = di("wait", "x", "-n", "team").err.splitlines()[-1]
    assert di(*hint.removeprefix("  try: di ").split()).code == 0
