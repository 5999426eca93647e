"""Jobs from outside, such as a notebook: `from di_orchestrator import jobs`.

It is the Python side of the command `di`, whose package it needs: the extra `client`, with Python
3.11.2 or newer.
"""

try:
    from di_cli.client import *  # noqa: F403  # the names are those of its __all__
except ImportError as error:
    raise ImportError(
        "di_orchestrator.jobs needs the package di-cli and Python 3.11.2 or newer: "
        "pip install './sdk[client]' in a clone of the repository"
    ) from error
