"""Losses from what trainings write. The event file was written by the `tensorboard` package itself (2.21)."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tesched_report.crc32c import crc32c, masked
from tesched_report.follow import PIECE, Follower, follow, reader_of
from tesched_report.readers import LONGEST_LINE, Loss, LossFormat, LossReader, ReadError
from tesched_report.reporter import Reporter
from tesched_report.tensorboard import LONGEST_RECORD, TensorBoard

#: steps 0 and 10 as simple_value (10 with a learning rate before it), 20 as a tensor's float_val, 30 as its
#: tensor_content, 40 as double_val; 50 has val/loss alone, 60 a loss that is NaN
EVENTS = base64.b64decode(
    "SAAAAAAAAAD+kkidCdZMDf1VwNpBGg1icmFpbi5FdmVudDoyUi4KLHRlbnNvcmJvYXJkLnN1bW1hcnkud3JpdGVyLmV2ZW50X2Zp"
    "bGVfd3JpdGVyBLiTMBgAAAAAAAAAo39LIgkAAAAAAECPQCoNCgsKBGxvc3MVAAAgQBG61gElAAAAAAAAAOq8NvMJAAAAAACQj0AQ"
    "CioYCgkKAmxyFc3MzD0KCwoEbG9zcxUAAKA/U+cStSEAAAAAAAAAAXvs9gkAAAAAAOCPQBAUKhQKEgoEbG9zc0IKCAESACoEAABA"
    "PytG7S0hAAAAAAAAAAF77PYJAAAAAAAYkEAQHioUChIKBGxvc3NCCggBEgAiBAAAAD/3TSGhJQAAAAAAAADqvDbzCQAAAAAAQJBA"
    "ECgqGAoWCgRsb3NzQg4IAhIAMggAAAAAAADYP9L6pc8eAAAAAAAAANncEjIJAAAAAABokEAQMioRCg8KCHZhbC9sb3NzFQAAEEFF"
    "+ryDGgAAAAAAAAASm9gtCQAAAAAAkJBAEDwqDQoLCgRsb3NzFQAAwH+xo45u"
)
LOSSES = [(0, 2.5), (10, 1.25), (20, 0.75), (30, 0.5), (40, 0.375)]


def fed(reader: LossReader, data: bytes, piece: int = 1 << 20) -> list[Loss]:
    """Return the losses that a reader finds in the data, in pieces of this size."""
    return [loss for start in range(0, len(data), piece) for loss in reader.feed(data[start : start + piece])]


def _record(data: bytes) -> bytes:
    """Return a TFRecord of this."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + struct.pack("<I", masked(data))


@pytest.mark.parametrize(
    ("data", "checksum"),
    [
        # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
    ],
)
def test_checksums_are_those_of_the_rfc(data: bytes, checksum: int) -> None:
    assert crc32c(data) == checksum


class TestTensorBoard:
    """Event files."""

    @pytest.mark.parametrize("piece", [1, 7, 1 << 20])
    def test_scalars_are_read_however_they_are_written_and_in_whatever_pieces(self, piece: int) -> None:
        assert fed(TensorBoard(), EVENTS, piece) == LOSSES

    def test_another_tag_can_be_named_and_the_tags_of_the_file_are_listed(self) -> None:
        assert fed(TensorBoard(loss_key="val/loss"), EVENTS) == [(50, 9.0)]
        reader = TensorBoard(loss_key="accuracy")
        assert fed(reader, EVENTS) == []
        assert reader.seen == {"loss", "lr", "val/loss"}

    def test_a_damaged_byte_is_reported_wherever_it_is(self) -> None:
        for place in range(len(EVENTS)):
            broken = bytearray(EVENTS)
            broken[place] ^= 0x10
            with pytest.raises(ReadError, match="checksum"):
                fed(TensorBoard(), bytes(broken))

    def test_a_large_record_is_passed_over_without_being_kept(self) -> None:
        reader = TensorBoard()
        length = struct.pack("<Q", 10 * LONGEST_RECORD)
        head = length + struct.pack("<I", masked(length))
        assert fed(reader, head + bytes(10 * LONGEST_RECORD + 4) + EVENTS, 1000) == LOSSES

    def test_a_record_of_an_impossible_length_is_refused(self) -> None:
        length = struct.pack("<Q", 1 << 62)
        with pytest.raises(ReadError, match="no TFRecord begins at byte 0"):
            fed(TensorBoard(), length + struct.pack("<I", masked(length)))

    @pytest.mark.parametrize(
        "content",
        [b"\x2a", b"\x2a\x7f", b"\x2a\x03\x0a\x7f\x00", b"\x10" + b"\xff" * 11, b"\x0b", b"\x09\x00", b"\xff"],
    )
    def test_a_record_that_is_no_event_is_refused(self, content: bytes) -> None:
        with pytest.raises(ReadError, match="is no event"):
            fed(TensorBoard(), _record(content))


class TestLines:
    """JSON lines and CSV."""

    @pytest.mark.parametrize("piece", [1, 1 << 20])
    def test_json_lines_are_read(self, piece: int) -> None:
        text = (
            '{"step": 1, "loss": 2.5, "lr": 0.1}\n'
            "not JSON\n[1, 2]\n\n"
            '{"step": 2, "eval_loss": 9}\n'
            '{"step": 3, "loss": NaN}\n'
            '{"step": 4, "loss": "0.5"}\n'
            '{"step": 4.5, "loss": 1}\n{"step": -1, "loss": 1}\n{"step": true, "loss": 1}\n'
            '{"step": 5, "loss": 0.25}'
        )
        # The last line has no end yet.
        assert fed(reader_of(LossFormat.JSONL), text.encode(), piece) == [(1, 2.5), (4, 0.5)]

    def test_a_key_can_be_named(self) -> None:
        reader = reader_of(LossFormat.JSONL, iteration_key="i", loss_key="nll")
        assert fed(reader, b'{"step": 1, "loss": 2}\n{"i": 7, "nll": 3}\n') == [(7, 3.0)]
        assert reader.seen == {"step", "loss"}

    def test_csv_with_empty_cells_quotes_and_windows_lines(self) -> None:
        text = '\ufeffepoch,step,"train_loss",val\r\n0,10,2.5,\r\n0,10,,3\r\n1,20,1.5,\r\n1\r\nx,y,z,w\r\n'
        assert fed(reader_of(LossFormat.CSV), text.encode()) == [(10, 2.5), (20, 1.5)]

    def test_a_line_without_end_is_not_kept(self) -> None:
        reader = reader_of(LossFormat.JSONL)
        endless = b"x" * (2 * LONGEST_LINE)
        assert fed(reader, endless + b'{"step": 1, "loss": 1}\n{"step": 2, "loss": 2}\n', 1 << 16) == [(2, 2.0)]

    @pytest.mark.parametrize("line", [b"[" * 100_000, b'{"step": ' + b"9" * 5000 + b"}", b'{"step": 1e999, "loss": 1}'])
    def test_a_line_that_would_hurt_is_passed_over(self, line: bytes) -> None:
        assert fed(reader_of(LossFormat.JSONL), line + b'\n{"step": 2, "loss": 2}\n') == [(2, 2.0)]


class Heard(Reporter):
    """A reporter that writes nothing, and remembers."""

    def __init__(self) -> None:
        """Begin."""
        super().__init__({})
        self.heard: list[tuple[int, float]] = []

    def report(self, *, iteration: object, loss: object, **_: object) -> None:
        """Remember it."""
        self.heard.append((iteration, loss))  # type: ignore[arg-type]


class TestFollow:
    """A file that grows."""

    def test_what_is_added_is_reported_once_and_a_file_written_anew_is_read_anew(self, tmp_path: Path) -> None:
        path, heard = tmp_path / "log.jsonl", Heard()
        follower = Follower(path, lambda: reader_of(LossFormat.JSONL), heard)
        assert follower.look() == 0
        path.write_text('{"step": 1, "loss": 5}\n{"step": 2,')
        assert follower.look() == 1
        with path.open("a") as file:
            file.write(' "loss": 4}\n')
        assert (follower.look(), follower.look()) == (1, 0)
        path.write_text('{"step": 1, "loss": 3}\n')
        assert follower.look() == 1
        other = tmp_path / "other"
        other.write_text('{"step": 1, "loss": 2}\n{"step": 2, "loss": 1}\n')
        other.replace(path)
        assert follower.look() == 2
        assert heard.heard == [(1, 5.0), (2, 4.0), (1, 3.0), (1, 2.0), (2, 1.0)]

    def test_a_folder_stands_for_its_newest_event_file(self, tmp_path: Path) -> None:
        heard = Heard()
        follower = Follower(tmp_path, lambda: reader_of(LossFormat.TENSORBOARD), heard)
        assert follower.look() == 0
        (tmp_path / "events.out.tfevents.1.host").write_bytes(EVENTS)
        (tmp_path / "checkpoint").write_text("x")
        follower.look()
        assert heard.heard == LOSSES

    def test_a_file_of_another_format_is_reported_once_and_goes_on_being_read(self, tmp_path: Path) -> None:
        path, said = tmp_path / "log", list[str]()
        path.write_text("step,loss\n1,2\n")
        follower = Follower(path, lambda: reader_of(LossFormat.TENSORBOARD), Heard())
        with pytest.raises(StopIteration):
            follow(follower, say=said.append, pause=_three_times())
        assert said == ["no TFRecord begins at byte 0: the checksum of its length is wrong; it is read again"]

    def test_an_end_that_was_half_written_is_read_once_it_is_whole(self, tmp_path: Path) -> None:
        path, heard = tmp_path / "events.out.tfevents.1.host", Heard()
        follower = Follower(path, lambda: reader_of(LossFormat.TENSORBOARD), heard)
        last = len(EVENTS) - 100
        # A file system may give a file its length before its bytes.
        path.write_bytes(EVENTS[:last] + bytes(100))
        for _ in range(2):
            with pytest.raises(ReadError):
                follower.look()
        path.write_bytes(EVENTS)
        follower.look()
        # Each once: one that came again would be a training that went back.
        assert heard.heard == LOSSES
        # What is no event has a place in the file as a whole, and what is behind it is read.
        with path.open("ab") as file:
            file.write(_record(b"\x07") + EVENTS)
        with pytest.raises(ReadError, match=f"before byte {len(EVENTS) + 17} is no event"):
            follower.look()
        follower.look()
        assert heard.heard == LOSSES * 2

    def test_of_a_file_that_stays_damaged_no_more_is_kept_however_often_it_is_read(self, tmp_path: Path) -> None:
        path = tmp_path / "events.out.tfevents.1.host"
        path.write_bytes(EVENTS + b"x" * PIECE * 2)
        reader = TensorBoard()
        follower = Follower(path, lambda: reader, Heard())
        for _ in range(5):
            with pytest.raises(ReadError, match=f"no TFRecord begins at byte {len(EVENTS)}:"):
                follower.look()
        assert sum(len(kept) for kept in vars(reader).values() if isinstance(kept, bytes)) < PIECE

    def test_a_damaged_file_that_is_written_anew_and_longer_is_read_anew(self, tmp_path: Path) -> None:
        path, heard = tmp_path / "log", Heard()
        path.write_text("step,loss\n1,2\n")
        follower = Follower(path, lambda: reader_of(LossFormat.TENSORBOARD), heard)
        with pytest.raises(ReadError):
            follower.look()
        path.write_bytes(EVENTS)
        follower.look()
        path.write_bytes(_record(b"\x10\x07") + EVENTS)
        follower.look()
        assert heard.heard == LOSSES * 2

    def test_a_file_without_a_loss_is_reported_with_what_it_has(self, tmp_path: Path) -> None:
        path, said = tmp_path / "log", list[str]()
        path.write_text("step,nll\n1,2\n")
        follower = Follower(path, lambda: reader_of(LossFormat.CSV), Heard())
        with pytest.raises(StopIteration):
            follow(follower, say=said.append, pause=_three_times())
        assert said == ["no loss was found yet, only nll, step; --loss-key names it"]


class _three_times:  # noqa: N801 - a function with a memory
    """Let three pauses pass, then raise StopIteration."""

    def __init__(self) -> None:
        self._left: Iterator[int] = iter(range(3))

    def __call__(self, _seconds: float) -> None:
        next(self._left)


def test_each_usual_name_is_found() -> None:
    names: Sequence[tuple[str, str]] = [("iteration", "loss"), ("global_step", "train/loss"), ("epoch", "train_loss")]
    for iteration, loss in names:
        text = f"{iteration},{loss}\n3,0.5\n"
        assert fed(reader_of(LossFormat.CSV), text.encode()) == [(3, 0.5)]
