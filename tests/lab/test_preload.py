"""Images are in containerd's stores before any node starts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import build, images, preload
from trackbed_lab.kubernetes.images import ImageError, ImageSpec
from trackbed_lab.kubernetes.programs import NODE

pytestmark = [
    pytest.mark.needs("root"),
    pytest.mark.timeout(7000),
]


@pytest.fixture(scope="module")
def programs() -> Path:
    return build.build_programs(NODE, print)


@pytest.mark.nightly("containerd is built from source")
def test_an_image_is_unpacked_and_can_be_found_by_its_name(tmp_path: Path, programs: Path) -> None:
    archive, root = tmp_path / "x.tar", tmp_path / "root"
    archive.write_bytes(images.pack_image(ImageSpec("lab.trackbed.dev/x:1", {}, {"etc/x": "y"})))
    root.mkdir()
    preload.preload_images(root, programs, [archive])
    assert [path.read_text() for path in root.glob("*overlayfs/snapshots/*/fs/etc/x")] == ["y"]
    assert b"lab.trackbed.dev/x:1" in (root / "io.containerd.metadata.v1.bolt/meta.db").read_bytes()
    mounted = subprocess.run(["cat", "/proc/mounts"], capture_output=True, text=True, timeout=10, check=True).stdout
    assert str(root) not in mounted


@pytest.mark.nightly("containerd is built from source")
def test_what_is_no_image_is_told_in_containerds_words(tmp_path: Path, programs: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"no tar")
    (tmp_path / "root").mkdir()
    with pytest.raises(ImageError, match=r"x\.tar cannot be loaded: .*"):
        preload.preload_images(tmp_path / "root", programs, [tmp_path / "x.tar"])


def test_a_containerd_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "containerd").write_text("#!/bin/sh\necho no luck\nexit 1\n")
    (tmp_path / "containerd").chmod(0o755)
    with pytest.raises(ImageError, match="containerd does not serve: no luck"):
        preload.preload_images(tmp_path, tmp_path, [])
