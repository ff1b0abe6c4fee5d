"""Weights of P, D and C from an argument: numbers, a file, or a preference set of the server."""

import json
import os
from argparse import ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.cli.errors import CliError, Exit
from controlplane.cli.placement_files import weights


def named_weights(text: str) -> tuple[str, Mapping[str, float]]:
    """Return a label and weights.

    ``0.22,1,0.36`` or ``P=0.22,D=1,C=0.36``; a JSON file with such weights, or with a preference
    set (``berth pref show NAME --json``); or the name or id of a set, which asks the server.

    Raises
    ------
    CliError : the file cannot be read or holds no weights; there is no such set.
    """
    if "=" in text or "," in text:
        try:
            return text, weights(text)
        except ArgumentTypeError as error:
            raise CliError(str(error), code=Exit.USAGE) from error
    path = Path(text)
    if path.suffix == ".json" or path.is_file():
        return path.stem, _in_document(_document(path), path)
    # only a name needs HTTP
    from controlplane.cli.client import client_of  # noqa: PLC0415
    from controlplane.cli.preferences import find_set  # noqa: PLC0415

    with client_of(os.environ, None) as client:
        found = find_set(client, text)
    return found["name"], _in_document(found, path)


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}", code=Exit.USAGE) from error
    except ValueError as error:
        raise CliError(f"{path} is not JSON: {error}", code=Exit.USAGE) from error


def _in_document(document: Any, path: Path) -> Mapping[str, float]:
    found = document.get("weights", document) if isinstance(document, Mapping) else None
    if not isinstance(found, Mapping):
        raise CliError(f'{path} must hold an object such as {{"P": 0.22, "D": 1, "C": 0.36}}',
                       code=Exit.USAGE)  # fmt: skip
    return found
