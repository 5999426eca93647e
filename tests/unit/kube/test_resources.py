"""URL paths name exactly the object asked for."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from di_kube.resources import DIJOBS, NODES, PODS


def test_a_path_names_a_collection_an_object_or_a_subresource() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns") == "/api/v1/namespaces/ns/pods"
    assert PODS.path("ns", "a", "status") == "/api/v1/namespaces/ns/pods/a/status"
    assert NODES.path(None, "n") == "/api/v1/nodes/n"
    assert DIJOBS.path("ns", "j") == "/apis/diengine.opendilab.org/v2alpha1/namespaces/ns/dijobs/j"
    assert (PODS.api_version, DIJOBS.api_version) == ("v1", "diengine.opendilab.org/v2alpha1")


@pytest.mark.parametrize("text", ["", ".", ".."])
def test_a_part_that_would_name_something_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a name"):
        PODS.path("ns", text)
    with pytest.raises(ValueError, match="is not a name"):
        PODS.path(text)
    with pytest.raises(ValueError, match="is not a name"):
        PODS.path("ns", "a", text)


def test_a_namespace_is_given_for_namespaced_resources_alone() -> None:
    with pytest.raises(ValueError, match="needs its namespace"):
        PODS.path(None, "a")
    with pytest.raises(ValueError, match="cluster-scoped"):
        NODES.path("ns", "n")


@given(st.text(min_size=1).filter(lambda text: text not in (".", "..") and text.isprintable()))
def test_any_name_stays_one_segment(name: str) -> None:
    prefix, _, last = PODS.path("ns", name).rpartition("/")
    assert prefix == "/api/v1/namespaces/ns/pods"
    assert unquote(last) == name
    assert not set(last) & set("?#&= ")
