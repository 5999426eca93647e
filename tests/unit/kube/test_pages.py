"""Pages of lists, parsed."""

from __future__ import annotations

import orjson
import pytest

from di_kube import pages
from di_kube.errors import Unavailable
from di_kube.pages import Version
from di_kube.resources import NODES, PODS
from di_kube.wire import Target

TARGET = Target(PODS, "ns")


def listed(*metadata: object, **of_list: object) -> bytes:
    items = [{"kind": "PartialObjectMetadata", "metadata": each} for each in metadata]
    return orjson.dumps({"kind": "PartialObjectMetadataList", "metadata": of_list, "items": items})


def test_a_page_of_versions_has_name_namespace_and_version_of_each() -> None:
    managed = [{"manager": "kubelet", "fieldsV1": {"f:status": {'k:{"type":"Ready"}': {}}}}]
    page = pages.versions(
        listed(
            {"name": "a", "namespace": "ns", "resourceVersion": "7", "managedFields": managed},
            {"name": "b", "namespace": "ns", "resourceVersion": "8", "labels": {"x": "y"}},
            resourceVersion="9",
            **{"continue": "more", "remainingItemCount": 3},
        ),
        TARGET,
    )
    assert page.items == [
        Version(name="a", namespace="ns", resourceVersion="7"),
        Version(name="b", namespace="ns", resourceVersion="8"),
    ]
    assert (page.next, page.version) == ("more", "9")


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    page = pages.versions(listed({"name": "n", "resourceVersion": "1"}), Target(NODES))
    assert page.items == [Version(name="n", resourceVersion="1", namespace="")]
    assert (page.next, page.version) == ("", "")


@pytest.mark.parametrize("decode", [pages.versions, pages.objects])
def test_a_list_without_items_is_empty(decode: pages.Decode[object]) -> None:
    page = decode(b'{"metadata":{"resourceVersion":"5"},"items":null}', TARGET)
    assert (page.items, page.next, page.version) == ([], "", "5")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"1", listed({"name": "a"}), listed({"name": 1}), listed(None)]
)
def test_what_is_no_list_of_versions_is_an_unusable_response(raw: bytes) -> None:
    with pytest.raises(Unavailable) as caught:
        pages.versions(raw, TARGET)
    assert caught.value.reason == "BadBody"
