"""The counting of failures, and the other effects of a failure policy."""
