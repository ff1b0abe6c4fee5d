"""The worlds that the emulator can draw hardware and applications from (docs/emulation.md)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from apps.emulation.core.worlds.fitted import FITTED
from apps.emulation.core.worlds.measured import MeasuredWorld
from apps.emulation.core.worlds.paper import PaperWorld
from apps.emulation.core.worlds.types import World

__all__ = ["MEASURED", "PAPER", "WORLDS", "World", "world_named"]

MEASURED: Final = MeasuredWorld(FITTED)
PAPER: Final = PaperWorld()
WORLDS: Final[Mapping[str, World]] = MappingProxyType({MEASURED.name: MEASURED, PAPER.name: PAPER})


def world_named(name: str) -> World:
    """Return a world of the registry.

    Raises
    ------
    ValueError : no such world; names those that exist.
    """
    if name not in WORLDS:
        raise ValueError(f"world must be one of {', '.join(WORLDS)}, got {name!r}")
    return WORLDS[name]
