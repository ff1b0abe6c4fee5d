"""What the verbs about placements read: an instance, an assignment, weights."""

import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apps.common.core.errors import InvalidInputError
from controlplane.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from apps.inventory.core.snapshot import Ints
    from apps.placement.core.instance import Instance
    from apps.placement.core.objectives import Evaluation, Objective

OBJECTIVES: Final = "PDCM"
OBJECTIVES_HINT: Final = 'such as {"money": {"unit": "EUR", "hours": [24], "curve": {"": [0.3]}}}'
HINT: Final = (
    "the schema is docs/placement-instance.schema.json; berth evaluate --schema prints it"
)


def weights(text: str) -> dict[str, float]:
    """Read ``0.22,1,0.36``: weights of P, D, C and, where containers run already, moves.

    ``P=0.22,D=1,money=0.5`` names them, for objectives of a file (``--objectives``).
    """
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    is_named = "=" in text
    try:
        numbers = [float(value if is_named else name) for name, value in pairs]
    except ValueError:
        numbers = []
    if not numbers or not (is_named or 3 <= len(numbers) <= 4):
        raise ArgumentTypeError(
            f"{text!r}: give three numbers, of P, D and C, such as 0.22,1,0.36, "
            "or name them: P=0.22,D=1,C=0.36"
        )
    for number in numbers:
        if not 0.0 <= number < float("inf"):
            raise ArgumentTypeError(f"{text!r}: {number:g} is no weight; give one of at least 0")
    if not any(numbers):
        raise ArgumentTypeError(f"{text!r}: at least one weight must be above 0")
    names = [name.strip() for name, _ in pairs] if is_named else OBJECTIVES
    found = dict(zip(names, numbers, strict=False))
    if len(found) < len(numbers):
        raise ArgumentTypeError(f"{text!r}: an objective is named twice; give it one weight")
    return found


def read_objectives(
    path: str | None, asked: Mapping[str, float], instance: "Instance"
) -> "Mapping[str, Objective]":
    """Read the objectives there are: those built in, and those of a file.

    Raises
    ------
    CliError : the file cannot be read, or is none, leaves a rack of the instance without a curve,
        or a weight is of an objective there is not.
    """
    from apps.placement.core.curves import parse_curves, registry_with  # noqa: PLC0415 - numpy
    from apps.placement.core.instance_file import read_json  # noqa: PLC0415

    try:
        curves = parse_curves(read_json(_text(path)), instance.rack_ids) if path else {}
        known = registry_with(curves)
    except InvalidInputError as error:
        raise _refused(path or "", "no list of objectives", error, OBJECTIVES_HINT) from error
    unknown = [name for name in asked if name not in known]
    if unknown:
        there = ", ".join(known)
        raise CliError(f"there is no objective {unknown[0]!r}: there are {there}", code=Exit.USAGE)
    return known


def read_json_file(path: str) -> Any:
    """Read a file of JSON; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read, or is no JSON.
    """
    from apps.placement.core.instance_file import read_json  # noqa: PLC0415 - numpy

    try:
        return read_json(_text(path))
    except InvalidInputError as error:
        raise _refused(path, "no JSON", error, HINT) from error


def read_instance(path: str) -> "Instance":
    """Read an instance; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read, or is none; names every wrong field.
    """
    # numpy takes a while to import, which no other verb should pay
    from apps.placement.core.instance_file import parse, read_json  # noqa: PLC0415

    try:
        return parse(read_json(_text(path)))
    except InvalidInputError as error:
        raise _refused(path, "no placement instance", error, HINT) from error


def read_assignment(path: str, instance: "Instance") -> "Ints":
    """Read the nodes of an instance's containers; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read, or does not fit the instance; names every wrong container.
    """
    from apps.placement.core.instance_file import parse_assignment, read_json  # noqa: PLC0415

    try:
        return parse_assignment(instance, read_json(_text(path)))
    except InvalidInputError as error:
        raise _refused(path, "no assignment of this instance", error, "") from error


def shown(instance: "Instance", values: Mapping[str, float]) -> dict[str, float]:
    """Return values by objective; of moves only where something runs already."""
    return {name: x for name, x in values.items() if name != "M" or instance.has_current}


def facts_of(instance: "Instance", found: "Evaluation") -> dict[str, str]:
    """Return raw and normalised values as they are printed."""
    labels = {"P": "power", "D": "diversity", "C": "crossing traffic", "M": "moves"}
    units = {"P": " W", "D": "", "C": " containers", "M": " containers"}
    return {
        labels.get(name, name): f"{value:.6g}{units.get(name, '')} "
        f"({found.normalised[name]:.4f} normalised)"
        for name, value in shown(instance, found.raw).items()
    }


def _text(path: str) -> str:
    source = _source(path)
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise CliError(f"cannot read {source}", detail=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{source} is not UTF-8", detail=f"byte {error.start}") from error


def _refused(path: str, what: str, error: InvalidInputError, hint: str) -> CliError:
    lines = tuple(f"{problem.pointer or '/'}: {problem.detail}" for problem in error.problems)
    return CliError(f"{_source(path)} is {what}", code=Exit.USAGE, detail=hint, errors=lines)


def _source(path: str) -> str:
    return "standard input" if path == "-" else path


def answer(instance: "Instance", found: "Evaluation") -> dict[str, Any]:
    """Return what programs are told of a placement's values."""
    return {
        "raw": shown(instance, found.raw),
        "normalised": shown(instance, found.normalised),
        "F": found.F,
    }
