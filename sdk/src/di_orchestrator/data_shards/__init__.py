"""Data shards: the next records of a data set, in place of a part that is fixed at the start."""
