"""Structural schemas of core/v1 types, derived from an API server's OpenAPI v3 document.

A custom resource definition cannot refer to other schemas and supports only part of OpenAPI, so
references are resolved and everything else is dropped. Descriptions are dropped too: with them the
definition would not fit into the annotation of client-side `kubectl apply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from di_api.quantity import quantity_schema
from di_api.spec.bounds import MAX_ITEMS, MAX_NESTED_ITEMS

Schema = dict[str, Any]

_CORE: Final = "io.k8s.api.core.v1."
_LIST_TYPE: Final = "x-kubernetes-list-type"
_LIST_KEYS: Final = "x-kubernetes-list-map-keys"
_KEPT: Final = (
    "type",
    "format",
    "enum",
    "default",
    "required",
    _LIST_TYPE,
    _LIST_KEYS,
    "x-kubernetes-map-type",
)
_QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_OBJECT_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_STRING_MAP: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
_TEMPLATE_METADATA: Final[Schema] = {
    "type": "object",
    "properties": {"annotations": _STRING_MAP, "labels": _STRING_MAP},
}
"""The metadata that is useful in a pod template."""
_REFERENCE: Final = "#/components/schemas/"

_WHOLE: Final[Mapping[str, Any]] = {}
_EVERY_CONTAINER: Final = {
    "env": {"name": _WHOLE},
    "name": _WHOLE,
    "volumeMounts": {"mountPath": _WHOLE},
}
_READ: Final = {
    "metadata": {"annotations": _WHOLE, "labels": _WHOLE},
    "spec": {
        "containers": {
            **_EVERY_CONTAINER,
            "ports": {"containerPort": _WHOLE, "name": _WHOLE},
            "resources": {"limits": _WHOLE, "requests": _WHOLE},
        },
        "initContainers": _EVERY_CONTAINER,
        "restartPolicy": _WHOLE,
        "volumes": {"name": _WHOLE},
    },
}
"""Fields of a coordinated job's templates that the services read; _WHOLE is a field with everything
below it.
"""


class UnsupportedSchema(ValueError):
    """The document contains something that this derivation does not support."""


def pod_template_schema(document: Mapping[str, Any]) -> Schema:
    """Return the schema of a usable pod template: it has a spec with a container.

    `document` is the API server's response to `/openapi/v3/api/v1`.

    Raises:
        UnsupportedSchema: the document lacks a type or uses an unsupported construct.
    """
    schema = core_schema(document, "PodTemplateSpec")
    schema["required"] = ["spec"]
    schema["properties"]["spec"]["properties"]["containers"]["minItems"] = 1
    return bounded(schema)


def loose_template_schema(template: Schema) -> Schema:
    """Return the schema of a pod template that checks only the fields that our services read.

    All other fields are kept unchanged. `template` is the full schema, see `pod_template_schema`.
    """
    return _projected(template, _READ)


def bounded(schema: Schema) -> Schema:
    """Return the schema with bounds on lists and maps: those of Kubernetes have none, and each item
    costs every reader of the job.
    """
    result = _with_parts(schema, bounded)
    if "items" in schema:
        result["maxItems"] = MAX_NESTED_ITEMS if _holds_many(schema["items"]) else MAX_ITEMS
    if "additionalProperties" in schema:
        result["maxProperties"] = MAX_ITEMS
    return result


def _holds_many(schema: Schema) -> bool:
    """Return whether a value is, or can contain, a list or a map."""
    if "items" in schema or "additionalProperties" in schema:
        return True
    return any(map(_holds_many, schema.get("properties", {}).values()))


def as_one_value(schema: Schema) -> Schema:
    """Return the schema without keys of lists, for what is inside of a list that is one value.

    The API server replaces such a list as a whole, so nothing inside is merged. With keys it would
    compare all items whenever the object is written, and a job is written with each status.
    """
    result = _with_parts(schema, as_one_value)
    if result.pop(_LIST_KEYS, None):
        result[_LIST_TYPE] = "atomic"
    return result


def _with_parts(schema: Schema, change: Callable[[Schema], Schema]) -> Schema:
    """Return the schema with each schema right below it changed."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {key: change(each) for key, each in schema["properties"].items()}
    for below in ("items", "additionalProperties"):
        if below in schema:
            result[below] = change(schema[below])
    return result


def core_schema(document: Mapping[str, Any], kind: str) -> Schema:
    """Return the structural schema of the core/v1 type `kind`; see `pod_template_schema`."""
    return _Derivation(document).named(_CORE + kind, ())


class _Derivation:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas = document.get("components", {}).get("schemas", {})

    def named(self, name: str, above: tuple[str, ...]) -> Schema:
        """Return the schema called `name`; `above` are the names that led to it."""
        if name == _QUANTITY:
            return quantity_schema()
        if name == _INT_OR_STRING:
            return {"x-kubernetes-int-or-string": True}
        if name == _OBJECT_META:
            return _TEMPLATE_METADATA
        if name in above:
            raise UnsupportedSchema(f"{name} contains itself")
        if name not in self._schemas:
            raise UnsupportedSchema(f"the document has no schema {name}")
        return self._structural(self._schemas[name], (*above, name))

    def _structural(self, schema: Mapping[str, Any], above: tuple[str, ...]) -> Schema:
        if "$ref" in schema:
            return self.named(_reference(schema["$ref"]), above)
        if "allOf" in schema:
            # OpenAPI wraps a reference in this way to add a description or a default.
            if len(schema["allOf"]) != 1:
                raise UnsupportedSchema(f"more than one schema in allOf below {above[-1]}")
            wrapped = self._structural(schema["allOf"][0], above)
            return wrapped | _kept({"default": schema.get("default")})
        if unknown := {"anyOf", "oneOf", "not"} & schema.keys():
            raise UnsupportedSchema(f"{', '.join(sorted(unknown))} below {above[-1]}")
        result = _kept(schema)
        if "properties" in schema:
            result["properties"] = {
                name: self._structural(below, above)
                for name, below in sorted(schema["properties"].items())
            }
        if "items" in schema:
            result["items"] = self._structural(schema["items"], above)
            _default_map_keys(result, above)
        if isinstance(schema.get("additionalProperties"), Mapping):
            result["additionalProperties"] = self._structural(schema["additionalProperties"], above)
        return result


def _projected(schema: Schema, fields: Mapping[str, Any]) -> Schema:
    if not fields:
        # A default would be written into the template.
        return {key: value for key, value in schema.items() if key != "default"}
    if schema["type"] == "array":
        bounds: Schema = {key: schema[key] for key in ("minItems", "maxItems") if key in schema}
        return {"type": "array", **bounds, "items": _projected(schema["items"], fields)}
    required = [field for field in schema.get("required", ()) if field in fields]
    result: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if required:
        result["required"] = required
    result["properties"] = {
        # Go programs, and people in YAML, write null for an absent field.
        field: _projected(schema["properties"][field], below)
        | ({} if field in required else {"nullable": True})
        for field, below in fields.items()
    }
    return result


def _reference(reference: str) -> str:
    if not reference.startswith(_REFERENCE):
        raise UnsupportedSchema(f"reference to another document: {reference}")
    return reference.removeprefix(_REFERENCE)


def _kept(schema: Mapping[str, Any]) -> Schema:
    # Empty defaults only repeat what an absent field means.
    return {
        key: schema[key]
        for key in _KEPT
        if key in schema and not (key == "default" and schema[key] in (None, "", {}))
    }


def _default_map_keys(array: Schema, above: tuple[str, ...]) -> None:
    """Make the keys of a list that is a map required, unless they have a default."""
    for key in array.get(_LIST_KEYS, ()):
        item = array["items"]
        field = item["properties"][key]
        if key in item.get("required", ()) or "default" in field:
            continue
        if field.get("type") != "string":
            raise UnsupportedSchema(f"no default is known for list key {key} below {above[-1]}")
        field["default"] = ""
