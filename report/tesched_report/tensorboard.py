"""TensorBoard's event files: records of TFRecord, each a protobuf `Event`, of which the scalars are read.

A record is: its length (8 bytes, little-endian), a masked CRC-32C of those, the data, a masked CRC-32C of the data. Of
an Event only `step` (2) and `summary` (5) are read, of a summary's values `tag` (1) and `simple_value` (2) or a
`tensor` (8) of one number. Source: TensorFlow's tfrecord format, event.proto, summary.proto, tensor.proto; protobuf's
encoding guide.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import isfinite

from tesched_report.crc32c import masked
from tesched_report.readers import LOSS_KEYS, Loss, ReadError

#: Records that are longer hold graphs and pictures; they are passed over, with their checksum.
LONGEST_RECORD = 1 << 16
#: Longest piece of a file that can be a record at all.
_LARGEST = 1 << 40
_LENGTH = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DT_FLOAT, _DT_DOUBLE = 1, 2


class TensorBoard:
    """Reads one event file."""

    def __init__(self, *, loss_key: str = "") -> None:
        """Read this tag, or for the usual ones."""
        self._tags = (loss_key,) if loss_key else LOSS_KEYS
        self._rest = b""
        #: bytes still to be passed over
        self._skip = 0
        self._at = 0
        self.seen: set[str] = set()

    def feed(self, data: bytes) -> Iterator[Loss]:
        """Yield the losses of whole records.

        Raises ReadError for a damaged one, or another kind of file; what is fed next begins there, or behind a whole
        record that is no event.
        """
        try:
            yield from self._found(data)
        except ReadError as error:
            self._rest = b""
            raise ReadError(str(error), whole=self._at) from None

    def _found(self, data: bytes) -> Iterator[Loss]:
        self._rest += data
        while True:
            if self._skip:
                passed = min(self._skip, len(self._rest))
                self._rest, self._skip, self._at = self._rest[passed:], self._skip - passed, self._at + passed
                if self._skip:
                    return
            if len(self._rest) < _LENGTH.size:
                return
            length, crc = _LENGTH.unpack_from(self._rest)
            if masked(self._rest[:8]) != crc or length > _LARGEST:
                raise ReadError(f"no TFRecord begins at byte {self._at}: the checksum of its length is wrong")
            end = _LENGTH.size + length
            if length > LONGEST_RECORD:
                self._skip = end + _CRC.size
                continue
            if len(self._rest) < end + _CRC.size:
                return
            record = self._rest[_LENGTH.size : end]
            if masked(record) != _CRC.unpack_from(self._rest, end)[0]:
                raise ReadError(f"the record at byte {self._at} is damaged: its checksum is wrong")
            self._rest, self._at = self._rest[end + _CRC.size :], self._at + end + _CRC.size
            yield from self._losses(record)

    def _losses(self, record: bytes) -> Iterator[Loss]:
        step = 0
        summaries: list[bytes] = []
        try:
            for field, value in _fields(record):
                if field == 2 and isinstance(value, int):
                    step = value
                elif field == 5 and isinstance(value, bytes):
                    summaries.append(value)
            scalars = {tag: number for summary in summaries for tag, number in _scalars(summary)}
        except (ReadError, struct.error) as error:
            raise ReadError(f"the record before byte {self._at} is no event: {error}") from None
        found = next((scalars[tag] for tag in self._tags if tag in scalars), None)
        if found is not None and isfinite(found) and step < 1 << 63:
            yield Loss(step, found)
        elif len(self.seen) < 100:
            self.seen.update(scalars)


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for field, value in _fields(summary):
        if field != 1 or not isinstance(value, bytes):
            continue
        tag, number = "", None
        for inner, part in _fields(value):
            if inner == 1 and isinstance(part, bytes):
                tag = part.decode(errors="replace")[:200]
            elif inner == 2 and isinstance(part, bytes) and len(part) == 4:
                number = struct.unpack("<f", part)[0]
            elif inner == 8 and isinstance(part, bytes):
                number = _of_tensor(part)
        if number is not None:
            yield tag, number


def _of_tensor(tensor: bytes) -> float | None:
    """Return the number in a tensor of one float or double; None for any other."""
    kind, content = 0, b""
    for field, value in _fields(tensor):
        if field == 1 and isinstance(value, int):
            kind = value
        # tensor_content, float_val and double_val: packed or not, one number's bytes.
        elif field in {4, 5, 6} and isinstance(value, bytes):
            content = value
    if kind == _DT_FLOAT and len(content) == 4:
        return float(struct.unpack("<f", content)[0])
    if kind == _DT_DOUBLE and len(content) == 8:
        return float(struct.unpack("<d", content)[0])
    return None


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, value) for each field: an integer for a varint, else its bytes. Raises ReadError."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield key >> 3, number
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ReadError(f"a field of the unknown kind {kind}")
        if size > len(message) - at:
            raise ReadError("a field is longer than its message")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at + place >= len(message):
            break
        byte = message[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at + place + 1
    raise ReadError("a number does not end")
