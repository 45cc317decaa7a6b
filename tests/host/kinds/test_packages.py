"""Packages from a repository that the Fabric names: real apt and dnf install and remove them in a root."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.host.kinds import package_repositories as repositories
from tests.host.kinds.package_repositories import KEY, RootPrograms, Signer, build_deb, build_rpm
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import grow, with_programs
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyError, apply, undo
from trackbed.host.transaction.compare import compare

REPOSITORY = "/srv/maker"
DNF = (
    pytest.mark.needs("root", "dnf", "createrepo_c", "rpmbuild", "rpmsign", "gpg"),
    pytest.mark.may_skip("a Debian has dnf and rpm only where somebody installed them"),
)


def wanted(manager: str, install: str, url: str = f"file://{REPOSITORY}") -> tuple[Setting, ...]:
    entry = f"{{name: maker, manager: {manager}, url: '{url}', key: {KEY}, install: {{{install}}}}}"
    return iter_settings(node_plan(P2P, spec=f"  repositories: [{entry}]\n"), {"packages"})


@dataclass(frozen=True)
class PackageHost:
    """A host with a repository in REPOSITORY, of one package manager."""

    manager: str
    machine: Machine
    programs: RootPrograms
    records: Path

    def want(self, version: str) -> tuple[Setting, ...]:
        """The settings that want `tb-driver` in a version; `-1` is the release of an RPM."""
        return wanted(self.manager, f"tb-driver: '{version if self.manager == 'apt' else f'{version}-1'}'")

    def list_files(self) -> dict[str, str]:
        """Name and version of what is installed from the repository."""
        folder = self.machine.root / "usr/share/trackbed-test"
        return {path.name: path.read_text().strip() for path in folder.glob("*")}


@pytest.fixture(
    params=[
        pytest.param("apt", marks=pytest.mark.needs("root", "apt-get", "dpkg-deb", "gpg")),
        pytest.param("dnf", marks=DNF),
    ]
)
def package_host(request: pytest.FixtureRequest, place: Host, tmp_path: Path) -> Iterator[PackageHost]:
    """A host whose repository has tb-driver 1.0 and 2.0, which needs tb-library."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    signer = Signer(scratch)
    try:
        with repositories.open_root(scratch) as root:
            folder = root / REPOSITORY.lstrip("/")
            folder.mkdir(parents=True)
            fill(request.param, folder, signer)
            signer.export_to(root)
            # Only this repository: no package of the machine's own archives is fetched.
            for path in (*root.glob("etc/apt/sources.list"), *root.glob("etc/apt/sources.list.d/*")):
                path.unlink()
            programs = RootPrograms(root)
            yield PackageHost(
                request.param, Machine(root, place.machine.netns, programs), programs, tmp_path / "records"
            )
    finally:
        signer.close()


def fill(manager: str, folder: Path, signer: Signer) -> None:
    if manager == "apt":
        for version in ("1.0", "2.0"):
            build_deb(folder, "tb-driver", version, depends="tb-library")
        build_deb(folder, "tb-library", "1.0")
        repositories.index_debs(folder, signer)
        return
    for version in ("1.0", "2.0"):
        build_rpm(folder, "tb-driver", version, signer, requires="tb-library")
    build_rpm(folder, "tb-library", "1.0", signer)
    repositories.index_rpms(folder)


def test_packages_are_shown_installed_and_removed_with_what_they_brought(package_host: PackageHost) -> None:
    host = package_host
    (change,) = compare(host.machine, host.want("1.0")).changes
    assert (change.have, change.action) == ("tb-driver -", "change")
    assert change.advice.startswith(f"apply runs: {'apt-get' if host.manager == 'apt' else 'dnf'} install tb-driver")
    assert apply(host.machine, host.want("1.0"), host.records).remaining.changes == ()
    assert host.list_files() == {"tb-driver": "1.0", "tb-library": "1.0"}
    assert compare(host.machine, host.want("1.0")).changes == ()
    assert undo(host.machine, host.records) == ()
    assert host.list_files() == {}
    folder = host.machine.root / "etc"
    assert [*folder.glob("apt/sources.list.d/*"), *folder.glob("yum.repos.d/trackbed-*")] == []


def test_another_version_is_installed_and_undo_brings_the_former_one_back(package_host: PackageHost) -> None:
    host = package_host
    apply(host.machine, host.want("1.0"), host.records)
    (host.records / "undo.json").unlink()
    for kept in host.machine.root.glob("var/lib/trackbed/packages-*"):
        kept.unlink()  # the first version was there before Trackbed
    assert apply(host.machine, host.want("2.0"), host.records).remaining.changes == ()
    assert host.list_files()["tb-driver"] == "2.0"
    assert undo(host.machine, host.records) == ()
    assert host.list_files() == {"tb-driver": "1.0", "tb-library": "1.0"}


def test_a_package_that_the_repository_does_not_have_puts_everything_back(package_host: PackageHost) -> None:
    host = package_host
    with pytest.raises(ApplyError, match=r"failed with status \d+: (?s:.*); everything was put back"):
        apply(host.machine, host.want("3.0"), host.records)
    assert host.list_files() == {}
    assert list(host.machine.root.glob("etc/*/*/trackbed-maker.*")) == []


def test_a_repository_that_another_key_has_signed_installs_nothing(package_host: PackageHost, tmp_path: Path) -> None:
    host = package_host
    (tmp_path / "other").mkdir()
    stranger = Signer(tmp_path / "other")
    stranger.export_to(host.machine.root)
    stranger.close()
    with pytest.raises(ApplyError):
        apply(host.machine, host.want("1.0"), host.records)
    assert host.list_files() == {}


def test_without_the_key_nothing_is_written(package_host: PackageHost) -> None:
    host = package_host
    (host.machine.root / KEY.lstrip("/")).unlink()
    (left,) = apply(host.machine, host.want("1.0"), host.records).remaining.changes
    assert left.advice == f"put the public key of file://{REPOSITORY} into {KEY} on this host, then apply again"
    assert host.list_files() == {}


def test_a_repository_of_another_package_manager_is_left_out(place: Host) -> None:
    host, _ = with_programs(place, apt_get=lambda _: None)
    (skipped,) = compare(host.machine, wanted("dnf", "doca-ofed: '1'")).skipped
    assert skipped.reason == "there is no dnf here"


def test_a_repository_that_is_no_longer_planned_loses_its_file(place: Host) -> None:
    grow(place.machine.root, {"/etc/apt/sources.list.d/trackbed-maker.list": "deb x ./\n"})
    nothing = iter_settings(node_plan(P2P))
    gone = [change.subject for change in compare(place.machine, nothing).changes if change.step == "packages"]
    assert gone == ["old file /etc/apt/sources.list.d/trackbed-maker.list"]


def test_repositories_travel_with_the_nodes_plan() -> None:
    entry = (
        f"{{name: doca, manager: apt, url: 'https://example.com/doca', key: {KEY}, install: {{doca-ofed: '2.10.0'}}}}"
    )
    node = node_plan(P2P, spec=f"  repositories: [{entry}]\n")
    assert decode_node(encode_node(node)) == node


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("name", "../doca", id="a path as name"),
        pytest.param("url", "ftp://example.com", id="another scheme"),
        pytest.param("url", "https://example.com/a b", id="a blank"),
        pytest.param("key", "doca.asc", id="a relative path"),
        pytest.param("install", "{'doca-ofed; reboot': '1'}", id="a command as package"),
        pytest.param("install", "{doca-ofed: '$(reboot)'}", id="a command as version"),
        pytest.param("install", "{doca-ofed: '-y'}", id="an option as version"),
    ],
)
def test_what_is_no_repository_is_refused(field: str, value: str) -> None:
    fields = {"name": "doca", "manager": "apt", "url": "https://example.com", "key": KEY, "install": "{doca-ofed: '1'}"}
    written = ", ".join(
        f"{name}: {text if text.startswith('{') else repr(text)}" for name, text in (fields | {field: value}).items()
    )
    with pytest.raises(SpecError) as error:
        node_plan(P2P, spec=f"  repositories: [{{{written}}}]\n")
    assert {problem.code for problem in error.value.problems} == {"bad-repository"}


def test_an_installation_that_was_killed_is_undone_by_what_was_there_before(package_host: PackageHost) -> None:
    host = package_host
    apply(host.machine, host.want("1.0"), host.records)
    (host.machine.root / "var/lib/trackbed/packages-maker.added").unlink()  # it is written after the installation
    assert undo(host.machine, host.records) == ()
    assert (host.list_files(), [*host.machine.root.glob("var/lib/trackbed/packages-*")]) == ({}, [])
