"""Node lists: the DNS names of a job's pods, as variables or files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from di_api import names

MAX_VARIABLE: Final = 128 * 1024
"""Maximum bytes of one variable, `NAME=VALUE` with the terminating zero: Linux starts no program
with a longer one (MAX_ARG_STRLEN).
"""

Source: TypeAlias = Mapping[str, Any]
"""A core/v1 EnvVarSource."""


@dataclass(frozen=True, kw_only=True)  # without slots, which a cached property needs
class NodeLists:
    """The FQDNs of all pods indexed by global rank, and those of each task indexed by local
    index. Variables are made once for all pods: their time would grow with the square of the pods.
    """

    by_rank: tuple[str, ...]
    by_task: Mapping[str, tuple[str, ...]]

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Return the lists as variables: ``DI_NODES`` and ``DI_<TASK>_NODES``."""
        return {
            names.ENV_NODES: ",".join(self.by_rank),
            **{names.task_nodes_env(task): ",".join(nodes) for task, nodes in self.by_task.items()},
        }

    def large_environment(self, configmap: str) -> dict[str, str | Source]:
        """Return the variables of a large job: references to the lists, and the names of their
        files.

        A list that is too long for a variable is only in its file.

        Args:
            configmap: the name of the ConfigMap with `files`.
        """
        lists: dict[str, str | Source] = {
            variable: {"configMapKeyRef": {"name": configmap, "key": key}}
            for variable, key in self._short_lists.items()
        }
        return lists | self._files_environment()

    @cached_property
    def _short_lists(self) -> Mapping[str, str]:
        """Return the variables that are short enough, with the names of their files."""
        keys = {
            names.ENV_NODES: (names.NODES_FILE_KEY, self.by_rank),
            **{
                names.task_nodes_env(task): (names.task_nodes_file_key(task), nodes)
                for task, nodes in self.by_task.items()
            },
        }
        return {
            variable: key
            for variable, (key, nodes) in keys.items()
            if len(variable) + 1 + sum(map(len, nodes)) + len(nodes) <= MAX_VARIABLE
        }

    def _files_environment(self) -> dict[str, str]:
        return {
            names.ENV_NODES_FILE: f"{names.NODES_FILE_DIR}/{names.NODES_FILE_KEY}",
            **{
                names.task_nodes_file_env(task): (
                    f"{names.NODES_FILE_DIR}/{names.task_nodes_file_key(task)}"
                )
                for task in self.by_task
            },
        }

    def files(self) -> dict[str, str]:
        """Return the contents of the files by name; built at each call."""
        return {
            names.NODES_FILE_KEY: ",".join(self.by_rank),
            **{
                names.task_nodes_file_key(task): ",".join(nodes)
                for task, nodes in self.by_task.items()
            },
        }
