"""Speed of an analytics application under its framework settings (Quasar Table 3)."""

import plotly.graph_objects as go

from apps.dashboard.core import formats
from apps.dashboard.figures import marks, platform_speed
from apps.dashboard.figures.marks import MatrixRow
from apps.dashboard.figures.theme import Table
from apps.workloads.core.framework import DEFAULT_SETTING, setting_named


def title(data: MatrixRow) -> str:
    """Return the setting that is clearly fastest, if there is one."""
    if not data.cells:
        return "Framework settings not known yet"
    best = max(data.cells, key=lambda cell: cell.low)
    if best.low <= 1.0:
        return f"No setting is clearly faster than the default, {DEFAULT_SETTING.description}"
    fastest = setting_named(best.column).description
    return f"{formats.trimmed(best.value)} × the default with {fastest}"


def sub(data: MatrixRow) -> str:
    """Return the measure, its scope and n."""
    if not data.cells:
        return "Only analytics applications have framework settings"
    hidden = len(data.cells) - platform_speed.MAX_ROWS
    rest = f"; the {hidden} slowest are in the table only" if hidden > 0 else ""
    return (
        "Speed by tasks per core × heap per task, relative to "
        f"{DEFAULT_SETTING.label}; {marks.counted(data.cells)}{rest}"
    )


def table(data: MatrixRow) -> Table:
    """Return every setting, fastest first."""
    return marks.table(platform_speed.ordered(data, len(data.cells)), "Setting")


def figure(data: MatrixRow) -> go.Figure:
    """Draw one bar per setting, fastest at the top."""
    return platform_speed.bars(data, "No settings")
