"""Audit entries as text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# Kinds of objects, in the order of the filter.
KINDS: Final = {
    "sign_in": "sign-in",
    "session": "session",
    "user": "user",
    "token": "token",
    "project": "project",
    "membership": "membership",
    "weights": "weights in force",
    "preference_set": "preference set",
    "objective": "objective",
    "plan": "plan",
    "loop": "rebalancing loop",
    "policy": "policy of the cluster",
    "job": "job",
    "agent": "agent",
    "server": "server",
    "cluster": "cluster",
    "application": "application",
    "override": "override",
    "report_key": "report key",
    "report": "imported report",
    "revision": "revision",
    "scenario": "scenario",
    "comparison": "comparison",
    "pair": "measured pair",
    "shadow": "shadow policy",
    "audit": "audit log",
}
_PAGES: Final = {
    "user": "/users/{}/",
    "project": "/projects/{}/",
    "application": "/applications/{}/",
    "override": "/applications/{}/",
    "server": "/servers/{}/",
    "policy": "/policies/",
}
MAX_TEXT: Final = 120


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field that an act changed; an empty text stands for no value."""

    field: str
    before: str
    after: str


def action_text(action: str) -> str:
    """Return an action in words: "plan approved"."""
    return action.replace(".", " ", 1).replace("_", " ")


def changes(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> list[FieldChange]:
    """Return the fields that differ, in the order of their first mention."""
    old, new = before or {}, after or {}
    names = [*old, *(name for name in new if name not in old)]
    return [
        FieldChange(name, _text(old, name), _text(new, name))
        for name in names
        if name not in old or name not in new or old[name] != new[name]
    ]


def object_url(kind: str, name: str) -> str:
    """Return the page of an object; empty if it has none."""
    return _PAGES[kind].format(name) if kind in _PAGES and name else ""


def _text(state: Mapping[str, Any], name: str) -> str:
    if name not in state:
        return ""
    value = state[name]
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
