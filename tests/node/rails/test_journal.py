import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackbed.host import journal_records
from trackbed.host.journal_records import MAX_PAYLOAD_BYTES, frame_record, parse_records
from trackbed.node.rails import journal as journal_module
from trackbed.node.rails.journal import Journal, JournalError

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
    assert (journal.contents.payloads, journal.needs_rewrite) == ([b"one"], True)
    with pytest.raises(JournalError, match="misses records"):
        journal.append(b"three", sync=False)
    journal.rewrite(journal.contents.payloads)
    journal.append(b"three", sync=False)
    journal.close()
    assert _reopened(tmp_path) == [b"one", b"three"]


def test_a_record_that_could_not_be_read_again_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match="a record of 1048577 bytes is longer than the limit, 1048576"):
        journal.append(bytes(MAX_PAYLOAD_BYTES + 1), sync=False)
    journal.append(bytes(MAX_PAYLOAD_BYTES), sync=False)
    journal.close()
    assert _reopened(tmp_path) == [bytes(MAX_PAYLOAD_BYTES)]


@given(PAYLOADS, st.data())
def test_a_cut_anywhere_loses_only_what_is_behind_it(payloads: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(map(frame_record, payloads))
    cut = data.draw(st.integers(0, len(raw)))
    whole = [
        payload for at, payload in enumerate(payloads) if len(b"".join(map(frame_record, payloads[: at + 1]))) <= cut
    ]
    assert parse_records(raw[:cut]).payloads == whole


@given(PAYLOADS, st.data())
def test_a_changed_byte_loses_only_its_own_record(payloads: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(b"".join(map(frame_record, payloads)))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    ends = [len(b"".join(map(frame_record, payloads[: number + 1]))) for number in range(len(payloads))]
    hit = next(number for number, end in enumerate(ends) if at < end)
    contents = parse_records(bytes(raw))
    assert contents.payloads == payloads[:hit] + payloads[hit + 1 :]
    assert contents.damaged_bytes == len(frame_record(payloads[hit]))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    assert 0 <= parse_records(raw).damaged_bytes <= len(raw)


def test_a_length_beyond_the_file_is_not_believed() -> None:
    lying = frame_record(b"x" * 10)[:4] + (1 << 31).to_bytes(4, "little") + bytes(4)
    assert parse_records(lying + frame_record(b"after")).payloads == [b"after"]


@pytest.mark.parametrize("length", [0xFFFF_FFFF, MAX_PAYLOAD_BYTES, 100_000], ids=["4 GiB", "1 MiB", "100 KB"])
def test_a_file_of_false_headers_is_read_in_bounded_work(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    checked: list[int] = []

    def checksum(payload: memoryview) -> int:
        checked.append(len(payload))
        return 1

    monkeypatch.setattr(journal_records, "_MAX_WASTED_BYTES", 1 << 22)
    monkeypatch.setattr(journal_records, "zlib", SimpleNamespace(crc32=checksum))
    header = b"TBj1" + length.to_bytes(4, "little") + bytes(4)
    contents = parse_records(header * 20_000)
    assert contents == ([], 20_000 * len(header))
    assert sum(checked) <= (1 << 22) + MAX_PAYLOAD_BYTES


def test_no_more_than_the_limit_of_a_journal_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "MAX_JOURNAL_BYTES", 100)
    monkeypatch.setattr(journal_records, "MAX_JOURNAL_BYTES", 100)
    (tmp_path / "journal").write_bytes(frame_record(b"one") + bytes(100) + frame_record(b"late"))
    opened = Journal(tmp_path)
    assert (opened.contents.payloads, opened.needs_rewrite) == ([b"one"], True)
    opened.close()
