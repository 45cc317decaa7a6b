from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.fabric.documents import DocumentError
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import MAX_FILE_BYTES
from trackbed.host.snapshot.wire import build_snapshot_document, parse_snapshot, parse_wanted

_WORD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)


@given(
    st.builds(
        Snapshot,
        st.dictionaries(_WORD, st.binary(max_size=20)),
        st.dictionaries(_WORD, _WORD),
        st.dictionaries(_WORD, st.lists(_WORD, max_size=3).map(tuple)),
        st.dictionaries(
            st.lists(_WORD, min_size=1, max_size=3).map(tuple), st.builds(ProgramResult, st.integers(0, 255), _WORD)
        ),
        st.dictionaries(_WORD, _WORD),
    )
)
def test_a_snapshot_is_the_same_after_the_way(snapshot: Snapshot) -> None:
    assert parse_snapshot(msgspec.json.decode(msgspec.json.encode(build_snapshot_document(snapshot)))) == snapshot


def test_what_is_wanted_is_the_same_after_the_way() -> None:
    wanted = Wanted(("/etc/*",), ("/a",), ("/b",), (("ip", "-V"),))
    assert parse_wanted(msgspec.json.decode(msgspec.json.encode(wanted))) == wanted


def test_what_is_no_snapshot_is_refused() -> None:
    with pytest.raises(DocumentError):
        parse_snapshot({"files": {"/x": 3}})


def test_of_a_file_no_more_is_taken_than_a_host_sends() -> None:
    document = build_snapshot_document(Snapshot({"/etc/a": b"x" * (MAX_FILE_BYTES + 1)}, {}, {}, {}, {}))
    assert parse_snapshot(document).files == {"/etc/a": b"x" * MAX_FILE_BYTES}
