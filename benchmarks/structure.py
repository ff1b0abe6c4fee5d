"""The size and the names of the code: files, functions, rooms, names defined more than once.

    ./dev bench structure [--root DIR]

Counts `apps/` and `controlplane/` without migrations. A function's length is its body without the
docstring. A class name is doubled if two modules define it; so is a private helper function.
"""

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

ROOMS: Final = frozenset(
    (
        *("urls", "apps", "admin", "api", "views", "management", "templatetags", "tasks"),
        *("backends", "services", "selectors", "models", "infrastructure", "figures", "files"),
        *("core", "migrations", "__init__"),
    )
)
WORDS: Final = ("Step", "Choice", "Progress", "Outcome", "Plan", "Held", "Search", "State", "Row")
MODULES: Final = ("moving", "feedback", "board", "migrations", "services")


def main(arguments: Sequence[str]) -> None:
    """Print the table of one checkout."""
    parser = argparse.ArgumentParser(prog="./dev bench structure", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    root = parser.parse_args(arguments).root
    files = sorted(_files(root))
    trees = {path: ast.parse((root / path).read_text()) for path in files}
    lines = {path: (root / path).read_text().count("\n") for path in files}
    lengths = [length for tree in trees.values() for length in _lengths(tree)]
    classes = _defined(trees, ast.ClassDef)
    helpers = Counter(
        {name: count for name, count in _defined(trees, ast.FunctionDef).items() if name[0] == "_"}
    )
    rows = [
        ("files", f"{len(files)}"),
        ("lines of a file, median / p90 / max", _spread(list(lines.values()))),
        ("functions", f"{len(lengths)}"),
        ("lines of a function's body, median / p90 / max", _spread(lengths)),
        ("modules outside the rooms", f"{sum(map(_is_outside, files))}"),
        ("lines of apps/placement", f"{_sum(lines, 'apps/placement')}"),
        ("class names with several definitions", f"{_several(classes)}"),
        ("definitions of " + ", ".join(WORDS), ", ".join(str(classes[word]) for word in WORDS)),
        ("definitions of _rows()", f"{helpers['_rows']}"),
        (
            "modules named " + ", ".join(MODULES),
            ", ".join(str(sum(path.stem == name for path in files)) for name in MODULES),
        ),
    ]
    for name, value in rows:
        sys.stdout.write(f"{name:<85}{value}\n")


def _files(root: Path) -> Iterator[Path]:
    for top in ("apps", "controlplane"):
        for path in (root / top).rglob("*.py"):
            if "migrations" not in path.parent.name or "services" in path.parts:
                yield path.relative_to(root)


def _lengths(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) is not None else node.body
            yield (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def _defined(trees: dict[Path, ast.Module], kind: type[ast.AST]) -> Counter[str]:
    """Count the modules that define each name at their top."""
    return Counter(
        name
        for tree in trees.values()
        for name in {
            node.name
            for node in tree.body
            if isinstance(node, kind) and isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
    )


def _several(names: Counter[str]) -> int:
    conventional = {"Command", "Meta"}
    return sum(count > 1 for name, count in names.items() if name not in conventional)


def _is_outside(path: Path) -> bool:
    return path.parts[0] == "apps" and len(path.parts) > 2 and _room(path) not in ROOMS


def _room(path: Path) -> str:
    return path.parts[2].removesuffix(".py")


def _sum(lines: dict[Path, int], prefix: str) -> int:
    return sum(count for path, count in lines.items() if str(path).startswith(prefix))


def _spread(values: Sequence[int]) -> str:
    median, p90 = np.percentile(values, [50, 90])
    return f"{median:.0f} / {p90:.0f} / {max(values)}"


if __name__ == "__main__":
    main(sys.argv[1:])
