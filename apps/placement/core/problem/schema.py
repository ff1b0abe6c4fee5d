"""The published schema of an instance (JSON Schema 2020-12), and its limits.

`instance_file` also checks what a schema cannot express: unique ids, one communication class per
job, enough slots. ``docs/placement-instance.schema.json`` is this value.
"""

from typing import Any, Final

MAX_ITEMS: Final = 1_000_000  # nodes, containers
MAX_SLOTS: Final = 65_536  # of a node
MAX_WATTS: Final = 1e9  # of a node
MAX_ID_LENGTH: Final = 255

CLASSES: Final = ("taz", "turtle")
COMMUNICATIONS: Final = ("node", "rack", "cluster")

_ID: Final = {
    "type": ["string", "integer"],
    "minLength": 1,
    "maxLength": MAX_ID_LENGTH,
    "description": "a whole number is its decimal text",
}
_WATTS: Final = {"type": "number", "minimum": 0, "maximum": MAX_WATTS}

NODE: Final[dict[str, dict[str, Any]]] = {
    "id": _ID,
    "rack": _ID,
    "slots": {"type": "integer", "minimum": 1, "maximum": MAX_SLOTS, "default": 2},
    "idle_watts": {**_WATTS, "description": "of a node that holds a container, before its load"},
    "peak_watts": {**_WATTS, "description": "with all slots in use; at least idle_watts"},
}
CONTAINER: Final[dict[str, dict[str, Any]]] = {
    "id": _ID,
    "job": _ID,
    "intensity": {"type": "number", "minimum": 0, "maximum": 1},
    "class": {"enum": list(CLASSES)},
    "communication": {"enum": list(COMMUNICATIONS), "description": "the same for all of a job"},
}
OPTIONAL: Final = frozenset({"slots"})


def _items(properties: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "array",
        "maxItems": MAX_ITEMS,
        "items": {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name not in OPTIONAL],
            "additionalProperties": False,
        },
    }


SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Berth placement instance",
    "type": "object",
    "properties": {
        "nodes": _items(NODE),
        "containers": _items(CONTAINER),
        "current": {
            "type": "object",
            "description": "node of each container that runs already",
            "additionalProperties": _ID,
        },
    },
    "required": ["nodes", "containers"],
    "additionalProperties": False,
}
