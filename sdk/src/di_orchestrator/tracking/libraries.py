"""The methods by which each tracker gets its numbers.

A method of the library is wrapped, and its arguments are reported before it is called. A library
without the method, such as one of another version, is left as it is, with a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from inspect import signature
from types import ModuleType
from typing import Any

from di_orchestrator.tracking.after_import import Callback
from di_orchestrator.tracking.forwarder import Forwarder
from di_orchestrator.warnings_once import Warnings

_warnings = Warnings()

Arguments = Mapping[str, Any]
Seen = Callable[[Any, Arguments], None]
"""Takes the object of the wrapped method, and the arguments that were given, by name."""


def callbacks(to: Forwarder) -> Mapping[str, Callback]:
    """Return the functions that change a tracker's module once it is imported, by its name."""
    writer = {"add_scalar": partial(_scalar, to), "add_scalars": partial(_several, to)}
    mlflow = {"log_metric": partial(_metric, to), "log_batch": partial(_batch, to)}
    return {
        # PyTorch, Stable-Baselines3, CleanRL, Transformers
        "torch.utils.tensorboard.writer": partial(_wrap, "SummaryWriter", writer),
        # RLlib, DI-engine
        "tensorboardX.writer": partial(_wrap, "SummaryWriter", writer),
        "wandb.sdk.wandb_run": partial(_wrap, "Run", {"log": partial(_wandb, to)}),
        "mlflow.tracking.client": partial(_wrap, "MlflowClient", mlflow),
    }


def _wrap(name: str, methods: Mapping[str, Seen], module: ModuleType) -> None:
    kind = getattr(module, name, None)
    for method, seen in methods.items():
        inner = getattr(kind, method, None)
        if callable(inner):
            setattr(kind, method, _followed(inner, seen))
        else:
            text = f"{module.__name__} has no {name}.{method}: its numbers are not reported"
            _warnings.say(text)


def _followed(inner: Callable[..., Any], seen: Seen) -> Callable[..., Any]:
    taken = signature(inner)

    @wraps(inner)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            seen(self, taken.bind(self, *args, **kwargs).arguments)
        except Exception as error:  # the program goes on, whatever is wrong here
            _warnings.say(f"a number was not reported: {error!r}", kind=type(error).__name__)
        return inner(self, *args, **kwargs)

    return method


def _scalar(to: Forwarder, _: Any, said: Arguments) -> None:
    to.scalars({said["tag"]: said["scalar_value"]}, said.get("global_step"))


def _several(to: Forwarder, _: Any, said: Arguments) -> None:
    values = {f"{said['main_tag']}/{tag}": each for tag, each in said["tag_scalar_dict"].items()}
    to.scalars(values, said.get("global_step"))


def _wandb(to: Forwarder, run: Any, said: Arguments) -> None:
    step = said.get("step")
    # The library counts the calls if the program gives no step; this one is not counted yet.
    to.scalars(_flat(said["data"]), run.step if step is None else step)
    if not getattr(run, "offline", False):
        to.page(run.url)


def _flat(data: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{path}.{key}" if path else str(key)
        found.update(_flat(value, name) if isinstance(value, Mapping) else {name: value})
    return found


def _metric(to: Forwarder, client: Any, said: Arguments) -> None:
    to.scalars({said["key"]: said["value"]}, said.get("step") or 0)
    _mlflow_page(to, client, said["run_id"])


def _batch(to: Forwarder, client: Any, said: Arguments) -> None:
    for each in said.get("metrics") or ():
        to.scalars({each.key: each.value}, each.step)
    _mlflow_page(to, client, said["run_id"])


def _mlflow_page(to: Forwarder, client: Any, run_id: str) -> None:
    server = str(getattr(client, "tracking_uri", "")).rstrip("/")
    # MLflow finds the experiment of a run by itself.
    to.page(f"{server}/#/runs/{run_id}")
