"""Bodies of requests: JSON within a size, plain or gzip."""

import gzip
import json
import zlib
from collections.abc import Mapping
from io import BytesIO
from typing import IO, Any, Final, NoReturn

from rest_framework.parsers import BaseParser

from apps.common.core.problem_codes import ProblemCode
from apps.common.problems import ProblemError

MAX_BODY_BYTES: Final = 1 << 20


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
        """Return the decoded lines; a broken one is named by its number."""
        lines = read_body(stream, parser_context).splitlines()
        return [load_json(line, line=i) for i, line in enumerate(lines, 1) if line.strip()]


def read_body(stream: IO[bytes], parser_context: Mapping[str, Any] | None) -> bytes:
    """Return the body, unpacked where it came as gzip.

    Raises
    ------
    ProblemError : it is larger than the view takes, packed or unpacked, or no valid gzip.
    """
    context = parser_context or {}
    most = getattr(context.get("view"), "max_body_bytes", MAX_BODY_BYTES)
    request = context.get("request")
    encoding = request.META.get("HTTP_CONTENT_ENCODING", "identity") if request else "identity"
    if encoding not in {"identity", "gzip"}:
        raise ProblemError(
            ProblemCode.UNSUPPORTED_MEDIA_TYPE,
            f"Content-Encoding is gzip or none, not {encoding}.",
        )
    body = _at_most(stream, most)
    if encoding == "identity":
        return body
    try:
        with gzip.open(BytesIO(body)) as unpacked:
            return _at_most(unpacked, most)
    except (OSError, EOFError, zlib.error) as error:
        raise ProblemError(
            ProblemCode.MALFORMED_REQUEST, f"The body is not valid gzip: {error}"
        ) from error


def _at_most(stream: Any, most: int) -> bytes:
    chunks, size = [], 0
    while chunk := stream.read(min(1 << 18, most + 1 - size)):
        chunks.append(chunk)
        size += len(chunk)
        if size > most:
            raise ProblemError(ProblemCode.BODY_TOO_LARGE, f"The limit here is {most:,} bytes.")
    return b"".join(chunks)


def load_json(text: bytes, *, line: int | None = None) -> Any:
    """Return a decoded value.

    Raises
    ------
    ProblemError : naming line and column of what is wrong.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        where = f"line {line or error.lineno}, column {error.colno}"
        detail = f"{error.msg} at {where}."
    except RecursionError:
        detail = "It is nested too deeply."
    except ValueError as error:  # wrong UTF-8, NaN, a number of thousands of digits
        detail = f"{error}."
    raise ProblemError(ProblemCode.MALFORMED_JSON, detail)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
