import ast
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import SHIM as BUILT

import trackbed
from tests.pythons import find_python, on_every_interpreter
from trackbed.node.rails.install import install_executable

pytestmark = pytest.mark.needs("processes")

SHIM = Path(trackbed.__file__).parent / "node" / "cni" / "shim.py"
CONFIG = b'{"cniVersion":"1.0.0","name":"rails","type":"trackbed"}'


@pytest.fixture(scope="session")
def built() -> Path:
    return build.build_programs(BUILT, print) / "trackbed"


@pytest.fixture(params=["python", pytest.param("built", marks=pytest.mark.needs("go"))])
def executable(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    built = request.getfixturevalue("built") if request.param == "built" else tmp_path / "none"
    return install_executable(tmp_path, tmp_path / "agent.sock", binary=built)


@pytest.fixture
def interpreted(tmp_path: Path) -> Path:
    return install_executable(tmp_path, tmp_path / "agent.sock", binary=tmp_path / "none")


def _call(executable: Path, config: bytes = CONFIG, **env: str) -> tuple[int, bytes]:
    done = subprocess.run([executable], input=config, env=env, capture_output=True, timeout=20, check=False)
    assert done.stderr == b""
    return done.returncode, done.stdout


@contextmanager
def _agent(path: Path, converse: Callable[[socket.socket], None]) -> Iterator[None]:
    """An agent that takes one connection."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(path))
        listening.listen()
        listening.settimeout(20)

        failed: list[bool] = []

        def accept() -> None:
            with listening.accept()[0] as asker:
                if not failed:
                    converse(asker)

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield
        except BaseException:  # pytest's skip is no Exception
            failed.append(True)
            with socket.socket(socket.AF_UNIX) as caller:  # wakes the thread
                caller.connect(str(path))
            raise
        finally:
            thread.join()


def test_it_passes_the_call_on_as_it_came_and_prints_the_answer_as_it_is(executable: Path) -> None:
    heard: list[bytes] = []

    def converse(asker: socket.socket) -> None:
        length = int.from_bytes(asker.recv(4), "big")
        heard.append(asker.recv(length, socket.MSG_WAITALL))
        asker.sendall((9).to_bytes(4, "big") + b"\x07" + b"any\0bytes")

    odd = b'\xff{ "not": json \0'
    with _agent(executable.parent / "agent.sock", converse):
        assert _call(executable, odd, CNI_COMMAND="ADD", CNI_ARGS="A=B;C=", PATH="/bin") == (7, b"any\0bytes")
    assert heard == [b"CNI_COMMAND=ADD\0CNI_ARGS=A=B;C=\0\0" + odd]


def test_a_long_configuration_arrives_whole(executable: Path) -> None:
    heard: list[int] = []

    def converse(asker: socket.socket) -> None:
        length = int.from_bytes(asker.recv(4), "big")
        heard.append(len(asker.recv(length, socket.MSG_WAITALL)))
        asker.sendall(bytes(5))

    with _agent(executable.parent / "agent.sock", converse):
        assert _call(executable, b"x" * 500_000, CNI_COMMAND="ADD") == (0, b"")
    assert heard == [len(b"CNI_COMMAND=ADD\0\0") + 500_000]


def test_an_answer_that_is_announced_as_endless_is_not_waited_for(executable: Path) -> None:
    def converse(asker: socket.socket) -> None:
        asker.recv(int.from_bytes(asker.recv(4), "big"), socket.MSG_WAITALL)
        asker.sendall(b"\xff\xff\xff\xff\0")

    with _agent(executable.parent / "agent.sock", converse):
        status, printed = _call(executable, CNI_COMMAND="ADD")
    assert (status, json.loads(printed)["code"]) == (1, 11)
    assert b"or has no end" in printed


@on_every_interpreter
def test_a_call_is_passed_on_on_every_interpreter(tmp_path: Path, version: str) -> None:
    executable = install_executable(tmp_path, tmp_path / "agent.sock", python=find_python(version))

    def converse(asker: socket.socket) -> None:
        asker.recv(int.from_bytes(asker.recv(4), "big"), socket.MSG_WAITALL)
        asker.sendall((2).to_bytes(4, "big") + b"\x07" + b"ok")

    with _agent(tmp_path / "agent.sock", converse):
        assert _call(executable, CNI_COMMAND="ADD") == (7, b"ok")
    assert _call(executable, CNI_COMMAND="VERSION")[0] == 0
    assert b"does not answer" in _call(executable, CNI_COMMAND="DEL")[1]


@pytest.mark.parametrize("command", ["ADD", "DEL", "CHECK", "GC", "STATUS"])
def test_without_an_agent_the_runtime_is_told_to_try_again(executable: Path, command: str) -> None:
    where = executable.parent / "agent.sock"
    status, printed = _call(executable, CNI_COMMAND=command)
    expected = (
        b'{"cniVersion":"1.0.0","code":11,"msg":"the Trackbed agent does not answer on %b: No such file or directory",'
        b'"details":"is it running? try `trackbed agent status`; a later DEL or ADD puts right what was begun"}\n'
        % os.fsencode(where)
    )
    assert (status, printed.lower()) == (1, expected.lower())


def test_an_agent_that_hangs_up_half_way_is_no_answer(executable: Path) -> None:
    def converse(asker: socket.socket) -> None:
        asker.recv(int.from_bytes(asker.recv(4), "big"), socket.MSG_WAITALL)
        asker.sendall(b"\0\0\0\x09\0half")

    with _agent(executable.parent / "agent.sock", converse):
        status, printed = _call(executable, CNI_COMMAND="ADD")
    assert (status, b'"code":11' in printed, b"closed the connection half way" in printed) == (1, True, True)


def _silent_until(done: threading.Event) -> Callable[[socket.socket], None]:
    def converse(_: socket.socket) -> None:
        done.wait(20)

    return converse


def _of_one_second(source: Path, words: str) -> None:
    text = source.read_text()
    assert text.count(words) == 1
    source.write_text(text.replace(words, words.replace("60", "1")))


@pytest.fixture(params=["python", pytest.param("built", marks=pytest.mark.needs("go"))])
def impatient(interpreted: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The executable, with a second of patience."""
    if request.param == "python":
        _of_one_second(interpreted, "TIMEOUT_SECONDS = 60")
        return interpreted
    source = shutil.copytree(SHIM.parent / "go", tmp_path / "go")
    _of_one_second(source / "main.go", "timeoutSeconds = 60")
    argv = ["go", "build", "-o", str(tmp_path / "built"), "."]
    subprocess.run(argv, cwd=source, env={**os.environ, "CGO_ENABLED": "0"}, timeout=300, check=True)
    return install_executable(tmp_path, tmp_path / "agent.sock", binary=tmp_path / "built")


def test_an_agent_that_keeps_silent_is_left_in_time(impatient: Path) -> None:
    executable = impatient
    done = threading.Event()
    with _agent(executable.parent / "agent.sock", _silent_until(done)):
        status, printed = _call(executable, CNI_COMMAND="DEL")
        done.set()
    assert (status, b'"code":11' in printed) == (1, True)


@pytest.mark.parametrize(
    ("config", "version"),
    [
        (CONFIG, b"1.0.0"),
        (b'{"cniVersion": "1.1.0"}', b"1.1.0"),
        (b'{"cniVersion": "0.3.1"}', b"0.3.1"),
        (b'{"cniVersion": "0.2.0"}', b"1.1.0"),
        (b"", b"1.1.0"),
    ],
)
def test_version_needs_no_agent(executable: Path, config: bytes, version: bytes) -> None:
    expected = b'{"cniVersion":"%b","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}\n' % version
    assert _call(executable, config, CNI_COMMAND="VERSION") == (0, expected)


def test_no_variable_of_the_caller_decides_where_the_agent_is(executable: Path) -> None:
    where = str(executable.parent / "agent.sock")
    _, printed = _call(executable, CNI_COMMAND="ADD", TRACKBED_SOCKET="/elsewhere", PYTHONSTARTUP="/elsewhere")
    assert where.encode() in printed


def test_it_imports_only_what_starts_at_once() -> None:
    tree = ast.parse(SHIM.read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"_socket", "posix", "sys"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_it_stays_short() -> None:
    assert len(SHIM.read_text().splitlines()) <= 72


def test_the_first_line_names_the_interpreter_itself(interpreted: Path) -> None:
    interpreter, flags = interpreted.read_text().splitlines()[0].removeprefix("#!").split()
    assert (interpreter, flags) == (os.path.realpath(sys.executable), "-ISE")
    assert not Path(interpreter).is_symlink()


def test_installing_again_replaces_the_executable_in_one_step(executable: Path) -> None:
    with executable.open("rb") as running:
        again = install_executable(executable.parent, Path("/run/other.sock"))
        assert running.read() != again.read_bytes()
    assert sorted(path.name for path in executable.parent.iterdir()) == ["trackbed"]
    assert b"/run/other.sock" in again.read_bytes()


def test_an_executable_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    sync, replace = os.fsync, Path.replace

    def note_sync(descriptor: int) -> None:
        order.append(f"sync {Path('/proc/self/fd', str(descriptor)).readlink().name}")
        sync(descriptor)

    def note_replace(path: Path, target: Path) -> Path:
        order.append(f"rename to {target.name}")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    install_executable(tmp_path, tmp_path / "agent.sock", binary=tmp_path / "none")
    assert order == ["sync .trackbed.trackbed", "rename to trackbed", f"sync {tmp_path.name}"]


@pytest.mark.needs("go")
def test_a_socket_whose_name_is_too_long_for_the_kernel_is_refused(tmp_path: Path, built: Path) -> None:
    longest = Path("/" + "s" * 106)
    assert os.fsencode(longest) in install_executable(tmp_path, longest, binary=built).read_bytes()
    with pytest.raises(ValueError, match="a socket's path has 107 bytes at most"):
        install_executable(tmp_path, Path(f"{longest}s"), binary=built)
