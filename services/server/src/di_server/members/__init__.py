"""The members' board of a job: what its pods say of themselves, in memory.

Pods put their entries, and repeat them; whoever may read the job reads them all, and may wait for
another state. Replicas of di-server tell each other (`exchange`, `peers`); nothing is stored.
"""
