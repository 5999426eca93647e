"""The test commands: which lanes each of them has, how they run, and the page of results."""
