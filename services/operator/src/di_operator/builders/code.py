"""The volumes, variables, and the start or the init container by which pods get `spec.code`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from di_api import names
from di_api.code_names import (
    CODE_BUNDLE_DIR,
    CODE_BUNDLE_KEY,
    CODE_BUNDLE_VOLUME,
    CODE_PACKAGES,
    CODE_VOLUME,
)
from di_api.pods.main_container import main_container
from di_api.spec import Code

Object = Mapping[str, Any]

_PYTHON_PATH: Final = "PYTHONPATH"
_CACHES: Final = ("PIP_CACHE_DIR", "UV_CACHE_DIR")
_INSTALLERS: Final = ("PIP_", "UV_")
_PYTHON: Final = ("python3", "-c")


def with_code(body: dict[str, Any], code: Code | None) -> dict[str, Any]:
    """Return a pod whose containers have the code; unchanged without one.

    The main container unpacks it before its program, if nothing else needs the files earlier: the
    kubelet takes up to a second to notice that an init container has ended. Otherwise an init
    container goes before those of the template, which find the files too. It has the image,
    resources and permissions of the main container: the pod requests no more and keeps its QoS
    class, and the files belong to the user of the program. Only the main container starts in the
    directory of the code, unless its template sets another.
    """
    spec: Object = body["spec"]
    main = main_container(spec.get("containers") or ())
    if code is None or main is None:
        return body
    volumes = [
        *(spec.get("volumes") or ()),
        {"name": CODE_VOLUME, "emptyDir": {}},
        {"name": CODE_BUNDLE_VOLUME, **_bundle(code)},
    ]
    if _unpacks_itself(spec, code):
        own = _unpacking_first(_reading(main, code), code)
        return {**body, "spec": {**spec, "containers": [own], "volumes": volumes}}
    init = list(spec.get("initContainers") or ())
    # The check of a node comes first, as it does without code.
    checks = [each for each in init if each.get("name") == names.NODE_CHECK]
    others = [_reading(each, code) for each in init if each.get("name") != names.NODE_CHECK]
    containers = [_reading(each, code) for each in spec["containers"]]
    first = main_container(containers)
    if first is not None:
        first.setdefault("workingDir", code.path)
    return {
        **body,
        "spec": {
            **spec,
            "initContainers": [*checks, _unpacking(main, code), *others],
            "containers": containers,
            "volumes": volumes,
        },
    }


def _unpacks_itself(spec: Object, code: Code) -> bool:
    """Return whether the only container can unpack the code before its program.

    Other containers and hooks need the files earlier. A restart in the pod keeps what the program
    wrote. Requirements need the variables of pip alone, and a claim is mounted in no program. The
    command in an image is unknown.
    """
    (first, *others) = spec["containers"]
    init = [each for each in spec.get("initContainers") or () if each["name"] != names.NODE_CHECK]
    return (
        bool(first.get("command"))
        and not (others or init or code.requirements or code.persistent_volume_claim)
        and spec.get("restartPolicy") == "Never"
        and "postStart" not in (first.get("lifecycle") or {})
        and not any(_covers_bundle(str(each["mountPath"])) for each in _mounts_of(first))
    )


def _mounts_of(container: Object) -> Sequence[Object]:
    return container.get("volumeMounts") or ()


def _covers_bundle(path: str) -> bool:
    """Return whether a mount hides the directory of the bundle, or is in it. In most images
    /var/run is a link to /run.
    """
    place = f"{path.rstrip('/')}/"
    return (
        place == "/run/"
        or f"{CODE_BUNDLE_DIR}/".startswith(place)
        or (place.startswith(f"{CODE_BUNDLE_DIR}/"))
    )


def _unpacking_first(main: dict[str, Any], code: Code) -> dict[str, Any]:
    """Return the main container with a command that unpacks the code and becomes its own."""
    return {
        "workingDir": code.path,
        **main,
        "command": [*_PYTHON, _program(), *main["command"]],
        "env": [*main["env"], *_environment(code), *_of_message(main)],
        "volumeMounts": [*main["volumeMounts"], _mount_of_bundle(code)],
    }


def _unpacking(main: Object, code: Code) -> dict[str, Any]:
    same = ("image", "imagePullPolicy", "resources", "securityContext")
    return {
        "name": names.CODE_CONTAINER,
        **{key: main[key] for key in same if key in main},
        "command": [*_PYTHON, _program()],
        "env": [
            # Those of the template include the index and the proxies of pip or uv.
            *({**each} for each in main.get("env") or () if _is_for_installer(each)),
            *_environment(code),
        ],
        "volumeMounts": [_mount(code), _mount_of_bundle(code), *_of_cache(main)],
    }


def _environment(code: Code) -> list[Object]:
    """Return the variables of the program that unpacks."""
    env = {
        "DI_CODE_BUNDLE": f"{CODE_BUNDLE_DIR}/{CODE_BUNDLE_KEY}",
        "DI_CODE_SHA256": code.sha256,
        "DI_CODE_DIRECTORY": code.path,
        **({"DI_CODE_PARTS": str(code.parts)} if (code.parts or 1) > 1 else {}),
        **({"DI_CODE_REQUIREMENTS": code.requirements} if code.requirements else {}),
    }
    return [{"name": name, "value": value} for name, value in env.items()]


def _of_message(main: Object) -> list[Object]:
    """Return the variable with the file of the container's termination message, if the template
    has chosen one.
    """
    path = main.get("terminationMessagePath")
    return [{"name": "DI_CODE_REPORT", "value": path}] if path else []


def _mount_of_bundle(code: Code) -> Object:
    return {
        "name": CODE_BUNDLE_VOLUME,
        "mountPath": CODE_BUNDLE_DIR,
        # No other bundle of the claim, and no other folder.
        **({"subPath": code.folder} if code.persistent_volume_claim else {}),
        "readOnly": True,
    }


def _bundle(code: Code) -> dict[str, Any]:
    """Return the source of the bundle's volume: a claim, or ConfigMaps with a file for each part,
    `KEY`, `KEY.2` and so on.
    """
    if claim := code.persistent_volume_claim:
        return {"persistentVolumeClaim": {"claimName": claim}}
    key = CODE_BUNDLE_KEY
    first, *others = (
        {"name": name, "items": [{"key": key, "path": path}]}
        for name, path in zip(
            names.code_config_maps(code.config_map, code.parts),
            names.code_config_maps(key, code.parts),
            strict=True,
        )
    )
    if not others:
        return {"configMap": first}
    return {"projected": {"sources": [{"configMap": each} for each in (first, *others)]}}


def _reading(container: Object, code: Code) -> dict[str, Any]:
    """Return a container with the files, and the packages beside them on PYTHONPATH."""
    path = f"{code.path}:{code.path}/{CODE_PACKAGES}"
    given = container.get("env") or ()
    env = [_extended(each, path) if each.get("name") == _PYTHON_PATH else each for each in given]
    if not any(each.get("name") == _PYTHON_PATH for each in given):
        env.append({"name": _PYTHON_PATH, "value": path})
    mounts = [*_mounts_of(container), _mount(code)]
    return {**container, "env": env, "volumeMounts": mounts}


def _extended(variable: Object, path: str) -> Object:
    """Return the template's variable with our directories after its own; a variable that has a
    source in place of a value is kept.
    """
    if "valueFrom" in variable:
        return variable
    value = variable.get("value")
    return {**variable, "value": f"{value}:{path}" if value else path}


def _of_cache(main: Object) -> list[Object]:
    """Return the mount of the main container that has the directory of the cache of packages."""
    values = [each.get("value") for each in main.get("env") or () if each.get("name") in _CACHES]
    mounts = [
        each
        for each in _mounts_of(main)
        if values and f"{values[-1]}/".startswith(f"{str(each.get('mountPath')).rstrip('/')}/")
    ]
    return sorted(mounts, key=lambda each: len(each["mountPath"]))[-1:]


def _is_for_installer(variable: Object) -> bool:
    name = str(variable.get("name"))
    return name.startswith(_INSTALLERS) or name.upper() in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")


def _mount(code: Code) -> dict[str, Any]:
    return {"name": CODE_VOLUME, "mountPath": code.path}


@cache
def _program() -> str:
    # Read as text and never imported: it runs in the image of the task.
    return (resources.files("di_unpack") / "program.py").read_text("utf-8")
