"""How fast an analytics application is under the settings of its framework (Quasar Table 3)."""

import plotly.graph_objects as go

from apps.dashboard.core import words
from apps.dashboard.figures import marks, platform_speed
from apps.dashboard.figures.marks import Row
from apps.dashboard.figures.theme import Table
from apps.workloads.core.framework import DEFAULT_SETTING, setting_named


def title(data: Row) -> str:
    """Return the setting that is surely fastest, if one is."""
    if not data.cells:
        return "Settings not known"
    best = max(data.cells, key=lambda cell: cell.low)
    if best.low <= 1.0:
        return f"No setting surely beats the default, {DEFAULT_SETTING.words}"
    return f"{words.trimmed(best.value)} × the default with {setting_named(best.column).words}"


def sub(data: Row) -> str:
    """Return what is measured."""
    if not data.cells:
        return "Only frameworks of analytics are set"
    hidden = len(data.cells) - platform_speed.MOST
    rest = f"; the {hidden} slowest are in the table only" if hidden > 0 else ""
    return (
        "Speed under tasks a core x heap of each, relative to "
        f"{DEFAULT_SETTING.label}; {marks.counted(data.cells)}{rest}"
    )


def table(data: Row) -> Table:
    """Every setting, the fastest first."""
    return marks.table(platform_speed.ordered(data, len(data.cells)), "Setting")


def figure(data: Row) -> go.Figure:
    """One bar for each setting, the fastest at the top."""
    return platform_speed.bars(data, "No settings")
