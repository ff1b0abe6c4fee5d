"""Mutation testing of the cores: which small faults in a file do its tests miss?

    ./dev mutate PATH [PATH ...] [--sample N] [--seed S] [--jobs J] [--tests PATH ...]
                 [--markdown FILE]

A mutant is the code with one operator, comparison, number or branch changed. It is killed if a
test of the same folder fails, and survives if all pass: the code is equivalent, or a test is
missing. Everything happens in copies of the checkout, one for each process. cosmic-ray makes the
mutants.
"""

import argparse
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import numpy as np
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

ROOT: Final = Path(__file__).resolve().parents[1]
# Removed decorators compile nothing or cache nothing: the result is the same. `|` joins types.
_LEFT_OUT: Final = ("RemoveDecorator", "BitOr")
_SLOWEST: Final = 5.0  # times the tests' usual time; a mutant may loop for ever
_COMPILING_S: Final = 120.0  # a mutated kernel is compiled again


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one file."""

    path: Path
    operator: str
    occurrence: int
    line: int


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test noticed, as the lines removed and added."""

    mutant: Mutant
    before: str
    after: str


def main(arguments: Sequence[str]) -> int:
    """Mutate, test, and print the survivors; 1 if the unchanged code fails its tests."""
    options = _options(arguments)
    files = [file for path in options.path for file in _modules(Path(path))]
    mutants = _sample(list(_mutants(files)), options.sample, options.seed)
    with tempfile.TemporaryDirectory(prefix="berth-mutate-") as folder:
        copies = [_copy(Path(folder) / str(number)) for number in range(options.jobs)]
        usual_s = _usual_seconds(copies[0], files, options.tests)
        if usual_s is None:
            sys.stderr.write("The tests fail on the unchanged code: mend that first.\n")
            return 1
        survivors = list(_survivors(mutants, copies, options.tests, usual_s))
    report = _report(files, len(mutants), survivors)
    sys.stdout.write(report)
    if options.markdown:
        Path(options.markdown).write_text(report)
    return 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./dev mutate", description=__doc__.splitlines()[0])
    parser.add_argument("path", nargs="+", help="a file or folder under apps/*/core")
    parser.add_argument("--sample", type=int, default=0, help="this many mutants at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--tests", nargs="+", help="default: the tests of the same folder")
    parser.add_argument("--markdown", help="write the report to this file, too")
    return parser.parse_args(arguments)


def _modules(path: Path) -> Iterator[Path]:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    yield from (file for file in files if file.name != "__init__.py")


def _mutants(files: Iterable[Path]) -> Iterator[Mutant]:
    """Yield every mutant of the files."""
    names = [
        name
        for name in operator_names()
        if not get_operator(name).arguments() and not any(part in name for part in _LEFT_OUT)
    ]
    for file in files:
        tree = get_ast(file.read_text())
        for name in names:
            operator = get_operator(name)()
            positions = (
                start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node)
            )
            for occurrence, (line, _) in enumerate(positions):
                yield Mutant(file, name, occurrence, line)


def _sample(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    if not 0 < count < len(mutants):
        return mutants
    chosen = np.random.default_rng(seed).choice(len(mutants), count, replace=False)
    return [mutants[index] for index in sorted(chosen)]


def _copy(target: Path) -> Path:
    """Copy the files that git tracks."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


def _tests_of(file: Path, chosen: Sequence[str] | None) -> list[str]:
    """Return the tests of a file's folder: `tests/` mirrors `apps/`."""
    if chosen:
        return list(chosen)
    folder = Path("tests", *file.parent.parts[1:])
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return [str(folder)]


def _passes(copy: Path, tests: Sequence[str], limit_s: float) -> bool:
    """Run tests in a copy; failures, crashes and endless loops do not pass."""
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"),
        *("-m", "not database and not broker", *tests),
    ]
    try:
        done = subprocess.run(  # noqa: S603
            command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True, timeout=limit_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _usual_seconds(
    copy: Path, files: Sequence[Path], chosen: Sequence[str] | None
) -> dict[Path, float] | None:
    """Time the tests of each file on the unchanged code; None if some fail."""
    seconds: dict[tuple[str, ...], float] = {}
    for file in files:
        tests = tuple(_tests_of(file, chosen))
        if tests not in seconds:
            _passes(copy, tests, 3600.0)  # compiles the kernels
            begin = time.monotonic()
            if not _passes(copy, tests, 3600.0):
                return None
            seconds[tests] = time.monotonic() - begin
    return {file: seconds[tuple(_tests_of(file, chosen))] for file in files}


def _survivors(
    mutants: Sequence[Mutant],
    copies: Sequence[Path],
    chosen: Sequence[str] | None,
    usual_s: dict[Path, float],
) -> Iterator[Survivor]:
    free: SimpleQueue[Path] = SimpleQueue()
    for copy in copies:
        free.put(copy)

    def run(mutant: Mutant) -> Survivor | None:
        copy = free.get()
        try:
            limit_s = _SLOWEST * usual_s[mutant.path] + _COMPILING_S
            return _survivor(mutant, copy, _tests_of(mutant.path, chosen), limit_s)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as threads:
        for number, survivor in enumerate(threads.map(run, mutants), start=1):
            if survivor is not None:
                yield survivor
            if number % 25 == 0:
                sys.stderr.write(f"{number} of {len(mutants)} mutants\n")


def _survivor(mutant: Mutant, copy: Path, tests: Sequence[str], limit_s: float) -> Survivor | None:
    file = copy / mutant.path
    code = file.read_text()
    mutated = mutate_code(code, get_operator(mutant.operator)(), mutant.occurrence)
    if mutated is None or mutated == code:
        return None
    try:
        file.write_text(mutated)
        if not _passes(copy, tests, limit_s):
            return None
    finally:
        file.write_text(code)
    changes = list(difflib.unified_diff(code.splitlines(), mutated.splitlines(), n=0))[3:]
    before = " ".join(line[1:].strip() for line in changes if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in changes if line.startswith("+"))
    return Survivor(mutant, before, after)


def _report(files: Sequence[Path], count: int, survivors: Sequence[Survivor]) -> str:
    killed = count - len(survivors)
    lines = [
        f"{killed} of {count} mutants of {len(files)} files were killed"
        f" ({100 * killed / max(count, 1):.0f} %).",
        "",
        "| file | line | code | mutant that survived |",
        "|---|---|---|---|",
    ]
    for survivor in survivors:
        before, after = (text.replace("|", r"\|") for text in (survivor.before, survivor.after))
        mutant = survivor.mutant
        lines.append(f"| `{mutant.path}` | {mutant.line} | `{before}` | `{after}` |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
