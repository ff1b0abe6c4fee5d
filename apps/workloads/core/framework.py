"""Settings of an analytics framework, in quantised steps (Quasar §3.2, Table 3).

A setting changes the speed of the same tasks on the same units: the number of tasks per core, the
heap size of each, and the compression of intermediate data.
"""

from dataclasses import dataclass
from itertools import product
from typing import Final

GB: Final = 10**9


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes
    ----------
    tasks_per_core : tasks that share a core
    heap_bytes : of each task
    is_compressed : whether intermediate data is compressed
    """

    tasks_per_core: int
    heap_bytes: int
    is_compressed: bool

    @property
    def memory_bytes(self) -> int:
        """Memory needed by the tasks of one core."""
        return self.tasks_per_core * self.heap_bytes

    @property
    def label(self) -> str:
        """Column of the utility matrix, e.g. ``2x0.5GB`` or ``2x0.5GB+lz4``."""
        heap = f"{self.tasks_per_core}x{self.heap_bytes / GB:g}GB"
        return f"{heap}+lz4" if self.is_compressed else heap

    @property
    def description(self) -> str:
        """Description for users."""
        tasks = "1 task" if self.tasks_per_core == 1 else f"{self.tasks_per_core} tasks"
        packed = "compressed" if self.is_compressed else "not compressed"
        return f"{tasks} a core, {self.heap_bytes / GB:g} GB heap each, {packed}"


DEFAULT_SETTING: Final = Setting(1, GB, is_compressed=False)
_EVERY: Final = tuple(
    Setting(tasks, heap, packed)
    for packed, tasks, heap in product((False, True), (1, 2, 4), (GB // 2, GB, 2 * GB))
)
# the default first: all others are compared to it
SETTINGS: Final = (DEFAULT_SETTING, *(s for s in _EVERY if s != DEFAULT_SETTING))
LABELS: Final = tuple(setting.label for setting in SETTINGS)
HAS_SETTINGS: Final = frozenset({"analytics"})  # kinds of applications


def setting_named(label: str) -> Setting:
    """Return the setting with a label.

    Raises
    ------
    ValueError : no setting has this label.
    """
    if label not in LABELS:
        raise ValueError(f"setting must be one of {', '.join(LABELS)}, got {label!r}")
    return SETTINGS[LABELS.index(label)]
