import io
import tarfile
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.host.export.fabrics import planned, text
from trackbed.cli.main import cli
from trackbed.host.export.files import list_files


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(text())
    return path


def run(fabric: Path, *args: object) -> Result:
    return CliRunner().invoke(cli, ["render", "host", "-f", str(fabric), *map(str, args)])


def tree(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


SEEDS = {f"gpu-{number}/{name}" for number in range(3) for name in ("user-data", "meta-data")}


@pytest.mark.parametrize(
    ("output", "wanted"),
    [
        ("cloud-init", SEEDS),
        ("autoinstall", SEEDS),
        ("maas", {"50-trackbed", "tags.yaml", "tags.sh"}),
        ("tar", {"gpu-0.tar", "gpu-1.tar", "gpu-2.tar"}),
    ],
)
def test_all_nodes_are_written_below_a_folder(tmp_path: Path, fabric: Path, output: str, wanted: set[str]) -> None:
    out = tmp_path / "out"
    done = run(fabric, "--nodes", "all", "--format", output, "--cpu-vendor", "amd", "--to", out)
    assert (done.exit_code, done.stdout) == (0, f"wrote {len(wanted)} files below {out}\n")
    assert tree(out) == wanted
    again = run(fabric, "--nodes", "all", "--format", output, "--cpu-vendor", "amd", "--to", out)
    assert (again.exit_code, tree(out)) == (0, wanted)


def test_programs_can_be_run(tmp_path: Path, fabric: Path) -> None:
    run(fabric, "--nodes", "all", "--format", "maas", "--to", tmp_path / "out")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "out").iterdir()}
    assert modes == {"50-trackbed": 0o755, "tags.sh": 0o755, "tags.yaml": 0o644}


def test_a_playbook_has_variables_for_each_node(tmp_path: Path, fabric: Path) -> None:
    assert run(fabric, "--nodes", "all", "--format", "ansible", "--to", tmp_path / "out").exit_code == 0
    written = tree(tmp_path / "out")
    assert {"site.yml", "inventory.yml", "roles/trackbed/tasks/main.yml", "host_vars/gpu-2.yml"} <= written


def test_networks_of_all_nodes_lie_below_their_names(tmp_path: Path, fabric: Path) -> None:
    assert run(fabric, "--nodes", "all", "--format", "netplan", "--to", tmp_path / "out").exit_code == 0
    file = tmp_path / "out/gpu-1/etc/netplan/90-trackbed.yaml"
    assert file.stat().st_mode & 0o777 == 0o600


def test_one_user_data_is_printed_as_it_is(fabric: Path) -> None:
    done = run(fabric, "--node", "gpu-1", "--format", "cloud-init", "--network", "networkmanager")
    wanted = [file.path for file in list_files(planned().nodes[1], "networkmanager")]
    assert [file["path"] for file in yaml.safe_load(done.stdout)["write_files"]] == wanted


def test_one_tar_is_printed_and_says_what_is_left_to_do(fabric: Path) -> None:
    done = run(fabric, "--node", "gpu-1", "--format", "tar", "--cpu-vendor", "arm")
    with tarfile.open(fileobj=io.BytesIO(done.stdout_bytes)) as tar:
        assert "etc/default/grub.d/90-trackbed.cfg" in tar.getnames()
    assert "they take effect after update-grub" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--node", "gpu-1", "--format", "tar"],
            (
                "trackbed: node gpu-1 wants the IOMMU on, whose argument depends on the CPU; "
                "add --cpu-vendor intel|amd|arm\n"
            ),
        ),
        (
            ["--nodes", "all", "--format", "tar", "--cpu-vendor", "amd"],
            "several archives cannot be printed; write them below a folder with --to DIR\n",
        ),
        (["--node", "gpu-9", "--format", "maas"], "fabric 'train' has no node 'gpu-9'; did you mean 'gpu-2'?\n"),
    ],
    ids=["cpu", "several tars", "node"],
)
def test_wrong_use_ends_with_two_and_says_why(fabric: Path, args: list[str], message: str) -> None:
    done = run(fabric, *args)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith(message)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, fabric: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(fabric, "--node", "gpu-1", "--format", "maas", "--to", tmp_path / "file/out")
    assert (done.exit_code, done.stderr) == (2, f"trackbed: cannot write {tmp_path}/file/out: Not a directory\n")
