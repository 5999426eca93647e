"""Bounds that more than one field, rule or service goes by."""

from __future__ import annotations

from typing import Final

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_SPEC_BYTES: Final = 256 * 1024
"""Most bytes of a spec as compact JSON in UTF-8. The operator keeps every job in memory and reads
it at each change; a job of examples/ has 1 to 8 KiB."""
MAX_SPEC_VALUES: Final = 32 * 1024
"""Most objects, lists, texts, numbers, true, false and null of a spec. What a rule costs goes by
them: a spec of MAX_SPEC_BYTES can hold four times as many."""
MAX_ITEMS: Final = 1024
"""Most items of a list, and fields of a map, within a pod template or a volume."""
MAX_NESTED_ITEMS: Final = 256
"""The same of a list whose items have lists or maps: containers, terms of an affinity."""
MAX_TASKS: Final = 64
"""Most tasks in a job; bounds the cost of rules, which compare tasks pairwise."""
MAX_PODS: Final = 4096
"""Most pods of a job, of each task the larger of `replicas` and `maxReplicas` counted."""
MAX_VACANT: Final = 1024
"""Most indexes of a task that are left out."""
MAX_PODS_PER_REPLICA: Final = 1024
"""Most pods of one replica of a task."""
MAX_STANDBY: Final = 64
"""Most pods of a task that stand by."""
MAX_REPLICAS: Final = 2048
"""Most replicas a coordinator may have; the job carries the list of them to every watcher."""
MAX_COMPANIONS: Final = 16
"""Most objects that a job may bring along."""
MAX_RESTARTED_AT: Final = 64
"""Longest text that asks for a restart: a time, or what somebody has in place of one."""
