"""Tests of faults: operators are stopped, cut off and frozen while jobs run."""
