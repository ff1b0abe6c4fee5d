"""Objects of a specification, checked field by field."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from apps.common.core.errors import FieldProblem
from apps.workloads.core.checks import Check, Problems, escape, problem


def read_fields(
    data: Mapping[str, Any],
    fields: Mapping[str, tuple[str, Check]],
    at: str,
    problems: Problems,
) -> dict[str, Any]:
    """Check the fields of an object, and return the values by attribute."""
    values: dict[str, Any] = {}
    for name, value in data.items():
        known = fields.get(name)
        if known is None:
            problems.append(_unknown(name, fields, at))
        else:
            values[known[0]] = known[1](value, f"{at}/{name}", problems)
    return values


def _unknown(name: str, fields: Mapping[str, tuple[str, Check]], at: str) -> FieldProblem:
    near = get_close_matches(name, fields, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known fields: {', '.join(sorted(fields))}"
    return problem(f"{at}/{escape(name)}", "unknown_field", f"unknown field; {hint}")
