"""Query parameters of lists: filters, paging and field selection. Unknown ones are errors."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Q
from django.http import QueryDict

from apps.common.api.paging import DEFAULT_LIMIT, MAX_LIMIT
from apps.common.api.problems import ProblemError
from apps.common.core.errors import FieldProblem
from apps.common.core.problem_codes import ProblemCode

Make = Callable[[str], Q]  # raises ValueError with a sentence for an invalid value


@dataclass(frozen=True, slots=True)
class Filter:
    """One query parameter that filters a list.

    Attributes
    ----------
    make : converts a value to a condition
    description : text of the OpenAPI schema
    schema : OpenAPI type of the value
    repeatable : True if the parameter may occur several times; all conditions must hold
    """

    make: Make
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "string"})
    repeatable: bool = False


def exact(lookup: str, description: str) -> Filter:
    """Filter by equality with a text."""
    return Filter(lambda value: Q(**{lookup: read_text(value)}), description)


def choice(lookup: str, allowed: Iterable[str], description: str) -> Filter:
    """Filter by one word of a closed set."""
    words = list(allowed)
    return Filter(
        lambda value: Q(**{lookup: read_word(value, words)}),
        description,
        {"type": "string", "enum": words},
    )


def choices(lookup: str, allowed: Iterable[str], description: str) -> Filter:
    """Filter by any of several words of a closed set, separated by commas."""
    words = list(allowed)
    return Filter(
        lambda value: Q(**{f"{lookup}__in": [read_word(v, words) for v in value.split(",")]}),
        f"{description} (comma separated: {', '.join(words)})",
    )


def any_of(lookup: str, description: str) -> Filter:
    """Filter by any of several texts, separated by commas."""
    return Filter(
        lambda value: Q(**{f"{lookup}__in": [read_text(v) for v in value.split(",")]}),
        f"{description} (comma separated)",
    )


def moment(lookup: str, description: str) -> Filter:
    """Filter by a time."""
    return Filter(
        lambda value: Q(**{lookup: read_time(value)}),
        description,
        {"type": "string", "format": "date-time"},
    )


def number(lookup: str, description: str) -> Filter:
    """Filter by a number."""
    return Filter(lambda value: Q(**{lookup: read_float(value)}), description, {"type": "number"})


def whole(lookup: str, description: str) -> Filter:
    """Filter by a whole number."""
    return Filter(lambda value: Q(**{lookup: read_int(value)}), description, {"type": "integer"})


def flag(lookup: str, description: str) -> Filter:
    """Filter by true or false."""
    return Filter(lambda value: Q(**{lookup: read_flag(value)}), description, {"type": "boolean"})


def uid(lookup: str, description: str) -> Filter:
    """Filter by an id."""
    return Filter(
        lambda value: Q(**{lookup: read_uuid(value)}),
        description,
        {"type": "string", "format": "uuid"},
    )


def uids(lookup: str, description: str) -> Filter:
    """Filter by any of several ids, separated by commas."""
    return Filter(
        lambda value: Q(**{f"{lookup}__in": [read_uuid(v) for v in value.split(",")]}),
        f"{description} (comma separated)",
    )


def label(lookup: str, description: str) -> Filter:
    """Filter by a label, given as ``name:value``; repeatable."""

    def make(value: str) -> Q:
        name, colon, text = read_text(value).partition(":")
        if not colon or not name:
            raise ValueError("must be name:value")
        return Q(**{f"{lookup}__contains": {name: text}})

    return Filter(make, description, repeatable=True)


def read_time(value: str) -> datetime:
    """Parse an RFC 3339 time to UTC; without an offset it is UTC already."""
    try:
        read = datetime.fromisoformat(value.replace(" ", "+"))
        return read.astimezone(UTC) if read.tzinfo else read.replace(tzinfo=UTC)
    except ValueError:
        raise ValueError("must be an RFC 3339 time such as 2026-01-31T08:00:00Z") from None
    except OverflowError:
        raise ValueError("must be a time of the years 1 to 9999 in UTC") from None


def read_flag(value: str) -> bool:
    """Parse true or false."""
    if value not in {"true", "false", "1", "0"}:
        raise ValueError("must be true or false")
    return value in {"true", "1"}


def read_uuid(value: str) -> UUID:
    """Parse an id."""
    try:
        return UUID(value)
    except ValueError:
        raise ValueError("must be an id (a UUID)") from None


def read_int(value: str, *, low: int = -(2**63), high: int = 2**63 - 1) -> int:
    """Parse an integer within [low, high]."""
    digits = value.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(value) > 20:
        raise ValueError("must be a whole number")
    if not low <= int(value) <= high:
        raise ValueError(f"must be within {low} and {high}")
    return int(value)


def read_float(value: str) -> float:
    """Parse a finite number."""
    try:
        read = float(value)
    except ValueError:
        raise ValueError("must be a number") from None
    if read != read or read in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN differs from itself
        raise ValueError("must be a finite number")
    return read


def read_text(value: str) -> str:
    """Parse a text of at most 200 characters."""
    if len(value) > 200:
        raise ValueError("must be text of at most 200 characters")
    return value


def read_word(value: str, words: Collection[str]) -> str:
    """Parse one word of a closed set."""
    if value not in words:
        raise ValueError(f"must be one of {', '.join(words)}")
    return value


LIST_PARAMETERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "limit": ("Rows per page.", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}),
    "cursor": ("Start of the page; follow the next and previous links.", {"type": "string"}),
    "count": ("Also count all matches.", {"type": "string", "enum": ["exact", "estimate"]}),
    "ordering": ("Order of the rows.", {"type": "string"}),
    "brief": ("Identifying fields only.", {"type": "boolean"}),
}
SHAPE_PARAMETERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "fields": (
        "Fields to return, comma separated; dots select nested fields.",
        {"type": "string"},
    ),
    "omit": ("Fields to leave out, comma separated.", {"type": "string"}),
}


@dataclass(frozen=True, slots=True)
class ListQuery:
    """The parsed parameters of a list request."""

    where: Q
    limit: int
    cursor: str | None
    count: str | None
    ordering: str | None
    given: frozenset[str]


def read_list_query(
    params: QueryDict, filters: Mapping[str, Filter], *, more: Collection[str] = ()
) -> ListQuery:
    """Parse the parameters of a list request.

    Parameters
    ----------
    more : further parameters, which the view parses itself

    Raises
    ------
    ProblemError : a parameter is unknown, repeated or invalid.
    """
    known = {*filters, *LIST_PARAMETERS, *SHAPE_PARAMETERS, *more}
    check_names(params, known, repeatable=repeatable(filters))
    where = Q()
    for name in params:
        for value in params.getlist(name) if name in filters else ():
            where &= read(name, value, filters[name].make)
    limit = params.get("limit")
    count = params.get("count")
    if count is not None:
        read("count", count, lambda value: read_word(value, ("exact", "estimate")))
    return ListQuery(
        where=where,
        limit=DEFAULT_LIMIT
        if limit is None
        else read("limit", limit, lambda value: read_int(value, low=1, high=MAX_LIMIT)),
        cursor=params.get("cursor"),
        count=count,
        ordering=params.get("ordering"),
        given=frozenset(params),
    )


def read(name: str, value: str, parse: Callable[[str], Any]) -> Any:
    """Return ``parse(value)``; a ValueError becomes a problem with the parameter and its value.

    Parameters
    ----------
    parse : its ValueErrors say what the value must be, without the value; other sentences, which
        do not begin with "must", are complete
    """
    try:
        return parse(value)
    except ValueError as error:
        sentence = str(error)
        if sentence.startswith("must "):
            sentence += f", not {value!r:.60}"
        raise invalid_parameter(name, sentence) from error


def invalid_parameter(name: str, sentence: str) -> ProblemError:
    """Return the problem of a query parameter; the sentence follows its name."""
    return ProblemError(
        ProblemCode.INVALID_PARAMETER,
        f"{name} {sentence}.",
        errors=[FieldProblem(name, "invalid", sentence)],
    )


def repeatable(filters: Mapping[str, Filter]) -> frozenset[str]:
    """Return the names of the filters that may occur several times."""
    return frozenset(name for name, one in filters.items() if one.repeatable)


def check_names(
    params: QueryDict, known: Collection[str], *, repeatable: Collection[str] = ()
) -> None:
    """Check that a query has only known parameters, each once.

    Parameters
    ----------
    repeatable : parameters that may occur several times

    Raises
    ------
    ProblemError : lists the known parameters, or names those that occur several times.
    """
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise ProblemError(
            ProblemCode.UNKNOWN_PARAMETER,
            f"{', '.join(unknown)} is not a parameter of this route;"
            f" known: {', '.join(sorted(known))}.",
            errors=[FieldProblem(name, "unknown", "unknown parameter") for name in unknown],
        )
    for name, values in params.lists():
        if len(values) > 1 and name not in repeatable:
            raise invalid_parameter(name, f"must be given once, not {len(values)} times")


def shape(params: QueryDict) -> Callable[[dict[str, Any]], dict[str, Any]] | None:
    """Return a function that applies ``fields`` or ``omit`` to a body; None without either."""
    fields, omit = params.get("fields"), params.get("omit")
    if fields and omit:
        raise ProblemError(ProblemCode.INVALID_PARAMETER, "Send either fields or omit, not both.")
    if fields:
        paths = [name.split(".") for name in fields.split(",")]
        return lambda body: _select(body, paths)
    if omit:
        paths = [name.split(".") for name in omit.split(",")]
        return lambda body: _drop(body, paths)
    return None


def _select(body: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for path in paths:
        source, goal = body, kept
        for name in path[:-1]:
            inside = _inside(source, name, path)
            if inside is None:
                goal[name] = None
                break
            source, goal = inside, goal.setdefault(name, {})
        else:
            goal[path[-1]] = _value(source, path[-1], path)
    return kept


def _drop(body: dict[str, Any], paths: list[list[str]]) -> dict[str, Any]:
    copy = json.loads(json.dumps(body))  # plain JSON already; nested objects may be shared
    for path in paths:
        source = copy
        for name in path[:-1]:
            source = _inside(source, name, path)
            if source is None:
                break
        else:
            _value(source, path[-1], path)
            del source[path[-1]]
    return copy


def _inside(source: dict[str, Any], name: str, path: list[str]) -> dict[str, Any] | None:
    """Return a nested object; None if the field is null, which has no fields in this row."""
    found = _value(source, name, path)
    if found is not None and not isinstance(found, dict):
        raise ProblemError(ProblemCode.INVALID_PARAMETER, f"{'.'.join(path)} is not a field.")
    return found


def _value(source: dict[str, Any], name: str, path: list[str]) -> Any:
    if name not in source:
        raise ProblemError(
            ProblemCode.INVALID_PARAMETER,
            f"{'.'.join(path)} is not a field; known: {', '.join(source)}.",
        )
    return source[name]
