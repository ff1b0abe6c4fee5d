"""The verbs of `berth audit`."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from controlplane.cli.client import BerthClient
from controlplane.cli.errors import CliError, Exit
from controlplane.cli.output import columns, print_result, render
from controlplane.cli.verbs import Verbs, positive_int

AUDIT: Final = "/api/v1/audit/"
FILTERS: Final = {  # option: (parameter, help)
    "user": ("username", "acts of this user"),
    "action": ("action", "this action, such as plan.approved"),
    "kind": ("object_kind", "acts on objects of this kind, such as plan"),
    "object": ("object_name", "acts on the object of this name"),
    "request": ("request_id", "acts of this request"),
    "since": ("at__gte", "at or after this time (RFC 3339)"),
    "until": ("at__lt", "before this time (RFC 3339)"),
}


def declare(verbs: Verbs) -> None:
    """Declare the verbs and their arguments."""
    log = verbs.noun("audit", "The log of administrative actions")
    list_parser = log.add("list", list_entries)
    list_parser.add_argument(
        "--limit", type=positive_int, default=50, help="max number of rows (50)"
    )
    export_parser = log.add("export", export)
    export_parser.add_argument("format", choices=("csv", "jsonl"))
    for parser in (list_parser, export_parser):
        _add_filters(parser)


def list_entries(client: BerthClient, args: Namespace) -> int:
    """List administrative actions, newest first."""
    with _options_named():
        rows = list(client.pages(AUDIT, _filters(args), args.limit))
    headings = ("TIME", "WHO", "TOKEN", "ACTION", "OBJECT", "CHANGE", "REASON")
    shown = [
        (
            *(row["at"], _who(row), row["token_name"] or None, row["action"]),
            *(row["object_name"] or row["object_id"] or None, _change(row)),
            row["message"] or None,
        )
        for row in rows
    ]
    print_result(render(rows, args.output, columns(headings, shown)))
    return Exit.OK


def export(client: BerthClient, args: Namespace) -> int:
    """Write all matching acts to stdout, oldest first, as CSV or JSON lines."""
    wanted = {"as": args.format, **_filters(args)}
    with _options_named():
        client.download(f"{AUDIT}export/", wanted, sys.stdout.buffer)
    return Exit.OK


def _add_filters(parser: ArgumentParser) -> None:
    for option, (_, about) in FILTERS.items():
        parser.add_argument(f"--{option}", help=about)


def _filters(args: Namespace) -> dict[str, str]:
    given = {name: getattr(args, option) for option, (name, _) in FILTERS.items()}
    return {name: value for name, value in given.items() if value}


@contextmanager
def _options_named() -> Iterator[None]:
    """Let errors name the options that were given, not the parameters of the request."""
    options = {parameter: f"--{option}" for option, (parameter, _) in FILTERS.items()}
    try:
        yield
    except CliError as error:
        parts = [text.partition(":") for text in error.errors]
        error.errors = tuple(options.get(name, name) + sep + rest for name, sep, rest in parts)
        raise


def _who(row: dict[str, Any]) -> str:
    return str(row["username"] or ("Berth" if row["via"] == "system" else "not signed in"))


def _change(row: dict[str, Any]) -> str | None:
    """Return the fields that differ: "state active > draining, rack set to r1"."""
    before, after = row["before"] or {}, row["after"] or {}
    names = [*before, *(name for name in after if name not in before)]
    pairs = [(name, _text(before.get(name)), _text(after.get(name))) for name in names]
    texts = [_difference(name, old, new) for name, old, new in pairs if old != new]
    return ", ".join(texts)[:80] or None


def _difference(name: str, old: str, new: str) -> str:
    if not old:
        return f"{name} set to {new}"
    return f"{name} {old} > {new}" if new else f"{name} {old} removed"


def _text(value: Any) -> str:
    """Return a stored value as text; empty for none, an empty text and an empty list."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items())
    return "" if value is None else str(value)
