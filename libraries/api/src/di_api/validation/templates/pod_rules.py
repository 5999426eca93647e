"""Rules of core/v1's own pod validation, as far as a table can express them.

The API server applies these rules to pods only. It accepts a template that breaks one, and its job
fails when it starts. A rule here refuses nothing that an API server accepts:
`tests/integration/admission/test_pod_rules.py` compares them.

Raw values of any shape are accepted: the schema reports wrong types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from di_api.field_error import ABSENT, FieldError, child, items, mapping
from di_api.quantity import fault_of_amount, read_quantity
from di_api.validation.repeated import names_of, repeated, repeated_names
from di_api.validation.templates.core_names import (
    Check,
    between,
    fault_of_key,
    fault_of_label,
    fault_of_name,
    fault_of_port_name,
    fault_of_variable,
)

Object = Mapping[str, Any]

_MAX_PORT: Final = 65535
_PORT: Final = between(1, _MAX_PORT)
_COUNT: Final = between(0)
_POD: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "terminationGracePeriodSeconds": _COUNT,
        "activeDeadlineSeconds": between(1),
    }
)
_CONTAINER: Final[Mapping[str, Check]] = MappingProxyType({"name": fault_of_name})
_PORTS: Final[Mapping[str, Check]] = MappingProxyType(
    {"containerPort": _PORT, "hostPort": between(0, _MAX_PORT), "name": fault_of_port_name}
)
_VARIABLES: Final[Mapping[str, Check]] = MappingProxyType({"name": fault_of_variable})
_PROBE: Final[Mapping[str, Check]] = MappingProxyType(
    {
        "initialDelaySeconds": _COUNT,
        "timeoutSeconds": _COUNT,
        "periodSeconds": _COUNT,
        "successThreshold": _COUNT,
        "failureThreshold": _COUNT,
        "terminationGracePeriodSeconds": between(1),
    }
)
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS: Final = ("exec", "grpc", "httpGet", "tcpSocket")
_HOOKS: Final = ("postStart", "preStop")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "sleep", "tcpSocket")
_SET: Final = frozenset({"In", "NotIn"})
_EXISTENCE: Final = frozenset({"Exists", "DoesNotExist"})
_CONTAINERS: Final = ("containers", "initContainers")
_UNIQUE_IN_POD: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "resourceClaims": ("name",),
        "schedulingGates": ("name",),
        "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    }
)
"""Lists no two items of which have the same values of these fields."""


def pod_faults(path: str, template: object, job_volumes: set[str]) -> Iterator[FieldError]:
    """Yield the errors of a template at `path` beyond its schema, in linear time.

    Args:
        path: of the template.
        template: raw, of any shape.
        job_volumes: names of the volumes that the job adds to each of its pods.
    """
    metadata, spec = (mapping(mapping(template).get(key)) for key in ("metadata", "spec"))
    yield from _labels(f"{path}.metadata.labels", metadata.get("labels"))
    yield from _keys(f"{path}.metadata.annotations", metadata.get("annotations"), fold=True)
    path = f"{path}.spec"
    yield from _values(path, spec, _POD)
    yield from _labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    yield from _each(f"{path}.tolerations", spec.get("tolerations"), _toleration)
    yield from _affinity(f"{path}.affinity", mapping(spec.get("affinity")))
    yield from _each(f"{path}.volumes", spec.get("volumes"), _volume)
    yield from repeated_names(names_of(spec.get("volumes")), f"{path}.volumes", "another volume")
    volumes = {*names_of(spec.get("volumes")).values(), *job_volumes}
    claims = set(names_of(spec.get("resourceClaims")).values())
    for field, keys in _UNIQUE_IN_POD.items():
        yield from _repeated(f"{path}.{field}", spec.get(field), keys)
    names = {
        (field, index): name
        for field in _CONTAINERS
        for index, name in names_of(spec.get(field)).items()
    }
    for field, index in repeated(names):
        message = "is the name of another container already"
        yield FieldError(f"{path}.{field}[{index}].name", names[field, index], message)
    for field in _CONTAINERS:
        for index, container in enumerate(map(mapping, items(spec.get(field)))):
            where = f"{path}.{field}[{index}]"
            yield from _container(where, container)
            yield from _mounts(where, container, volumes)
            yield from _claims(where, container, claims)


def _container(path: str, container: Object) -> Iterator[FieldError]:
    # A missing container name is reported by the schema.
    if container.get("name"):
        yield from _values(path, container, _CONTAINER)
    ports = container.get("ports")
    yield from _each(f"{path}.ports", ports, lambda where, port: _values(where, port, _PORTS))
    yield from repeated_names(_named_ports(ports), f"{path}.ports", "another port")
    yield from _each(f"{path}.env", container.get("env"), _variable)
    for key in ("name", "devicePath"):
        yield from _repeated(f"{path}.volumeDevices", container.get("volumeDevices"), (key,))
    yield from _resources(f"{path}.resources", mapping(container.get("resources")))
    for name in _PROBES:
        if (probe := container.get(name)) is not None:
            yield from _values(f"{path}.{name}", mapping(probe), _PROBE)
            yield from _one_of(f"{path}.{name}", mapping(probe), _PROBE_HANDLERS)
    for name in _HOOKS:
        if (hook := mapping(container.get("lifecycle")).get(name)) is not None:
            yield from _one_of(f"{path}.lifecycle.{name}", mapping(hook), _HOOK_HANDLERS)


def _repeated(path: str, found: object, keys: tuple[str, ...]) -> Iterator[FieldError]:
    """Yield an error for each item of the list at `path` whose values of `keys` are those of an
    item before it.
    """
    values: dict[int, tuple[str, ...]] = {
        index: tuple(item[key] for key in keys)
        for index, item in enumerate(map(mapping, items(found)))
        if all(isinstance(item.get(key), str) for key in keys)
    }
    message = f"is the {' and '.join(keys)} of another item already"
    for index in repeated(values):
        yield FieldError(f"{path}[{index}].{keys[0]}", values[index][0], message)


def _named_ports(ports: object) -> dict[int, str]:
    return {index: name for index, name in names_of(ports).items() if name}


def _variable(path: str, variable: Object) -> Iterator[FieldError]:
    yield from _values(path, variable, _VARIABLES)
    source = variable.get("valueFrom")
    if source is None:
        return
    if variable.get("value"):
        yield FieldError(f"{path}.valueFrom", source, "goes not with a value")
    fields = tuple(mapping(source)) or ("fieldRef",)
    yield from _one_of(f"{path}.valueFrom", mapping(source), fields)


def _mounts(path: str, container: Object, volumes: set[str]) -> Iterator[FieldError]:
    seen: dict[str, int] = {}
    for index, mount in enumerate(map(mapping, items(container.get("volumeMounts")))):
        where = f"{path}.volumeMounts[{index}]"
        name, at = mount.get("name"), mount.get("mountPath")
        if isinstance(name, str) and name not in volumes:
            message = "is the name of no volume, neither of the template nor of spec.volumes"
            yield FieldError(f"{where}.name", name, message)
        if at == "":
            yield FieldError(f"{where}.mountPath", at, "is required")
        elif isinstance(at, str) and seen.setdefault(at, index) != index:
            message = f"is the path of volumeMounts[{seen[at]}] already"
            yield FieldError(f"{where}.mountPath", at, message)
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield FieldError(f"{where}.subPathExpr", mount["subPathExpr"], "goes not with subPath")
        sub_path = mount.get("subPath")
        if isinstance(sub_path, str) and (sub_path.startswith("/") or ".." in sub_path.split("/")):
            message = "must be a path below the volume, without '..'"
            yield FieldError(f"{where}.subPath", sub_path, message)


def _claims(path: str, container: Object, claims: set[str]) -> Iterator[FieldError]:
    found = mapping(container.get("resources")).get("claims")
    for index, name in names_of(found).items():
        if name not in claims:
            message = "is the name of no claim in resourceClaims of the pod"
            yield FieldError(f"{path}.resources.claims[{index}].name", name, message)
    yield from repeated_names(names_of(found), f"{path}.resources.claims", "another claim")


def _resources(path: str, resources: Object) -> Iterator[FieldError]:
    limits, requests = (mapping(resources.get(key)) for key in ("limits", "requests"))
    for field, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            where = child(f"{path}.{field}", name)
            if fault := fault_of_key(name):
                yield FieldError(where, amount, fault)
            elif _is_extended(name) and _is_broken(amount):
                yield FieldError(where, amount, "must be a whole number of such devices")
    for name, amount in requests.items():
        if not _is_extended(name) or amount is None or fault_of_amount(amount):
            continue
        where, limit = child(f"{path}.requests", name), limits.get(name)
        if limit is None:
            yield FieldError(where, amount, f"needs a limit of {name[:253]} that is as much")
        elif not fault_of_amount(limit) and read_quantity(amount) < read_quantity(limit):
            yield FieldError(where, amount, f"must be as much as the limit, {limit}")


def _is_broken(amount: Any) -> bool:
    return amount is not None and not fault_of_amount(amount) and read_quantity(amount) % 1 != 0


def _is_extended(name: str) -> bool:
    """Return whether a resource is an extended one, of which a pod gets whole units."""
    domain, slash, _ = name.rpartition("/")
    is_ours = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not is_ours and not name.startswith("requests.")


def _volume(path: str, volume: Object) -> Iterator[FieldError]:
    if isinstance(name := volume.get("name"), str) and (fault := fault_of_name(name)):
        yield FieldError(f"{path}.name", name, fault)
    sources = sorted(key for key, value in volume.items() if key != "name" and value is not None)
    if len(sources) > 1:
        message = f"must have one source, and has {', '.join(map(str, sources[:4]))[:200]}"
        yield FieldError(path, volume, message)


def _toleration(path: str, toleration: Object) -> Iterator[FieldError]:
    key, operator, value = (toleration.get(each) for each in ("key", "operator", "value"))
    if isinstance(key, str) and key and (fault := fault_of_key(key)):
        yield FieldError(f"{path}.key", key, fault)
    if not key and operator != "Exists":
        message = "must be Exists where there is no key"
        yield FieldError(f"{path}.operator", operator or ABSENT, message)
    if operator == "Exists" and value:
        yield FieldError(f"{path}.value", value, "goes not with the operator Exists")
    is_equal = operator in (None, "", "Equal") and isinstance(value, str)
    if is_equal and (fault := fault_of_label(value)):
        yield FieldError(f"{path}.value", value, fault)
    effect = toleration.get("effect")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield FieldError(f"{path}.effect", effect, "must be NoExecute with tolerationSeconds")


def _affinity(path: str, affinity: Object) -> Iterator[FieldError]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    nodes = mapping(affinity.get("nodeAffinity"))
    where = f"{path}.nodeAffinity"
    terms = mapping(nodes.get(required)).get("nodeSelectorTerms")
    yield from _each(f"{where}.{required}.nodeSelectorTerms", terms, _node_term)
    yield from _each(f"{where}.{preferred}", nodes.get(preferred), _preference)


def _preference(path: str, preference: Object) -> Iterator[FieldError]:
    yield from _values(path, preference, {"weight": between(1, 100)})
    yield from _node_term(f"{path}.preference", mapping(preference.get("preference")))


def _node_term(path: str, term: Object) -> Iterator[FieldError]:
    yield from _each(f"{path}.matchExpressions", term.get("matchExpressions"), _requirement)


def _requirement(path: str, requirement: Object) -> Iterator[FieldError]:
    key, operator = requirement.get("key"), requirement.get("operator")
    values = items(requirement.get("values"))
    if isinstance(key, str) and (fault := fault_of_key(key)):
        yield FieldError(f"{path}.key", key, fault)
    if operator in _EXISTENCE and values:
        yield FieldError(f"{path}.values", values, f"goes not with the operator {operator}")
    if operator in _SET and not values:
        yield FieldError(f"{path}.values", values, f"must hold a value for {operator}")
    if operator in _SET:
        for index, value in enumerate(values):
            if isinstance(value, str) and (fault := fault_of_label(value)):
                yield FieldError(f"{path}.values[{index}]", value, fault)


def _labels(path: str, labels: object) -> Iterator[FieldError]:
    yield from _keys(path, labels)
    for key, value in mapping(labels).items():
        if isinstance(value, str) and (fault := fault_of_label(value)):
            yield FieldError(child(path, key), value, fault)


def _keys(path: str, found: object, *, fold: bool = False) -> Iterator[FieldError]:
    for key, value in mapping(found).items():
        # The API server checks the lower-case form of an annotation's key.
        if fault := fault_of_key(key.lower() if fold else key):
            yield FieldError(child(path, key), value, fault)


def _values(path: str, owner: Object, checks: Mapping[str, Check]) -> Iterator[FieldError]:
    for field, check in checks.items():
        value = owner.get(field)
        if type(value) is (str if check in _OF_TEXT else int) and (fault := check(value)):
            yield FieldError(f"{path}.{field}", value, fault)


_OF_TEXT: Final = frozenset({fault_of_name, fault_of_port_name, fault_of_variable})


def _one_of(path: str, owner: Object, fields: tuple[str, ...]) -> Iterator[FieldError]:
    present = [field for field in fields if owner.get(field) is not None]
    if len(present) != 1:
        choice = ", ".join(map(str, fields[:8]))[:200]
        yield FieldError(path, owner, f"must have one of {choice}, and has {len(present)}")


def _each(
    path: str, found: object, rule: Callable[[str, Object], Iterator[FieldError]]
) -> Iterator[FieldError]:
    for index, item in enumerate(items(found)):
        yield from rule(f"{path}[{index}]", mapping(item))
