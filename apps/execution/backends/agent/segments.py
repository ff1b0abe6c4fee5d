"""The output of one task, in files. Standard library only, and no other module of this project."""

import os
from contextlib import suppress

SEGMENT_BYTES = 1 << 20
SEGMENTS = 8  # of each stream


class Segments:
    """An output stream in a bounded number of files."""

    def __init__(self, directory: str, stream: str) -> None:
        self._directory, self._stream = directory, stream
        self._starts: list[int] = []
        self._position, self._used, self._file = 0, SEGMENT_BYTES, -1

    def write(self, data: bytes) -> None:
        """Append data; begin a new segment if the last one is full."""
        if self._used >= SEGMENT_BYTES:
            self._begin()
        os.write(self._file, data)
        self._used += len(data)
        self._position += len(data)

    def _begin(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        path = os.path.join(self._directory, f"{self._stream}.{self._position}")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._starts.append(self._position)
        self._used = 0
        while len(self._starts) > SEGMENTS:
            oldest = os.path.join(self._directory, f"{self._stream}.{self._starts.pop(0)}")
            with suppress(FileNotFoundError):
                os.unlink(oldest)
