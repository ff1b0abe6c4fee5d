"""Parsers of request bodies: JSON or JSON Lines, plain or gzip, of limited size."""

import gzip
import json
import re
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, Final, NoReturn

from rest_framework.parsers import BaseParser

from apps.common.api.problems import ProblemError
from apps.common.core.errors import InvalidInputError
from apps.common.core.plain_text import unstorable_fields
from apps.common.core.problem_codes import ProblemCode

MAX_BODY_BYTES: Final = 1 << 20
# NUL, surrogates, and numbers that may be larger than any float.
_SUSPICIOUS: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])|[0-9]{300}|[eE]\+?[0-9]{3}")


class PlainJSONParser(BaseParser):
    """``application/json``; at most the view's ``max_body_bytes``, 1 MiB by default."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the decoded body."""
        return load_json(read_body(stream, parser_context))


class LinesParser(BaseParser):
    """``application/x-ndjson``: one JSON value per line, as a list."""

    media_type = "application/x-ndjson"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the decoded lines; an error names the line."""
        lines = read_body(stream, parser_context).splitlines()
        return [load_json(line, line=i) for i, line in enumerate(lines, 1) if line.strip()]


def read_body(stream: IO[bytes], parser_context: Mapping[str, Any] | None) -> bytes:
    """Return the body, decompressed if it is gzip.

    Raises
    ------
    ProblemError : the body, compressed or not, exceeds the limit of the view; or invalid gzip.
    """
    context = parser_context or {}
    max_bytes = getattr(context.get("view"), "max_body_bytes", MAX_BODY_BYTES)
    request = context.get("request")
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity") if request else "identity"
    if encoding not in {"identity", "gzip"}:
        raise ProblemError(
            ProblemCode.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Encoding must be gzip or identity, not {encoding}.",
        )
    body = _read_limited(stream, max_bytes)
    if encoding == "identity":
        return body
    try:
        with gzip.open(BytesIO(body)) as unpacked:
            return _read_limited(unpacked, max_bytes)
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(
            ProblemCode.MALFORMED_REQUEST, f"The body is not valid gzip: {error}"
        ) from error


def _read_limited(stream: Any, max_bytes: int) -> bytes:
    chunks, size = [], 0
    while chunk := stream.read(min(1 << 18, max_bytes + 1 - size)):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            raise ProblemError(
                ProblemCode.BODY_TOO_LARGE, f"The limit of this route is {max_bytes:,} bytes."
            )
    return b"".join(chunks)


def load_json(text: bytes, *, line: int | None = None) -> Any:
    """Return a decoded value.

    Raises
    ------
    ProblemError : names the line and column of the error.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {line or error.lineno}, column {error.colno}"
        detail = f"{error.msg} at {where}."
    except RecursionError:
        detail = "The JSON is nested too deeply."
    except ValueError as error:  # invalid UTF-8, NaN, or a number with thousands of digits
        detail = f"{error}."
    else:
        refuse_unstorable(value, text, at="" if line is None else f"/{line - 1}")
        return value
    raise ProblemError(ProblemCode.MALFORMED_JSON, detail)


def refuse_unstorable(value: Any, text: bytes, *, at: str) -> None:
    """Refuse a decoded value with a character or a number that cannot be stored.

    Such a character is always escaped in valid JSON, and such a number has many digits or a large
    exponent, so most bodies need no search.

    Raises
    ------
    InvalidInputError : names every field.
    """
    if _SUSPICIOUS.search(text) and (problems := list(unstorable_fields(value, at))):
        raise InvalidInputError(problems)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
