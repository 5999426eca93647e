"""The bounds on the jobs of each namespace: queues of the policy, and ResourceQuotas. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from di_operator.allocator.model.job import Account, JobInfo, NodeList
from di_operator.allocator.model.resources import Resources, total
from di_operator.allocator.observe.node_usage import Ledger
from di_operator.allocator.sharing.queues import Queues
from di_operator.allocator.sharing.quotas import counted_by
from di_operator.allocator.withdrawals.resource_quotas import ResourceQuotas

Present: TypeAlias = Mapping[tuple[str, str], int]
"""Pods of a job by task and node that exist and are not ending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds on namespaces, and their usage.

    Attributes:
        queues: the policy's.
        quotas: the ResourceQuotas.
        besides: by namespace with a queue, what jobs take that the allocator does not decide on.
        own: by namespace, what pods of its own jobs take.
    """

    queues: Queues
    quotas: ResourceQuotas
    besides: Ledger
    own: Ledger

    def applied(
        self,
        jobs: Mapping[str, JobInfo],
        held: Mapping[str, NodeList],
        present: Mapping[str, Present],
    ) -> dict[str, JobInfo]:
        """Return the jobs, each with the account of its namespace if that has one.

        Args:
            jobs: the jobs that the allocator decides on.
            held: by key of a job, the nodes granted to it.
            present: by key of a job, its pods.
        """
        limited = self.quotas.namespaces & {job.namespace for job in jobs.values()}
        found = {
            key: self._scoped(job) if job.namespace in limited else job for key, job in jobs.items()
        }
        accounts = self._accounts(limited, found, held, present)
        return {
            key: job
            if (account := accounts.get(job.namespace)) is None
            # One account serves all jobs of a namespace.
            else replace(job, account=account)
            for key, job in found.items()
        }

    def _scoped(self, job: JobInfo) -> JobInfo:
        tasks = tuple(self.quotas.counted(job.namespace, task) for task in job.tasks)
        return job if tasks == job.tasks else replace(job, tasks=tasks)

    def _accounts(
        self,
        limited: frozenset[str],
        jobs: Mapping[str, JobInfo],
        held: Mapping[str, NodeList],
        present: Mapping[str, Present],
    ) -> Mapping[str, Account | None]:
        accounts = {
            name: self.queues.account(name, dict(self.besides.taken(name)))
            for name in self.queues.by_namespace
        }
        has: dict[str, list[Resources]] = {name: [] for name in limited}
        own: dict[str, list[Resources]] = {name: [self.own.taken(name)] for name in limited}
        for key, job in jobs.items() if limited else ():
            if job.namespace in limited:
                granted = {task: len(nodes) for task, nodes in held[key].tasks}
                has[job.namespace].append(counted_by(job, granted))
                own[job.namespace].append(_counted_by_scoped(job, present[key]))
        for name in limited:
            accounts[name] = self.quotas.account(
                name, accounts.get(name), own=total(own[name]), held=total(has[name])
            )
        return accounts


def _counted_by_scoped(job: JobInfo, present: Present) -> Resources:
    pods: Counter[str] = Counter()
    for (task, _), count in present.items():
        pods[task] += count
    return total(
        {name: pods[task.name] * amount for name, amount in task.scoped.items()}
        for task in job.tasks
    )
