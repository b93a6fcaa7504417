"""Which files may hold a word, without reading them again: a Bloom filter of one kibibyte for each file.

Following a function through a project asks for the files that mention it, once for every function. Reading ten
thousand files for each would take minutes, and keeping their words would take hundreds of megabytes.
"""

from __future__ import annotations

import re
import zlib

from amp_migrate.engine.find.prefilter import Bytes

_WORD = re.compile(rb"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*")
_BITS = 8192  # a file of 500 distinct words is read in vain for one word in sixteen
# Finding one word is much quicker than indexing all: the index pays when it has been asked for so many.
_WORTH_IT = 8


class WordIndex:
    """The filters of the files that were read since the index became worth its while."""

    def __init__(self) -> None:
        self._filters: dict[str, bytes] = {}
        self._asked = 0

    def begin_search(self) -> None:
        """Say that all files are about to be searched for a word."""
        self._asked += 1

    def rules_out(self, file: str, words: list[bytes]) -> bool:
        """Whether a file is known to lack one of `words`."""
        known = self._filters.get(file)
        return known is not None and not all(known[bit >> 3] >> (bit & 7) & 1 for bit in map(_bit, words))

    def learn(self, file: str, data: Bytes) -> None:
        """Remember the words of a file that was read."""
        if self._asked < _WORTH_IT or file in self._filters:
            return
        bits = bytearray(_BITS // 8)
        for word in set(_WORD.findall(data)):
            bit = _bit(word)
            bits[bit >> 3] |= 1 << (bit & 7)
        self._filters[file] = bytes(bits)


def _bit(word: bytes) -> int:
    return zlib.crc32(word) % _BITS
