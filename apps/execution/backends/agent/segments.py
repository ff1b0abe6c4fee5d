"""The output of one task, in files. Standard library only, and no other module of this project."""

import os
from contextlib import suppress

SEGMENT_BYTES = 1 << 20
SEGMENTS = 8  # of each stream


class Segments:
    """An output stream in a bounded number of files; what a full disk does not take is dropped."""

    def __init__(self, directory: str, stream: str) -> None:
        self._directory, self._stream = directory, stream
        self._starts: list[int] = []
        self._position, self._used, self._file = 0, SEGMENT_BYTES, -1
        self._lost, self._why = 0, ""

    def write(self, data: bytes) -> None:
        """Append data, after a note of what was dropped before."""
        if self._lost:
            note = f"\nberth: {self._lost} bytes of output were dropped: {self._why}\n".encode()
            if self._append(note) < len(note):
                self._lost += len(data)
                return
            self._lost = 0
        self._lost += len(data) - self._append(data)

    def _append(self, data: bytes) -> int:
        """Append data, in a new segment if the last one is full; return how much was written."""
        count = 0
        while count < len(data):
            try:
                if self._used >= SEGMENT_BYTES:
                    self._begin()
                written = os.write(self._file, data[count:])
            except OSError as error:
                self._why = os.strerror(error.errno or 0)
                break
            count += written
            self._used += written
            self._position += written
        return count

    def _begin(self) -> None:
        path = os.path.join(self._directory, f"{self._stream}.{self._position}")
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._used = opened, 0
        self._starts.append(self._position)
        while len(self._starts) > SEGMENTS:
            oldest = os.path.join(self._directory, f"{self._stream}.{self._starts.pop(0)}")
            with suppress(FileNotFoundError):
                os.unlink(oldest)
