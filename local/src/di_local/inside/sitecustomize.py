"""Loaded by every Python process of a local job: whoever listens on all addresses listens on its
pod's own, as in a pod, where there are no others. Two pods could not share a port otherwise.

Runs under any Python 3 of the user's, and imports nothing of ours.
"""

import importlib.machinery
import importlib.util
import os
import socket
import sys


def _listen_on(own: str) -> None:
    bind = socket.socket.bind

    def bind_to_own(self, address):  # type: ignore[no-untyped-def]  # any Python, any address
        if self.family == socket.AF_INET and address[0] in ("", "0.0.0.0"):
            address = (own, *address[1:])
        return bind(self, address)

    socket.socket.bind = bind_to_own  # type: ignore[method-assign]  # it is the purpose


def _load_the_next() -> None:
    """The sitecustomize that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    found = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if found is not None and found.loader is not None:
        found.loader.exec_module(importlib.util.module_from_spec(found))


if os.environ.get("DI_LOCAL_ADDRESS"):
    _listen_on(os.environ["DI_LOCAL_ADDRESS"])
_load_the_next()
