"""Input files and options of the placement verbs: instances, assignments, weights."""

import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from apps.common.core.errors import InvalidInputError
from controlplane.cli.errors import CliError, Exit

if TYPE_CHECKING:
    from apps.inventory.core.snapshot import Ints
    from apps.placement.core.problem.instance import Instance
    from apps.placement.core.problem.objectives import Evaluation, Objective

OBJECTIVES: Final = "PDCM"
OBJECTIVES_HINT: Final = 'such as {"money": {"unit": "EUR", "hours": [24], "curve": {"": [0.3]}}}'
SCHEMA_HINT: Final = (
    "the schema is docs/placement-instance.schema.json; berth evaluate --schema prints it"
)


def weights(text: str) -> dict[str, float]:
    """Read ``0.22,1,0.36``: weights of P, D, C and, for a running cluster, migrations.

    ``P=0.22,D=1,money=0.5`` also sets weights of objectives of a file (``--objectives``).
    """
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    is_named = "=" in text
    try:
        numbers = [float(value if is_named else name) for name, value in pairs]
    except ValueError:
        numbers = []
    if not numbers or not (is_named or 3 <= len(numbers) <= 4):
        raise ArgumentTypeError(
            f"{text!r}: give three weights for P, D and C, such as 0.22,1,0.36, "
            "or name them: P=0.22,D=1,C=0.36"
        )
    for number in numbers:
        if not 0.0 <= number < float("inf"):
            raise ArgumentTypeError(
                f"{text!r}: {number:g} is not a weight; weights are at least 0"
            )
    if not any(numbers):
        raise ArgumentTypeError(f"{text!r}: at least one weight must be above 0")
    names = [name.strip() for name, _ in pairs] if is_named else OBJECTIVES
    evaluation = dict(zip(names, numbers, strict=False))
    if len(evaluation) < len(numbers):
        raise ArgumentTypeError(f"{text!r}: an objective has two weights")
    return evaluation


def read_objectives(
    path: str | None, weights_by_name: Mapping[str, float], instance: "Instance"
) -> "Mapping[str, Objective]":
    """Return the built-in objectives and those of a file.

    Raises
    ------
    CliError : the file cannot be read or is invalid, a rack of the instance has no curve, or a
        weight names an unknown objective.
    """
    from apps.placement.core.problem.curves import parse_curves, registry_with  # noqa: PLC0415 - numpy
    from apps.placement.core.problem.instance_file import read_json  # noqa: PLC0415

    try:
        curves = parse_curves(read_json(_text(path)), instance.rack_ids) if path else {}
        objectives = registry_with(curves)
    except InvalidInputError as error:
        raise _input_error(
            path or "", "not a list of objectives", error, OBJECTIVES_HINT
        ) from error
    unknown = [name for name in weights_by_name if name not in objectives]
    if unknown:
        known_names = ", ".join(objectives)
        raise CliError(f"unknown objective {unknown[0]!r}; known: {known_names}", code=Exit.USAGE)
    return objectives


def read_json_file(path: str) -> Any:
    """Read a file of JSON; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read or is not JSON.
    """
    from apps.placement.core.problem.instance_file import read_json  # noqa: PLC0415 - numpy

    try:
        return read_json(_text(path))
    except InvalidInputError as error:
        raise _input_error(path, "not JSON", error, SCHEMA_HINT) from error


def read_instance(path: str) -> "Instance":
    """Read an instance; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read or is invalid; names every invalid field.
    """
    # imported here, as numpy is slow to import
    from apps.placement.core.problem.instance_file import parse, read_json  # noqa: PLC0415

    try:
        return parse(read_json(_text(path)))
    except InvalidInputError as error:
        raise _input_error(path, "not a placement instance", error, SCHEMA_HINT) from error


def read_assignment(path: str, instance: "Instance") -> "Ints":
    """Read the nodes of an instance's containers; ``-`` is standard input.

    Raises
    ------
    CliError : it cannot be read or does not fit the instance; names every invalid container.
    """
    from apps.placement.core.problem.instance_file import parse_assignment, read_json  # noqa: PLC0415

    try:
        return parse_assignment(instance, read_json(_text(path)))
    except InvalidInputError as error:
        raise _input_error(path, "not an assignment of this instance", error, "") from error


def reported_values(instance: "Instance", values: Mapping[str, float]) -> dict[str, float]:
    """Return values by objective, without M if the instance has no current placement."""
    return {name: x for name, x in values.items() if name != "M" or instance.has_current}


def facts_of(
    instance: "Instance", evaluation: "Evaluation", objectives: "Mapping[str, Objective]"
) -> dict[str, str]:
    """Return the raw and normalised values as text, by the labels of the objectives."""
    lines = {}
    for name, value in reported_values(instance, evaluation.raw).items():
        objective, normalised = objectives[name], evaluation.normalised[name]
        unit = f" {objective.unit}" if objective.unit else ""
        label = f"{objective.label} ({name})" if objective.label else name
        lines[label] = f"{value:.6g}{unit} ({normalised:.4f} normalised)"
    return lines


def _text(path: str) -> str:
    source = _source(path)
    try:
        raw = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise CliError(
            f"cannot read {source}", code=Exit.USAGE, detail=error.strerror or str(error)
        ) from error
    except UnicodeDecodeError as error:
        raise CliError(
            f"{source} is not UTF-8", code=Exit.USAGE, detail=f"byte {error.start}"
        ) from error


def _input_error(path: str, what: str, error: InvalidInputError, hint: str) -> CliError:
    lines = tuple(f"{problem.pointer or '/'}: {problem.detail}" for problem in error.problems)
    return CliError(f"{_source(path)} is {what}", code=Exit.USAGE, detail=hint, errors=lines)


def _source(path: str) -> str:
    return "standard input" if path == "-" else path


def evaluation_output(instance: "Instance", evaluation: "Evaluation") -> dict[str, Any]:
    """Return the objective values for JSON and YAML output."""
    return {
        "raw": reported_values(instance, evaluation.raw),
        "normalised": reported_values(instance, evaluation.normalised),
        "F": evaluation.F,
    }
