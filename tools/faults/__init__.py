"""The fault harness: what happens to jobs when anything goes wrong at any moment, as data."""
