"""The HTTP interface of the history, and its authorization."""
