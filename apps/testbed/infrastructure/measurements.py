"""Read the public measurements that the `measured` world is fitted to.

The folder has one folder for each set. It is needed to fit and to check, never at run time.
"""

import csv
import gzip
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from apps.inventory.core.snapshot import Floats
from apps.testbed.core.world_fit.groups import FILES, GROUPS

VARIABLE: Final = "BERTH_MEASUREMENTS"


class MeasurementsError(Exception):
    """A folder of measurements is missing or incomplete."""


def measurements_folder(given: Path | None) -> Path:
    """Return the given folder, or the one that `BERTH_MEASUREMENTS` names.

    Raises
    ------
    MeasurementsError : neither is set, or a file is missing.
    """
    named = os.environ.get(VARIABLE)
    root = given or (Path(named) if named else None)
    if root is None:
        raise MeasurementsError(f"--data or {VARIABLE} must name the folder of the measurements")
    missing = [name for name in files() if not (root / name).is_file()]
    if missing:
        raise MeasurementsError(f"{root} has no {', '.join(missing)}")
    return root


def files() -> list[str]:
    """Paths of the files that are read, relative to the folder."""
    return [f"{folder}/{name}" for folder, names in FILES.items() for name in names]


def read_groups(root: Path) -> dict[str, tuple[Floats, Floats]]:
    """Read the held-in and the held-out measurements by name of the group."""

    def read(name: str) -> Iterator[dict[str, str]]:
        return _csv_rows(root / name)

    return {group.name: group.parts(read) for group in GROUPS}


def checksums(root: Path) -> Mapping[str, str]:
    """SHA-256 of every file, by its path."""
    return {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in files()}


def _csv_rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t" if ".tsv" in path.name else ",")
