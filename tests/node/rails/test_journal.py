import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.node.rails.journal import Journal, JournalError, frame_record, read_records

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=8)


def _reopened(folder: Path) -> list[bytes]:
    journal = Journal(folder)
    journal.close()
    return journal.contents.payloads


def test_what_was_appended_is_read_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one", sync=False)
    journal.append(b"", sync=True)
    journal.close()
    assert _reopened(tmp_path) == [b"one", b""]


def test_only_one_process_holds_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(
        JournalError, match=r"another agent holds .*/lock; stop it, or give this one a folder of its own"
    ):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_rewritten_journal_has_only_the_new_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"old", sync=False)
    journal.rewrite([b"new", b"newer"])
    journal.append(b"newest", sync=False)
    journal.close()
    assert _reopened(tmp_path) == [b"new", b"newer", b"newest"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["journal", "lock"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JournalError, match=r"the journal in .*/file/state cannot be opened: Not a directory"):
        Journal(tmp_path / "file" / "state")


def test_after_damage_it_has_to_be_rewritten_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one", sync=False)
    journal.append(b"two", sync=False)
    journal.close()
    os.truncate(tmp_path / "journal", journal.size_bytes - 1)
    journal = Journal(tmp_path)
    assert (journal.contents.payloads, journal.behind) == ([b"one"], True)
    with pytest.raises(JournalError, match="misses records"):
        journal.append(b"three", sync=False)
    journal.rewrite(journal.contents.payloads)
    journal.append(b"three", sync=False)
    journal.close()
    assert _reopened(tmp_path) == [b"one", b"three"]


@given(PAYLOADS, st.data())
def test_a_cut_anywhere_loses_only_what_is_behind_it(payloads: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(map(frame_record, payloads))
    cut = data.draw(st.integers(0, len(raw)))
    whole = [
        payload for at, payload in enumerate(payloads) if len(b"".join(map(frame_record, payloads[: at + 1]))) <= cut
    ]
    assert read_records(raw[:cut]).payloads == whole


@given(PAYLOADS, st.data())
def test_a_changed_byte_loses_only_its_own_record(payloads: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(b"".join(map(frame_record, payloads)))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    ends = [len(b"".join(map(frame_record, payloads[: number + 1]))) for number in range(len(payloads))]
    hit = next(number for number, end in enumerate(ends) if at < end)
    contents = read_records(bytes(raw))
    assert contents.payloads == payloads[:hit] + payloads[hit + 1 :]
    assert contents.damaged_bytes == len(frame_record(payloads[hit]))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    assert 0 <= read_records(raw).damaged_bytes <= len(raw)


def test_a_length_beyond_the_file_is_not_believed() -> None:
    lying = frame_record(b"x" * 10)[:4] + (1 << 31).to_bytes(4, "little") + bytes(4)
    assert read_records(lying + frame_record(b"after")).payloads == [b"after"]
