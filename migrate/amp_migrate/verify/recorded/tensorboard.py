"""Scalars in TensorBoard's event files, read without TensorBoard.

A file is a row of records: the length in 8 bytes, 4 bytes of checksum, the data, 4 bytes of checksum. The data is a
protocol buffer, `Event`: its field 5 is a `Summary`, of which field 1 is a value, repeated, with the tag in field 1 and
the number as a float in field 2, or as a tensor in field 8.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
_FLOAT, _DOUBLE = 1, 2  # TensorProto's names of dtypes


def scalars(path: Path) -> Iterator[tuple[str, float]]:
    """Tag and value of every scalar, in the order written. A record that was cut short ends the file."""
    for record in _records(path.read_bytes()):
        for number, summary in _fields(record):
            if number == 5 and isinstance(summary, bytes):
                yield from _values(summary)


def _records(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        end = at + 12 + length
        if end + 4 > len(data):
            return
        yield data[at + 12 : end]
        at = end + 4


def _values(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, value in _fields(summary):
        if number == 1 and isinstance(value, bytes):
            fields = dict(_fields(value))
            tag, simple, tensor = fields.get(1), fields.get(2), fields.get(8)
            found = simple if isinstance(simple, float) else _of_tensor(tensor) if isinstance(tensor, bytes) else None
            if isinstance(tag, bytes) and found is not None:
                yield tag.decode("utf-8", "replace"), found


def _of_tensor(tensor: bytes) -> float | None:
    """The value of a tensor of one number; None for any other: text, pictures, histograms."""
    fields = dict(_fields(tensor))
    kind, content = fields.get(1), next((fields[number] for number in (4, 5, 6) if number in fields), None)
    if isinstance(content, float):
        return content
    layout = {_FLOAT: "<f", _DOUBLE: "<d"}.get(kind) if isinstance(kind, int) else None
    if layout is None or not isinstance(content, bytes) or len(content) != struct.calcsize(layout):
        return None
    return float(struct.unpack(layout, content)[0])


def _fields(message: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Number and value of each field of a protocol buffer; what follows a field that is not understood is left."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        value: int | float | bytes
        if kind == _VARINT:
            value, at = _varint(message, at)
        elif kind == _EIGHT_BYTES and at + 8 <= len(message):
            value, at = float(struct.unpack_from("<d", message, at)[0]), at + 8
        elif kind == _FOUR_BYTES and at + 4 <= len(message):
            value, at = float(struct.unpack_from("<f", message, at)[0]), at + 4
        elif kind == _BYTES:
            length, at = _varint(message, at)
            value, at = message[at : at + length], at + length
        else:
            return
        yield key >> 3, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, and where it ends."""
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if byte < 0x80:
            break
    return value, at
