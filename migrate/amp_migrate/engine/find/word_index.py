"""Which files may hold a word, without reading them again: a Bloom filter of a kibibyte or more for each file.

Following a function through a project asks for the files that mention it, once for every function. Reading ten
thousand files for each would take minutes, and keeping their words would take hundreds of megabytes.
"""

from __future__ import annotations

import re
import zlib

from amp_migrate.engine.find.prefilter import Bytes

_WORD = re.compile(rb"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]*")
_BYTES = 1024  # a file of 500 distinct words is read in vain for one word in sixteen,
_BYTES_PER_WORD = 2  # and so is one of more
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

    def knows(self, file: str) -> bool:
        """Whether the words of a file are known."""
        return file in self._filters

    def rules_out(self, file: str, words: list[bytes]) -> bool:
        """Whether a file is known to lack one of `words`."""
        known = self._filters.get(file)
        if known is None:
            return False
        bits = 8 * len(known)
        return not all(known[bit >> 3] >> (bit & 7) & 1 for bit in (zlib.crc32(word) % bits for word in words))

    def learn(self, file: str, data: Bytes) -> None:
        """Remember the words of a file that was read."""
        if self._asked < _WORTH_IT or file in self._filters:
            return
        words = set(_WORD.findall(data))
        known = bytearray(max(_BYTES, _BYTES_PER_WORD * len(words)))
        bits = 8 * len(known)
        for word in words:
            bit = zlib.crc32(word) % bits
            known[bit >> 3] |= 1 << (bit & 7)
        self._filters[file] = bytes(known)
