"""Data shards: the workers of a job request the next records of a data set in place of a part that
is fixed when they start.
"""
