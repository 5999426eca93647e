"""Functions that are called when a module has been imported."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Callback = Callable[[ModuleType], None]


def after_import(callbacks: Mapping[str, Callback]) -> None:
    """Call each function with the module of its name: now, or once the program has imported it.

    A module that is imported later has the change before `from module import name` binds a name.
    """
    waiting = {}
    for name, callback in callbacks.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = callback
        else:
            callback(module)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


class _Finder(MetaPathFinder):
    """Finds the modules as the other finders do, with a loader that calls the function last."""

    def __init__(self, waiting: dict[str, Callback]) -> None:
        self._waiting = waiting

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        callback = self._waiting.pop(fullname, None)
        if callback is None:
            return None
        # Without this name the search comes to the other finders.
        found = find_spec(fullname)
        if found is not None and found.loader is not None:
            found.loader = _Loader(found.loader, callback)
        return found


class _Loader(Loader):
    """A loader whose module is passed to a function once it is complete."""

    def __init__(self, loader: Loader, callback: Callback) -> None:
        self._loader = loader
        self._callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # The module keeps the loader that resources and pickles of it need.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._callback(module)
