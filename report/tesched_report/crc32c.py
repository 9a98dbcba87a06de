"""CRC-32C, which TFRecord files carry. Source: RFC 3720, appendix B.4; the mask: TensorFlow, lib/hash/crc32c.h."""

from __future__ import annotations

from functools import cache

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, its bits in reverse


@cache
def _table() -> tuple[int, ...]:
    made = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        made.append(value)
    return tuple(made)


def crc32c(data: bytes) -> int:
    """Return the checksum of the bytes."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    """Return the checksum as a TFRecord has it."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF
