"""Stored results of benchmarks, and the tables of docs/ that show them.

A result is `results/NAME.json`: arguments, date, commit, machine, figures, and tables as texts. A
marker above a table of a page names the file and the table: `<!-- results: NAME#TABLE -->`.
`tests/test_published_figures.py` compares them; `python -m benchmarks._results` writes the stored
tables into the pages.
"""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = ROOT / "benchmarks" / "results"
MARKER: Final = re.compile(r"^<!-- results: ([\w-]+)#([\w-]+) -->$")

NUMBER: Final = re.compile(r"^[^a-zA-Z]*[+−-]?\**\d")
FIGURES: Final = 0.6  # share of cells that start with a number

Table = list[list[str]]

stored: Final[list[Path]] = []  # files that this process has written


class PublishedTable(NamedTuple):
    """A table of a page: its first line (from 0), its cells, and the marker above it."""

    line: int
    cells: Table
    marker: tuple[str, str] | None


def store(
    name: str,
    *,
    arguments: Mapping[str, object],
    figures: object,
    tables: Mapping[str, Table],
    folder: Path = RESULTS,
) -> Path:
    """Store the result of a benchmark; return its file."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    result = {
        "benchmark": name,
        "arguments": dict(arguments),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "transcribed": False,
        "figures": figures,
        "tables": dict(tables),
    }
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    stored.append(path)
    return path


def machine() -> dict[str, object]:
    """Return what the speed of this machine depends on."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def commit() -> str:
    """Return the commit of this folder, with "-dirty" if files have changed."""
    command = ("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    done = subprocess.run(  # noqa: S603 - constant
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def load(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """Read a stored result."""
    result: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return result


def published(text: str) -> Iterator[PublishedTable]:
    """Yield the tables of a Markdown page."""
    lines = text.splitlines()
    for first, line in enumerate(lines):
        if not line.startswith("|") or (first and lines[first - 1].startswith("|")):
            continue
        last = first
        while last < len(lines) and lines[last].startswith("|"):
            last += 1
        rows = [cells_of(row) for row in (line, *lines[first + 2 : last])]
        above = MARKER.match(lines[first - 1]) if first else None
        yield PublishedTable(first, rows, (above[1], above[2]) if above else None)


def holds_figures(table: Table) -> bool:
    """Whether most cells, without names of rows and columns, are numbers."""
    cells = [cell for row in table[1:] for cell in row[1:] if cell]
    numbers = sum(NUMBER.match(cell) is not None for cell in cells)
    return bool(cells) and numbers >= FIGURES * len(cells)


def cells_of(line: str) -> list[str]:
    """Return the texts of one row of a table."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def markdown(table: Table) -> str:
    """Write a table; its first row holds the names of the columns."""
    head, *rows = (f"| {' | '.join(row)} |" for row in table)
    return "\n".join([head, "|" + "---|" * len(table[0]), *rows])


def updated(text: str, results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page with the stored tables below their markers."""
    lines = text.splitlines()
    for table in sorted(published(text), key=lambda found: -found.line):
        if table.marker is not None:
            name, part = table.marker
            stored = markdown(results[name]["tables"][part]).splitlines()
            lines[table.line : table.line + len(table.cells) + 1] = stored
    return "\n".join(lines) + "\n"


def main(pages: Sequence[Path] | None = None) -> int:
    """Write all stored tables into the pages."""
    results = {path.stem: load(path.stem) for path in RESULTS.glob("*.json")}
    for page in pages or sorted((ROOT / "docs").glob("*.md")):
        page.write_text(updated(page.read_text(), results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
