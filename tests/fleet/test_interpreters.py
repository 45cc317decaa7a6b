"""Which Python of a host is started, and what is said where none is new enough."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trackbed.fleet import boot, interpreters
from trackbed.fleet.boot import NO_PYTHON
from trackbed.fleet.interpreters import Refusal, explain_refusal
from trackbed.fleet.outcome import judge_output

pytestmark = pytest.mark.needs("processes")

_PYTHON_3_6 = "#!/bin/sh\necho 3.6.15; exit 1\n"
_SHIM_OF_NOTHING = "#!/bin/sh\necho 'no such version' >&2; exit 127\n"


def _run_command(folder: Path, programs: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command that ssh gets, without a payload, where these are the only programs on PATH.

    A program of an absolute path is there instead of its folder, in a mount namespace.
    """
    for name, text in {"id": "#!/bin/sh\necho 0\n", **programs}.items():
        path = folder / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    mounts = "".join(
        f"mount --bind {folder}{Path(name).parent} {Path(name).parent}; " for name in programs if "/" in name
    )
    command = boot.build_command().removeprefix("exec ").replace("sh -c", "/bin/sh -c", 1)
    return subprocess.run(
        [*(("unshare", "-m") if mounts else ()), "/bin/sh", "-c", f"{mounts} PATH={folder}; {command}"],
        env=os.environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _write_marker(name: str) -> str:
    """Return a Python that is new enough: it passes the test, and prints its name in place of running a program."""
    return f"""#!/bin/sh
[ -e "$0.tested" ] && echo started {name} && exit
: > "$0.tested"
exec {sys.executable} "$@"
"""


def test_the_newest_python_that_works_is_started(tmp_path: Path) -> None:
    programs = {"python3.13": _SHIM_OF_NOTHING, "python3.12": _write_marker("3.12"), "python3": _write_marker("3")}
    assert _run_command(tmp_path, programs).stdout == "started 3.12\n"


def test_python3_is_started_where_no_version_has_a_name(tmp_path: Path) -> None:
    assert _run_command(tmp_path, {"python3": _write_marker("3")}).stdout == "started 3\n"


@pytest.mark.needs("root", "unshare", "mount")
def test_the_python_of_dnf_is_started_where_python3_is_older(tmp_path: Path) -> None:
    programs = {"python3": _PYTHON_3_6, "/usr/libexec/platform-python": _write_marker("platform-python")}
    assert _run_command(tmp_path, programs).stdout == "started platform-python\n"


def test_a_host_with_an_older_python_is_refused_with_its_versions(tmp_path: Path) -> None:
    done = _run_command(tmp_path, {"python3": _PYTHON_3_6, "python3.9": _SHIM_OF_NOTHING})
    outcome = judge_output("n1", "apply", done.returncode, done.stdout.splitlines(), done.stderr.splitlines())
    assert (done.returncode, outcome.kind) == (NO_PYTHON, "no-python")
    assert f"older than 3.9 ({tmp_path}/python3 3.6.15), nothing was changed there; " in outcome.message


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        pytest.param(
            Refusal("sles", "15.5", "SUSE Linux Enterprise Server 15 SP5", "/usr/bin/python3 3.6.15, "),
            "its Python is older than 3.9 (/usr/bin/python3 3.6.15), nothing was changed there;"
            " install it there (SUSE Linux Enterprise Server 15 SP5): zypper install python311",
            marks=pytest.mark.support(
                "distribution", "SLES 15", "refused", "its Python is older than 3.9 (3.6.15): zypper install python311"
            ),
        ),
        pytest.param(
            Refusal("rhel", "8.10", "Red Hat Enterprise Linux 8.10 (Ootpa)", "/usr/bin/python3 3.6.8, "),
            "its Python is older than 3.9 (/usr/bin/python3 3.6.8), nothing was changed there;"
            " install it there (Red Hat Enterprise Linux 8.10 (Ootpa)): dnf install python3.11 (before 8.8: python39)",
            marks=pytest.mark.support(
                "distribution",
                "RHEL 8",
                "refused",
                "its Python is older than 3.9 (3.6.8): dnf install python3.11, before 8.8 python39",
            ),
        ),
        (
            Refusal("rocky", "9.4", "Rocky Linux 9.4", ""),
            "it has no Python, nothing was changed there; install it there (Rocky Linux 9.4): dnf install python3",
        ),
        (Refusal("ubuntu", "20.04", "Ubuntu 20.04.6 LTS", "/usr/bin/python3 3.8.10, "), "apt-get install python3.9"),
        (Refusal("ubuntu", "22.04", "Ubuntu 22.04.5 LTS", ""), "apt-get install python3"),
        (Refusal("debian", "11", "Debian GNU/Linux 11", ""), "apt-get install python3"),
        (
            Refusal("debian", "10", "Debian GNU/Linux 10", "/usr/bin/python3 3.7.3, "),
            (
                "Debian GNU/Linux 10 has none to install; put Python 3.9 or newer on its PATH, as python3 or"
                " python3.14 to python3.9"
            ),
        ),
        (
            Refusal(),
            (
                "it has no Python, nothing was changed there; put Python 3.9 or newer on its PATH,"
                " as python3 or python3.14 to python3.9"
            ),
        ),
    ],
    ids=lambda value: value.os_name or "unknown" if isinstance(value, Refusal) else "",
)
def test_a_refusal_names_the_package_of_the_distribution(refusal: Refusal, remedy: str) -> None:
    assert explain_refusal(refusal, "nothing was changed there").endswith(remedy)


def test_every_version_that_is_tested_is_tried_by_name() -> None:
    assert interpreters.NAMES[:6] == ("python3.14", "python3.13", "python3.12", "python3.11", "python3.10", "python3.9")
