"""Names become one segment of a path, and nothing that is given as a name reaches another object."""

from __future__ import annotations

import pytest

from trackbed.cluster.api.discovery import ApiResource, build_version_path
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.paths import join_path

HOSTILE = ("", ".", "..", "../nodes/gpu-0", "a/b", "a%2Fb", "%2e%2e")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_segment_is_refused(name: str) -> None:
    pods = ApiResource("v1", "pods", "Pod", namespaced=True)
    with pytest.raises(ApiRefusedError, match=r"cannot be the name of an object \(400 BadRequest\)"):
        join_path("/api/v1/namespaces", name)
    with pytest.raises(ApiRefusedError):
        pods.build_path("default", name)
    if name:  # none means all namespaces
        with pytest.raises(ApiRefusedError):
            pods.build_path(name, "main")


@pytest.mark.parametrize("version", ["", "..", "../../api/v1", "apps//v1", "apps/v1/../v2", "a%2Fb"])
def test_a_version_that_is_none_is_refused(version: str) -> None:
    with pytest.raises(ApiRefusedError):
        build_version_path(version)


def test_other_characters_are_quoted() -> None:
    assert join_path("/api/v1/nodes", "a?x=1#y z:é", "status") == "/api/v1/nodes/a%3Fx%3D1%23y%20z%3A%C3%A9/status"
    assert build_version_path("v1") == "/api/v1"
    assert build_version_path("apps/v1") == "/apis/apps/v1"
