"""Where the pods of a job are, as the pods are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from di_api import names


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLists:
    """FQDNs indexed by global rank, and those of each task indexed by local index."""

    by_rank: tuple[str, ...]
    by_task: Mapping[str, tuple[str, ...]]

    def environment(self) -> dict[str, str]:
        """The lists as variables: ``DI_NODES`` and ``DI_<TASK>_NODES``."""
        return {
            names.ENV_NODES: ",".join(self.by_rank),
            **{names.task_nodes_env(task): ",".join(nodes) for task, nodes in self.by_task.items()},
        }

    def file_environment(self) -> dict[str, str]:
        """The variables that name the files of a large job instead."""
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
        """Contents of those files by name, put together anew with each call."""
        return {
            names.NODES_FILE_KEY: ",".join(self.by_rank),
            **{
                names.task_nodes_file_key(task): ",".join(nodes)
                for task, nodes in self.by_task.items()
            },
        }
