"""A cold run has an empty cache of its own, and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.prepare import cold


@pytest.mark.parametrize(
    ("value", "variables"),
    [("1", set()), ("all", {"GOCACHE", "GOMODCACHE", "PIP_CACHE_DIR"})],
)
def test_a_cold_run_has_an_empty_cache_that_is_removed(
    tmp_path: Path, value: str, variables: set[str]
) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "COLD": value, "GOCACHE": "/usual"}
    before = dict(environment)
    with cold.cache(environment) as folder:
        assert list(folder.iterdir()) == []
        assert folder.parent == tmp_path
        assert environment["DI_ORCHESTRATOR_CACHE"] == str(folder)
        assert {name for name, each in environment.items() if f"{folder}/" in each} == variables
        # Programs that it starts use the same folder.
        with cold.cache(environment) as inner:
            assert inner == folder
        (folder / "module").mkdir()
        (folder / "module" / "file").touch()
        (folder / "module").chmod(0o500)
    assert environment == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("own", [{}, {"COLD": ""}, {"COLD": "0"}])
def test_a_usual_run_keeps_its_cache(own: dict[str, str], tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), **own}
    with cold.cache(environment) as folder:
        assert folder == tmp_path / "di-orchestrator"
    assert environment == {"XDG_CACHE_HOME": str(tmp_path), **own}


def test_another_value_is_refused(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "COLD": "yes"}
    with pytest.raises(SystemExit, match="COLD=yes: it takes 0, 1 or all"), cold.cache(environment):
        pass
