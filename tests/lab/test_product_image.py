"""The agent's image: what is in it runs without this machine's files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from trackbed_lab import vm
from trackbed_lab.kubernetes import images, product_image
from trackbed_lab.kubernetes.images import ImageError

from tests.lab.test_images import unpacked

CHROOT = shutil.which("chroot") or "/usr/sbin/chroot"
NAME = "lab.trackbed.dev/agent:1"


@pytest.mark.needs("root")
def test_the_agent_runs_on_nothing_but_its_image(tmp_path: Path) -> None:
    config = unpacked(
        images.pack_image(product_image.build_product_image(tmp_path, NAME, Path("/bin/true"))), tmp_path / "root"
    )
    assert config["name"] == NAME
    for words in (["agent", "run", "--help"], ["controller", "--help"], ["agent", "status", "--socket", "/none.sock"]):
        argv = [CHROOT, str(tmp_path / "root"), "/usr/bin/trackbed", *words]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env={})
        assert "Traceback" not in done.stderr
        assert done.returncode == (0 if "--help" in words else 3), done
    shutil.copy(Path(vm.__file__).with_name("example.yaml"), tmp_path / "root/fabric.yaml")
    argv = [CHROOT, str(tmp_path / "root"), "/usr/bin/trackbed", "plan", "-f", "/fabric.yaml", "-o", "json"]
    subprocess.run(argv, timeout=60, check=True, env={}, capture_output=True)
    everything = "import trackbed.node.rails.agent"
    everything += ", trackbed.node.rails.kubelet.plugin, trackbed.node.rails.kubelet.pods"
    everything += "; import trackbed.cluster.controller.run, trackbed.cluster.webhook.run"
    everything += "; import trackbed.node.sync.preparer, anyio._backends._asyncio"
    everything += "; from trackbed.fleet import archive; archive.pack_sources(), archive.pack_compiled()"
    start = f"import sys; sys.path.append('/usr/lib/trackbed'); {everything}"
    argv = [CHROOT, str(tmp_path / "root"), f"/usr/bin/{product_image.PYTHON}", "-IS", "-c", start]
    subprocess.run(argv, timeout=60, check=True, env={})


def test_a_package_that_is_not_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product_image, "_iter_requirements", lambda _: iter(("no-such-package",)))
    with pytest.raises(ImageError, match="the image needs no-such-package, which is not installed here"):
        product_image.build_product_image(tmp_path, NAME, Path("/bin/true"))
