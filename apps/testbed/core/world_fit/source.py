"""The fitted parameters as a Python module, `apps/emulation/core/worlds/fitted.py`."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

from apps.emulation.core.worlds.parameters import Parameters
from apps.testbed.core.world_fit.groups import GROUPS

HEAD: Final = '''\
"""Parameters of the `measured` world. Written by `./dev manage fit_world --data DIR`.

A comment names the measurements that the values below it were fitted to (docs/emulation.md).
`DATA` has the SHA-256 of every file.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apps.emulation.core.worlds.parameters import (
    Heterogeneity,
    LogNormal,
    Parameters,
    Scaling,
    Sensitivity,
    ServerSpeed,
    Services,
)

'''
_GROUP_OF: Final = {
    "heterogeneity": "heterogeneity",
    "scale_up": "scale-up",
    "scale_out": "scale-out",
    "sensitivity": "slowdown",
    "strength": "caused",
    "noise": "noise",
    "servers": "servers",
    "tasks": "tasks",
    "services": "service",
}


def module_text(fitted: Parameters, checksums: Mapping[str, str]) -> str:
    """Return the source of the module, as the formatter leaves it."""
    lines = [HEAD + "FITTED: Final = Parameters("]
    for field in fields(Parameters):
        lines.append(f"    # {', '.join(_sets(field.name))}")
        lines.append(f"    {field.name}={_shown(getattr(fitted, field.name))},")
    lines += [")", "DATA: Final[Mapping[str, str]] = MappingProxyType(", "    {"]
    lines += [
        f'        "{name}": (\n            "{digest}"\n        ),'
        for name, digest in checksums.items()
    ]
    lines += ["    }", ")", ""]
    return "\n".join(lines)


def _sets(field: str) -> list[str]:
    groups = [group for group in GROUPS if group.name.startswith(_GROUP_OF[field])]
    return list(dict.fromkeys(name for group in groups for name in group.sets))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        items = [f'"{key}": {_shown(item)}' for key, item in value.items()]
        body = "".join(f"            {item},\n" for item in items)
        return f"MappingProxyType(\n        {{\n{body}        }}\n    )"
    if is_dataclass(value):
        inner = ", ".join(_shown(getattr(value, field.name)) for field in fields(value))
        return f"{type(value).__name__}({inner})"
    if isinstance(value, tuple):
        return f"({', '.join(_shown(item) for item in value)})"
    return repr(value)
