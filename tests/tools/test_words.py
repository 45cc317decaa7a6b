from pathlib import Path

import pytest

from tools.words import classify_name, main

pytestmark = pytest.mark.needs("processes")

ROOM = "src/trackbed/host/links.py"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty repository, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(root: Path, sources: dict[str, str]) -> None:
    """Write the files of a repository."""
    for name, text in sources.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param("told", "participle", id="irregular-participle"),
        pytest.param("_planned", "participle", id="private-participle"),
        pytest.param("rolled_out", "participle", id="participle-first"),
        pytest.param("mapping_of_texts", "participle", id="gerund"),
        pytest.param("back", "adverb", id="adverb"),
        pytest.param("of_vf", "preposition", id="preposition"),
        pytest.param("until_told", "preposition", id="conjunction"),
        pytest.param("stale", "adjective", id="adjective"),
        pytest.param("no_gateway", "pronoun", id="determiner"),
        pytest.param("read_links", None, id="verb"),
        pytest.param("_embed_chart", None, id="verb-in-ed"),
        pytest.param("bring_up", None, id="verb-in-ing"),
        pytest.param("back_off", None, id="verb-of-two-words"),
        pytest.param("is_stale", None, id="question"),
        pytest.param("to_json", None, id="conversion"),
        pytest.param("as_cni_errors", None, id="context-manager"),
        pytest.param("restore_told", None, id="banned-word-later"),
    ],
)
def test_a_function_begins_with_a_verb(name: str, part: str | None) -> None:
    assert classify_name(name) == part


@pytest.mark.parametrize(
    ("source", "names"),
    [
        pytest.param("def told(): ...", ["told"], id="function"),
        pytest.param("class A:\n async def again(self): ...", ["again"], id="method"),
        pytest.param("def read():\n def there(): ...", ["there"], id="nested-function"),
        pytest.param("class A:\n @property\n def taken(self): ...", [], id="property"),
        pytest.param("class A:\n @functools.cached_property\n def taken(self): ...", [], id="cached-property"),
        pytest.param("class A:\n @override\n def missing(self): ...", [], id="override"),
        pytest.param("class A:\n def __missing__(self): ...", [], id="special-method"),
        pytest.param("@click.command(name='up')\ndef up(): ...", [], id="command"),
        pytest.param("@pytest.fixture\ndef booted(): ...", [], id="fixture"),
        pytest.param("@cache\ndef booted(): ...", ["booted"], id="other-decorator"),
        pytest.param("own = 1", ["own"], id="assignment"),
        pytest.param("[one for one in ports]", ["one"], id="comprehension"),
        pytest.param("with lock as _had: ...", ["_had"], id="with"),
        pytest.param("if (found := read()): ...", ["found"], id="walrus"),
        pytest.param("try: ...\nexcept OSError as told: ...", ["told"], id="except"),
        pytest.param("match read():\n case [*rest]: ...", ["rest"], id="match"),
        pytest.param("def read(*, what): ...", ["what"], id="parameter"),
        pytest.param("sorted(ports, key=lambda one: 0)", ["one"], id="parameter-of-lambda"),
        pytest.param("self.seen = 1", ["seen"], id="attribute"),
        pytest.param("class A:\n given: int", ["given"], id="field"),
        pytest.param("class GateStatus:\n what: str", [], id="field-that-is-encoded"),
        pytest.param("class GateStatus:\n holds: bool\nwhat = 1", ["what"], id="not-a-field"),
        pytest.param("print(own, port.found)\nowner = 1", [], id="use-without-assignment"),
    ],
)
def test_a_name_is_reported_once(
    repository: Path, capsys: pytest.CaptureFixture[str], source: str, names: list[str]
) -> None:
    write(repository, {ROOM: source})
    assert main([]) == bool(names)
    assert [line.split(": ")[1] for line in capsys.readouterr().out.splitlines()] == names


def test_a_report_says_where_what_and_what_to_do(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(repository, {ROOM: "import os\n\ndef told(): ...\n"})
    main([])
    assert capsys.readouterr().out == (
        f"{ROOM}:3: told: begins with a word that is no verb (participle);"
        " begin with a verb (read_, is_, to_, wait_for_)\n"
    )


@pytest.mark.parametrize(
    ("path", "name", "reported"),
    [
        pytest.param("src/trackbed/fleet/a.py", "Port", True, id="two-rooms"),
        pytest.param("packages/trackbed-lab/src/trackbed_lab/a.py", "Port", True, id="room-and-lab"),
        pytest.param("src/trackbed/host/b.py", "Port", False, id="one-room"),
        pytest.param("src/trackbed/fleet/a.py", "Cable", False, id="two-names"),
        pytest.param("bench/a.py", "Port", False, id="benchmark"),
    ],
)
def test_a_class_name_belongs_to_one_room(repository: Path, path: str, name: str, *, reported: bool) -> None:
    write(repository, {ROOM: "class Port: ...", path: f"class {name}: ..."})
    assert main([]) == reported


def test_each_kind_of_setting_may_have_its_want(repository: Path) -> None:
    write(repository, {ROOM: "class Want: ...", "src/trackbed/fabric/a.py": "class Want: ..."})
    assert main([]) == 0


@pytest.mark.parametrize(
    ("path", "names"),
    [
        pytest.param("packages/trackbed-lab/src/trackbed_lab/a.py", ["own", "told"], id="package"),
        pytest.param("tools/a.py", ["own", "told"], id="tool"),
        pytest.param("bench/plugins/a.py", ["own", "told"], id="benchmark"),
        pytest.param("tests/host/test_a.py", ["own"], id="test-values-only"),
        pytest.param("examples/a.py", [], id="example"),
    ],
)
def test_the_folder_decides_what_is_checked(
    repository: Path, capsys: pytest.CaptureFixture[str], path: str, names: list[str]
) -> None:
    write(repository, {path: "own = 1\ndef told(): ..."})
    main([])
    assert [line.split(": ")[1] for line in capsys.readouterr().out.splitlines()] == names


@pytest.mark.parametrize(
    ("pending", "arguments", "code"),
    [
        pytest.param("", [], 1, id="nothing-pending"),
        pytest.param("# rooms\nsrc/trackbed/host  # next week\n", [], 0, id="folder-pending"),
        pytest.param(f"{ROOM}\n", [], 0, id="file-pending"),
        pytest.param("src/trackbed/ho\n", [], 1, id="half-a-name-is-no-folder"),
        pytest.param("src/trackbed/host\n", ["src/trackbed/host/"], 1, id="pending-but-named"),
        pytest.param("", ["src/trackbed/fleet"], 0, id="another-path"),
    ],
)
def test_a_pending_path_is_checked_when_it_is_named(
    repository: Path, pending: str, arguments: list[str], code: int
) -> None:
    write(repository, {ROOM: "own = 1", "tools/words_pending.txt": pending})
    assert main(arguments) == code


def test_a_class_of_a_pending_room_is_no_obstacle_to_others(repository: Path) -> None:
    classes = dict.fromkeys([ROOM, "src/trackbed/fleet/a.py"], "class Port: ...")
    write(repository, {**classes, "tools/words_pending.txt": "src/trackbed/fleet"})
    assert (main([]), main([ROOM])) == (0, 1)
