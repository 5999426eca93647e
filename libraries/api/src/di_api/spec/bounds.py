"""Bounds that several fields, rules or services use."""

from __future__ import annotations

from typing import Final

MAX_INT32: Final = 2**31 - 1
MAX_INT64: Final = 2**63 - 1
MAX_SPEC_BYTES: Final = 256 * 1024
"""Maximum bytes of a spec as compact JSON in UTF-8. The operator keeps every job in memory and
parses it at each change; a job of examples/ has 1 to 8 KiB.
"""
MAX_SPEC_VALUES: Final = 32 * 1024
"""Maximum number of objects, lists, strings, numbers, true, false and null in a spec. They
determine the cost of a rule, and a spec of MAX_SPEC_BYTES could contain four times as many.
"""
MAX_ITEMS: Final = 1024
"""Maximum number of items of a list, and fields of a map, within a pod template or a volume."""
MAX_NESTED_ITEMS: Final = 256
"""Maximum number of items of a list whose items contain lists or maps: containers, terms of an
affinity.
"""
MAX_TASKS: Final = 64
"""Maximum number of tasks in a job; bounds the cost of rules that compare tasks pairwise."""
MAX_PODS: Final = 4096
"""Maximum number of pods of a job, where each task counts with the larger of `replicas` and
`maxReplicas`.
"""
MAX_VACANT: Final = 1024
"""Maximum number of vacant indexes of a task."""
MAX_PODS_PER_REPLICA: Final = 1024
"""Maximum number of pods of one replica."""
MAX_STANDBY: Final = 64
"""Maximum number of standby pods of a task."""
MAX_REPLICAS: Final = 2048
"""Maximum number of replicas that a coordinator can request; the job sends their list to every
watcher.
"""
MAX_COMPANIONS: Final = 16
"""Maximum number of companions of a job."""
MAX_RESTARTED_AT: Final = 64
"""Maximum length of the text that requests a restart: a time, or any other text."""
MAX_CODE: Final = 320
"""Maximum length of the text in the status for the code of the pods: hash and requirements."""
