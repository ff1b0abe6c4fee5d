"""Messages as bytes: one line of JSON in UTF-8 each, at most `MAX_FRAME` bytes long.

Fields that a reader does not know are ignored, so fields may be added to a type; any other change
needs a new protocol number.
"""

import json
from dataclasses import MISSING, fields
from typing import Any, Final, NoReturn

from apps.execution.core.nodes import fields as check
from apps.execution.core.nodes.fields import Check, FieldError
from apps.execution.core.nodes.messages import (
    MAX_FRAME,
    Accepted,
    Acknowledged,
    Code,
    Ended,
    Error,
    FromNode,
    FromServer,
    Heartbeat,
    Launch,
    Message,
    Outcome,
    ProtocolError,
    Register,
    Rejected,
    Rejection,
    Started,
    Stop,
    Usage,
    Welcome,
)

_AMOUNT: Final = check.integer(0)
_FREE: Final = check.integer(-check.MAX_INTEGER)  # negative if a server has shrunk under its tasks
_CHECKS: Final[dict[str, Check]] = {
    "attributes": check.texts,
    "code": check.one_of(Code),
    "cpu": _AMOUNT,
    "detail": check.note,
    "ended": check.texts,
    "epoch": check.integer(0),
    "free_cpu": _FREE,
    "free_memory": _FREE,
    "heartbeat_s": check.seconds(0.1, 500.0),
    "lease_s": check.seconds(0.0, 1e6),
    "memory": _AMOUNT,
    "needs": check.texts,
    "node": check.text,
    "order": check.text,
    "orders": check.texts,
    "outcome": check.one_of(Outcome),
    "payload": check.payload,
    "protocol": check.integer(0),
    "reason": check.one_of(Rejection),
    "running": check.texts,
    "stop": check.texts,
    "tasks": _AMOUNT,
    "usage_s": check.seconds(0.0, 1e6),
    "used": check.uses,
}


class _Form:
    """The type of a message on the wire, its fields, their checks and which may be missing."""

    __slots__ = ("checks", "kind", "name")

    def __init__(self, kind: type[Message]) -> None:
        self.kind: Any = kind
        self.name = kind.__name__.lower()
        self.checks = [
            (part.name, _CHECKS[part.name], _is_required(part)) for part in fields(kind)
        ]


def _is_required(part: Any) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


_FROM_NODE: Final = (Register, Heartbeat, Accepted, Rejected, Started, Usage, Ended, Error)
_FROM_SERVER: Final = (Welcome, Launch, Stop, Acknowledged, Error)
_FORMS: Final = {kind: _Form(kind) for kind in (*_FROM_NODE, *_FROM_SERVER)}
_NODE_FORMS: Final = {_FORMS[kind].name: _FORMS[kind] for kind in _FROM_NODE}
_SERVER_FORMS: Final = {_FORMS[kind].name: _FORMS[kind] for kind in _FROM_SERVER}


def encode(message: Message) -> bytes:
    """Write a message as a line.

    Raises
    ------
    ProtocolError : the line is too long for the other end.
    ValueError : a payload holds what JSON cannot carry.
    """
    form = _FORMS[type(message)]
    content = {"type": form.name}
    for name, _, _ in form.checks:
        content[name] = getattr(message, name)
    line = _write(content).encode() + b"\n"
    if len(line) > MAX_FRAME + 1:
        raise _oversized(len(line) - 1)
    return line


def decode_from_node(line: bytes) -> FromNode:
    """Read a line that a node has sent.

    Raises
    ------
    ProtocolError : no valid message; the text names the field and what it accepts.
    """
    return _decode(line, _NODE_FORMS)


def decode_from_server(line: bytes) -> FromServer:
    """Read a line that the server has sent.

    Raises
    ------
    ProtocolError : no valid message; the text names the field and what it accepts.
    """
    return _decode(line, _SERVER_FORMS)


class LineReader:
    """Cuts a stream of bytes into lines; holds at most one incomplete line."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the lines that are now complete, without their ends.

        Raises
        ------
        ProtocolError : a line is too long. Nothing may be fed after that.
        """
        rest = self._rest
        if b"\n" not in data:
            rest += data
            lines = []
        else:
            *lines, last = (bytes(rest) + data).split(b"\n")
            rest[:] = last
        longest = max(len(rest), max(map(len, lines), default=0))
        if longest > MAX_FRAME:
            raise _oversized(longest)
        return lines


def _oversized(size: int) -> ProtocolError:
    return ProtocolError(
        Code.OVERSIZED, f"a line of {size} or more bytes; at most {MAX_FRAME} are accepted"
    )


def _decode(line: bytes, forms: dict[str, _Form]) -> Any:
    try:
        content = _READ.decode(line.decode())
    except (ValueError, RecursionError) as error:
        raise ProtocolError(Code.MALFORMED, f"not JSON in UTF-8: {_shorten(line)}") from error
    if not isinstance(content, dict):
        raise ProtocolError(Code.MALFORMED, f"not an object: {_shorten(line)}")
    name = content.get("type")
    form = forms.get(name) if isinstance(name, str) else None
    if form is None:
        accepted = ", ".join(forms)
        raise ProtocolError(
            Code.MALFORMED, f"type is {_shorten(name)}; expected one of {accepted}"
        )
    return form.kind(**_values(form, content))


def _values(form: _Form, content: dict[str, Any]) -> dict[str, Any]:
    values = {}
    for name, accept, is_required in form.checks:
        if name not in content:
            if is_required:
                raise ProtocolError(Code.MALFORMED, f"{form.name}.{name} is missing")
            continue
        try:
            values[name] = accept(content[name])
        except FieldError as error:
            shown = _shorten(content[name])
            raise ProtocolError(
                Code.MALFORMED, f"{form.name}.{name} is {shown}; expected {error}"
            ) from error
    return values


def _shorten(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_READ: Final = json.JSONDecoder(parse_constant=_refuse_constant)
_write: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
