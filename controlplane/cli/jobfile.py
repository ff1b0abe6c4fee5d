"""Values of options, and jobs read from files."""

import json
import math
import sys
from pathlib import Path
from typing import Any, Final

from controlplane.cli.errors import CliError, Exit

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_BYTES: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12,
                 "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}  # fmt: skip


def seconds(text: str) -> float:
    """Read a duration such as 10ms, 90 or 5min.

    Raises
    ------
    ValueError : the text is invalid.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text[len(number) :] or "s"
    if unit not in _UNITS or not _is_number(number):
        raise ValueError("must be a number and a unit (ns, us, ms, s, min, m or h), such as 10min")
    return float(number) * _UNITS[unit]


def size(text: str) -> int:
    """Read a number of bytes such as 1048576, 64Mi or 2GB.

    Raises
    ------
    ValueError : the text is invalid.
    """
    lower = text.lower().removesuffix("b")
    number = lower.rstrip("kmgti")
    unit = lower[len(number) :]
    if unit not in _BYTES or not _is_number(number):
        raise ValueError(
            "must be a number and a unit (k, M, G, T, Ki, Mi, Gi or Ti), such as 64Gi"
        )
    value = float(number) * _BYTES[unit]
    if not math.isfinite(value):
        raise ValueError("must be finite")
    return int(value)


def guarantee(text: str) -> dict[str, float]:
    """Read a guarantee as X,P: 0.8,0.01 is a 1 % chance to miss the top 20 %.

    Raises
    ------
    ValueError : the text is invalid.
    """
    threshold, comma, probability = text.partition(",")
    if not comma or not (_is_number(threshold) and _is_number(probability)):
        raise ValueError("must be X,P, such as 0.8,0.01")
    return {"rank_threshold": float(threshold), "probability": float(probability)}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_file(name: str) -> dict[str, Any]:
    """Read one job from a JSON or YAML file; - is stdin.

    Raises
    ------
    CliError : the file cannot be read, or does not contain one job.
    """
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text()
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}", code=Exit.USAGE) from error
    except UnicodeDecodeError as error:
        raise CliError(f"{name} is not text in UTF-8: {error}", code=Exit.USAGE) from error
    try:
        job = json.loads(text)
    except ValueError as error:
        job = _read_yaml(name, text, error)
    if not isinstance(job, dict):
        raise CliError(f"{name} must contain one job as an object", code=Exit.USAGE)
    return job


def _read_yaml(name: str, text: str, json_error: ValueError) -> Any:
    try:
        import yaml  # noqa: PLC0415 - slow to import and rarely needed
    except ImportError:
        raise CliError(f"{name} is not JSON: {json_error}", code=Exit.USAGE) from json_error

    class Loader(yaml.SafeLoader):
        """Reads dates as text, like JSON and YAML 1.2."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise CliError(f"{name} is neither JSON nor YAML: {place}", code=Exit.USAGE) from error


def array_text(text: str) -> dict[str, Any]:
    """Read the members of an array as INDEXES[%LIMIT], such as 0-99:2,200%10.

    Raises
    ------
    ValueError : the limit is no positive number, or there are no indexes.
    """
    indexes, percent, limit = text.partition("%")
    if not indexes:
        raise ValueError("must name indexes, such as 0-99%10")
    if not percent:
        return {"indexes": indexes}
    if not limit.isdecimal() or int(limit) < 1:
        raise ValueError("the limit after % must be a whole number of at least 1")
    return {"indexes": indexes, "limit": int(limit)}
