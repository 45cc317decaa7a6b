"""Kind packages: packages of a signed repository are installed in the versions of the Fabric, by apt or dnf.

Before the first installation the list of all installed packages is saved, after it the list of the new ones. Undo
removes the new ones, dependencies included, and installs the former version of packages that were there before. If the
installation was killed, the new ones are those that are not in the first list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from trackbed.fabric.plan.plan import RepositoryPlan
from trackbed.host.change import (
    ABSENT_VALUE,
    Change,
    FileWrite,
    Run,
    Skipped,
    build_change,
    build_manual_change,
    build_removal,
)
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine
from trackbed.host.setting import HEAD, Setting

FOLDER = "/var/lib/trackbed"

_INSTALL = """\
set -eu
export DEBIAN_FRONTEND=noninteractive
kept={folder}/packages-$1
shift
mkdir -p {folder}
list() {{ {list} | LC_ALL=C sort -u; }}
if [ ! -e "$kept.before" ]; then
	list >"$kept.before.new"
	sync "$kept.before.new"
	mv "$kept.before.new" "$kept.before"
fi
{install}
list | LC_ALL=C comm -13 "$kept.before" - >"$kept.added"
"""

_REMOVE = """\
set -eu
export DEBIAN_FRONTEND=noninteractive
kept={folder}/packages-$1
shift
[ -e "$kept.before" ] || exit 0
list() {{ {list} | LC_ALL=C sort -u; }}
{repair}
[ -e "$kept.added" ] || list | LC_ALL=C comm -13 "$kept.before" - >"$kept.added"
set -- "$@" --
list | LC_ALL=C comm -12 - "$kept.added" | {{
	added=$(cat)
	[ -z "$added" ] || {remove} $added
}}
while [ "$1" != -- ]; do
	{restore} "$1"
	shift
done
rm -f "$kept.before" "$kept.added"
"""


_APT = "apt-get -q -y -o DPkg::Lock::Timeout=120"
"""It waits for others that install, such as unattended-upgrades."""


class _Manager(NamedTuple):
    """A package manager: its program, its repository files, and shell commands."""

    program: str
    file: str
    pin: str
    """Between name and version of a package."""
    query: tuple[str, ...]
    """Command that prints `NAME VERSION` of the packages that follow, and status 0 or 1."""
    commands: Mapping[str, str]


_MANAGERS = {
    "apt": _Manager(
        "apt-get",
        "/etc/apt/sources.list.d/trackbed-{name}.list",
        "=",
        ("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n"),
        {
            "list": "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p'",
            "install": f'apt-get -q update\n{_APT} --no-install-recommends --allow-downgrades install "$@"',
            "repair": "dpkg --configure -a",
            "remove": f"{_APT} remove",
            "restore": f"{_APT} --no-install-recommends --allow-downgrades install",
        },
    ),
    "dnf": _Manager(
        "dnf",
        "/etc/yum.repos.d/trackbed-{name}.repo",
        "-",
        ("rpm", "-q", "--qf", "installed %{NAME} %|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\\n"),
        {
            "list": "rpm -qa --qf '%{NAME}\\n'",
            "install": 'dnf -q -y --setopt=install_weak_deps=False install "$@"',
            "repair": ":",
            "remove": "dnf -q -y --noautoremove remove",
            "restore": "dnf -q -y --allowerasing install",
        },
    ),
}


class Want(NamedTuple):
    """The packages of a repository are installed in its versions."""

    repository: RepositoryPlan

    def __str__(self) -> str:
        return f"packages of {self.repository.name}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of the repository's file, and of packages that are absent or have another version."""
    machine, repository, subject = view.machine, want.repository, str(want)
    manager = _MANAGERS[repository.manager]
    if machine.shared_reason or not machine.has_program(manager.program):
        return Skipped(setting, subject, machine.shared_reason or f"there is no {manager.program} here")
    path, content = manager.file.format(name=repository.name), _render_repository(repository)
    wanted, installed = dict(repository.install), _read_versions(machine, manager, repository)
    wrong = {package: version for package, version in wanted.items() if installed.get(package) != version}
    is_written = machine.read(path) == content.strip()
    if is_written and not wrong:
        return None
    former = {package: installed.get(package, ABSENT_VALUE) for package in wrong}
    have = " ".join(f"{name} {version}" for name, version in former.items()) or "another repository"
    need = " ".join(f"{name} {version}" for name, version in wrong.items()) or path
    if not machine.locate(repository.key).is_file():
        advice = f"put the public key of {repository.url} into {repository.key} on this host, then apply again"
        return build_manual_change(setting, subject, have, need, advice)
    write = () if is_written else (FileWrite(path, content),)
    run = (_build_run(manager, repository.name, wrong, former),) if wrong else ()
    change = build_change(setting, subject, have, need, (*write, *run))
    packages = " ".join(_pin(manager, wrong))
    return change._replace(advice=f"apply runs: {manager.program} install {packages}" if wrong else "")


def _render_repository(repository: RepositoryPlan) -> str:
    if repository.manager == "apt":
        words = (f"[signed-by={repository.key}]", repository.url, repository.suite, *repository.components)
        return f"{HEAD}deb {' '.join(words)}\n"
    section = f"trackbed-{repository.name}"
    lines = (
        f"name={section}",
        f"baseurl={repository.url}",
        "enabled=1",
        "gpgcheck=1",
        f"gpgkey=file://{repository.key}",
    )
    return f"{HEAD}[{section}]\n" + "".join(f"{line}\n" for line in lines)


def _read_versions(machine: Machine, manager: _Manager, repository: RepositoryPlan) -> dict[str, str]:
    """Return the versions of the repository's packages that are installed."""
    result = machine.run((*manager.query, *(package for package, _ in repository.install)))
    lines = [] if isinstance(result, Absent) else [line.split() for line in result.output.splitlines()]
    return {words[1]: words[2] for words in lines if len(words) == 3 and words[0] == "installed"}  # noqa: PLR2004 - the query's words


def _build_run(manager: _Manager, name: str, wrong: Mapping[str, str], former: Mapping[str, str]) -> Run:
    """Build the installation, and its undo."""
    install, remove = (text.format(folder=FOLDER, **manager.commands) for text in (_INSTALL, _REMOVE))
    before = {package: version for package, version in former.items() if version != ABSENT_VALUE}
    return Run(
        ("sh", "-c", install, "sh", name, *_pin(manager, wrong)),
        ("sh", "-c", remove, "sh", name, *_pin(manager, before)),
    )


def _pin(manager: _Manager, versions: Mapping[str, str]) -> Iterable[str]:
    return (f"{package}{manager.pin}{version}" for package, version in versions.items())


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of repository files that are no longer planned; their packages stay."""
    machine = view.machine
    planned = {want.repository.name for want in view.list_wants(Want)}
    for manager in _MANAGERS.values() if not machine.shared_reason else ():
        prefix, suffix = manager.file.split("{name}")
        for place in sorted(machine.root.glob(f"{prefix[1:]}*{suffix}")):
            path = f"{prefix.rpartition('/')[0]}/{place.name}"
            if path.removeprefix(prefix).removesuffix(suffix) not in planned:
                yield build_removal("packages", None, f"old file {path}", "ours", (FileWrite(path, None),))


KIND = Kind("packages", (Want,), compare, find_stale, is_for_boot=True, is_first=True)
