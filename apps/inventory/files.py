"""Reading of cluster files, JSON or YAML, by file ending or content."""

import json
from pathlib import Path
from typing import Any, Final

import yaml

_JSON_ENDINGS: Final = frozenset({".json"})
_YAML_ENDINGS: Final = frozenset({".yaml", ".yml"})


class ClusterFileError(ValueError):
    """The file cannot be read; the message names it and the line."""


def read_document(path: Path) -> Any:
    """Decode a JSON or YAML file.

    Raises
    ------
    ClusterFileError : no such file, not UTF-8, a syntax error, or a duplicate field.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ClusterFileError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ClusterFileError(f"{path}, line {line}: this is not UTF-8 text") from error
    try:
        return _from_json(path, text) if _is_json(path, text) else _from_yaml(path, text)
    except RecursionError as error:
        raise ClusterFileError(f"{path} is nested too deeply to be a cluster") from error


def _is_json(path: Path, text: str) -> bool:
    ending = path.suffix.lower()
    if ending in _JSON_ENDINGS | _YAML_ENDINGS:
        return ending in _JSON_ENDINGS
    return text.lstrip().startswith("{")


def _from_json(path: Path, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ClusterFileError(f"{path}, {place}: {error.msg}") from error
    except ValueError as error:  # a duplicate field, or a number of thousands of digits
        raise ClusterFileError(f"{path}: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in row if keys.count(key) > 1)
        raise ValueError(f"the field {twice!r} occurs twice in one object")
    return row


class _Loader(yaml.SafeLoader):
    """A safe loader whose errors all have a line."""

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value; PyYAML itself gives errors of dates, numbers and tags no line."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            message = f"this value cannot be read ({error})"
            raise yaml.constructor.ConstructorError(
                None, None, message, node.start_mark
            ) from error

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Read an object and refuse duplicate fields, of which PyYAML would keep the last.

        Checked before construction, as merge keys may add fields twice.
        """
        node = super().compose_mapping_node(anchor)
        names: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in names:
                    message = f"the field {key.value!r} occurs twice in one object"
                    raise yaml.composer.ComposerError(None, None, message, key.start_mark)
                names.add(key.value)
        return node


def _from_yaml(path: Path, text: str) -> Any:
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = error.problem or error.context or "not YAML"
        raise ClusterFileError(f"{path}{place}: {what}") from error
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ClusterFileError(f"{path}, line {line}: {error.reason}") from error
