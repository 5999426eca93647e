"""The board of a job's members: entries that its pods publish, kept in memory.

Pods put their entries, and repeat them. A client that can read the job reads all entries, and can
wait for a change. Replicas of di-server exchange entries (`exchange`, `peers`); nothing is stored.
"""
