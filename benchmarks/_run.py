"""Run a benchmark and store what it prints: `python -m benchmarks._run NAME [ARGUMENT...]`.

`./dev bench` calls it. A benchmark that calls `_results.store` itself also stores tables; what a
run prints never replaces them, and a help text is not stored.
"""

import runpy
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TextIO

from benchmarks import _results


class _Copying(StringIO):
    """Text that is also written to a stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str, /) -> int:
        self._stream.write(text)
        return super().write(text)

    def flush(self) -> None:
        self._stream.flush()


def _has_tables(name: str, folder: Path) -> bool:
    return (folder / f"{name}.json").exists() and bool(_results.load(name, folder)["tables"])


def main(argv: Sequence[str], folder: Path = _results.RESULTS) -> int:
    """Run one benchmark; return its exit code."""
    name, *arguments = argv
    before = len(_results.stored)
    printed = _Copying(sys.stdout)
    sys.argv = [f"benchmarks.{name}", *arguments]
    try:
        with redirect_stdout(printed):
            runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    lines = printed.getvalue().splitlines()
    has_stored = len(_results.stored) > before or _has_tables(name, folder)
    is_help = not {"-h", "--help"}.isdisjoint(arguments)
    if code == 0 and lines and not has_stored and not is_help:
        _results.store(
            name, arguments={"argv": arguments}, figures=lines, tables={}, folder=folder
        )
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
