"""Structural schemas of core/v1 types, derived from an API server's OpenAPI v3 document.

A custom resource definition may not refer to other schemas and knows only part of OpenAPI, so
references are followed and everything else is dropped. Descriptions go too: with them the
definition would not fit in the annotation that client-side `kubectl apply` keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from di_api.quantity import AMOUNT_PATTERN, LONGEST
from di_api.spec.bounds import MAX_ITEMS, MAX_NESTED_ITEMS

Schema = dict[str, Any]

_CORE: Final = "io.k8s.api.core.v1."
_KEPT: Final = (
    "type",
    "format",
    "enum",
    "default",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
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
"""All of an object's metadata that makes sense in a template of objects."""
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
"""What the services read themselves of the templates of a coordinated job; _WHOLE is a field with
all below it."""


class UnsupportedSchema(ValueError):
    """The document holds something this derivation does not understand."""


def pod_template_schema(document: Mapping[str, Any]) -> Schema:
    """The schema of a pod template that can make a pod: it has a spec with a container.

    `document` is what the API server answers at `/openapi/v3/api/v1`.

    Raises:
        UnsupportedSchema: the document lacks a type or uses an unknown construction.
    """
    schema = core_schema(document, "PodTemplateSpec")
    schema["required"] = ["spec"]
    schema["properties"]["spec"]["properties"]["containers"]["minItems"] = 1
    return bounded(schema)


def loose_template_schema(template: Schema) -> Schema:
    """The schema of a pod template of which only what our services read themselves is checked.

    All other fields are kept as they are. `template` is the whole, see `pod_template_schema`.
    """
    return _projected(template, _READ)


def bounded(schema: Schema) -> Schema:
    """A schema whose lists and maps have bounds: those of Kubernetes have none, and each item costs
    everyone who reads the job."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {key: bounded(each) for key, each in schema["properties"].items()}
    if "items" in schema:
        result["items"] = bounded(schema["items"])
        result["maxItems"] = MAX_NESTED_ITEMS if _holds_many(schema["items"]) else MAX_ITEMS
    if "additionalProperties" in schema:
        result["additionalProperties"] = bounded(schema["additionalProperties"])
        result["maxProperties"] = MAX_ITEMS
    return result


def _holds_many(schema: Schema) -> bool:
    """Whether a value can have a list or a map in it, or be one."""
    if "items" in schema or "additionalProperties" in schema:
        return True
    return any(map(_holds_many, schema.get("properties", {}).values()))


def quantity_schema() -> Schema:
    """The schema of an amount of a resource; how large it may be at most it cannot say."""
    return {
        "x-kubernetes-int-or-string": True,
        "minimum": 0,
        "maxLength": LONGEST,
        "pattern": AMOUNT_PATTERN,
    }


def core_schema(document: Mapping[str, Any], kind: str) -> Schema:
    """The structural schema of the core/v1 type `kind`; see `pod_template_schema`."""
    return _Derivation(document).named(_CORE + kind, ())


class _Derivation:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas = document.get("components", {}).get("schemas", {})

    def named(self, name: str, above: tuple[str, ...]) -> Schema:
        """The schema called `name`; `above` are the names that led to it."""
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
            # OpenAPI wraps a reference that way to give it a description or a default.
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
        # Programs in Go, and people in YAML, write null for what is not there.
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
    # Empty defaults only say what an absent field means anyway.
    return {
        key: schema[key]
        for key in _KEPT
        if key in schema and not (key == "default" and schema[key] in (None, "", {}))
    }


def _default_map_keys(array: Schema, above: tuple[str, ...]) -> None:
    """A key of a list that is a map must always be there: required, or with a default."""
    for key in array.get("x-kubernetes-list-map-keys", ()):
        item = array["items"]
        field = item["properties"][key]
        if key in item.get("required", ()) or "default" in field:
            continue
        if field.get("type") != "string":
            raise UnsupportedSchema(f"no default is known for list key {key} below {above[-1]}")
        field["default"] = ""
