"""Profiles as text: names, values, intervals and sentences on their cells."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.classification.core.cells import Source
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import Neighbour
from apps.dashboard.core import formats, labels
from apps.dashboard.core.profile_cells import Cells, ProfileCell
from apps.profiling.core.plan import SPREADS
from apps.workloads.core.framework import DEFAULT_SETTING, setting_named

MATRIX_NAMES: Final = {
    MatrixName.BASE_RATE: "Base rate",
    MatrixName.HETEROGENEITY: "Platforms",
    MatrixName.SCALE_UP: "Scale-up",
    MatrixName.SCALE_OUT: "Scale-out",
    MatrixName.FRAMEWORK: "Settings",
    MatrixName.TOLERATED: "Tolerated",
    MatrixName.CAUSED: "Caused",
}
MATRIX_MEANS: Final = {
    MatrixName.BASE_RATE: "work per second of one unit on the highest-end platform",
    MatrixName.HETEROGENEITY: "speed of one unit relative to the highest-end platform",
    MatrixName.SCALE_UP: "speed-up of a number of units of one server over one unit",
    MatrixName.SCALE_OUT: "efficiency of a number of servers relative to linear scaling",
    MatrixName.FRAMEWORK: "speed under a framework setting relative to the default",
    MatrixName.TOLERATED: "pressure, 0–100 %, above which the application loses 5 % of its speed",
    MatrixName.CAUSED: "pressure, 0–100 %, that one unit puts on other units",
}
PRESSURES: Final = {
    "memory_capacity": "memory-capacity",
    "memory_bandwidth": "memory-bandwidth",
    "llc_capacity": "LLC-capacity",
    "llc_bandwidth": "LLC-bandwidth",
    "l1i": "L1-instruction",
    "l1d": "L1-data",
    "tlb": "TLB",
    "core": "core",
    "network_bandwidth": "network",
    "storage_bandwidth": "storage",
}
RATE_COLUMNS: Final = {"metric": "own metric", "bytes": "input bytes"}
RATE_UNITS: Final = {"latency_critical": "queries/s", "single_node": "instr./s"}
FULL: Final = 99.5  # points; more is "any pressure"
GOOD_SCALING: Final = 0.8  # of linear


SOURCE_WORDS: Final = {
    Source.MEASURED: "measured",
    Source.INFERRED: "inferred",
    Source.OVERRIDE: "set by hand",
}
FLAG_NAMES: Final = {
    Degraded.NO_CELL: "nothing measured",
    Degraded.ONE_CELL: "only one cell measured",
    Degraded.FEW_ROWS: "small library",
    Degraded.FAR: "outside the library's range",
    Degraded.UNFAMILIAR: "unlike the library",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """A reason why estimates are degraded."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence about an application, and its certainty."""

    sentence: str
    certainty: str
    source: Source


def flag(code: str) -> Flag:
    """Return a flag of a profile as text, or its code if unknown.

    A code may have the prefix of a matrix, e.g. "scale_up:far".
    """
    matrix, _, reason = code.rpartition(":")
    if reason not in set(Degraded):
        return Flag(code.replace("_", " "), code)
    known = Degraded(reason)
    where = MATRIX_NAMES[MatrixName(matrix)] if matrix in set(MatrixName) else ""
    name = FLAG_NAMES[known]
    return Flag(f"{where}: {name}" if where else name, known.sentence)


def caution(application: str, codes: Sequence[str]) -> str:
    """Return a warning on predictions for an application unlike the library; "" without need."""
    pairs = [code.rpartition(":") for code in codes]
    parts = [
        MATRIX_NAMES[MatrixName(matrix)].lower() if matrix in set(MatrixName) else matrix
        for matrix, _, reason in pairs
        if reason in (Degraded.UNFAMILIAR, Degraded.FAR)
    ]
    if not parts:
        return ""
    return (
        f"The measured values of {application} do not fit the applications of the library"
        f" ({', '.join(dict.fromkeys(parts))}), so this prediction is less certain than usual."
    )


def typed_unit(matrix: MatrixName, kind: str) -> tuple[str, float]:
    """Return the input unit of a value and its size in the unit of the matrix."""
    match matrix:
        case MatrixName.BASE_RATE:
            return RATE_UNITS.get(kind, "B/s"), 1.0
        case MatrixName.HETEROGENEITY | MatrixName.SCALE_UP | MatrixName.FRAMEWORK:
            return "×", 1.0
        case MatrixName.SCALE_OUT:
            return "%", 0.01
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return "%", 1.0


def column_name(matrix: MatrixName, column: str) -> str:
    """Return the display name of a column, e.g. "LLC capacity", "8 units"."""
    match matrix:
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return labels.SOURCE_NAMES.get(column, column)
        case MatrixName.SCALE_UP:
            return formats.plural(int(column), "unit")
        case MatrixName.SCALE_OUT:
            return formats.plural(int(column), "server")
        case MatrixName.BASE_RATE:
            return RATE_COLUMNS.get(column, column)
        case MatrixName.HETEROGENEITY | MatrixName.FRAMEWORK:
            return column


def value_text(matrix: MatrixName, column: str, value: float, kind: str) -> str:
    """Return a value of a cell with its unit."""
    match matrix:
        case MatrixName.BASE_RATE:
            unit = RATE_UNITS.get(kind) if column == "metric" else None
            return formats.quantity(value, unit) if unit else f"{formats.byte_size(value)}/s"
        case MatrixName.HETEROGENEITY | MatrixName.SCALE_UP | MatrixName.FRAMEWORK:
            return f"{_ratio(value)} ×"
        case MatrixName.SCALE_OUT:
            return formats.percent(value, 0)
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return f"{formats.thousands(value)} %"


def _ratio(value: float) -> str:
    """Return a ratio with three digits; 0.99999 becomes 1.00, not 1.000."""
    return formats.significant(float(f"{value:.3g}"))


def interval_text(cell: ProfileCell, kind: str) -> str:
    """Return the 90 % interval, e.g. "31–52 %"."""
    low = value_text(cell.matrix, cell.column, cell.low, kind)
    high = value_text(cell.matrix, cell.column, cell.high, kind)
    if low == high:
        return high
    number, _, unit = low.partition(" ")
    same_unit = unit == high.partition(" ")[2]
    return f"{number}–{high}" if same_unit else f"{low} – {high}"


def error_text(cell: ProfileCell, kind: str) -> str:
    """Return the standard error of a measured cell with its unit, else a dash."""
    if cell.source is not Source.MEASURED or math.isnan(cell.standard_error):
        return "–"
    if cell.matrix in (MatrixName.TOLERATED, MatrixName.CAUSED):
        return f"{formats.trimmed(cell.standard_error, 2)} %"
    if cell.matrix is MatrixName.SCALE_OUT:
        return formats.percent(cell.standard_error, 1)
    return value_text(cell.matrix, cell.column, cell.standard_error, kind)


def certainty(cell: ProfileCell, kind: str) -> str:
    """Return the certainty of a cell."""
    match cell.source:
        case Source.OVERRIDE:
            return "set by hand"
        case Source.MEASURED:
            times = formats.plural(cell.samples, "sample")
            return f"measured, {times}"
        case Source.INFERRED:
            return f"inferred, 90 % interval {interval_text(cell, kind)}"


def sentence(cell: ProfileCell, kind: str, best: str) -> str:
    """Return a sentence on one cell; ``best`` is the highest-end platform."""
    shown = value_text(cell.matrix, cell.column, cell.value, kind)
    match cell.matrix:
        case MatrixName.BASE_RATE:
            verb = "processes" if cell.column == "bytes" else "achieves"
            return f"One unit of {best} {verb} {shown}"
        case MatrixName.HETEROGENEITY:
            return _platform_sentence(cell, best)
        case MatrixName.SCALE_UP | MatrixName.SCALE_OUT:
            return _scaling_sentence(cell)
        case MatrixName.FRAMEWORK:
            return _setting_sentence(cell)
        case MatrixName.TOLERATED:
            return _tolerance_sentence(cell)
        case MatrixName.CAUSED:
            return f"One unit puts {shown} of {PRESSURES[cell.column]} pressure on other units"


def _scaling_sentence(cell: ProfileCell) -> str:
    is_up = cell.matrix is MatrixName.SCALE_UP
    if cell.column == "1":
        return f"One {'unit' if is_up else 'server'} is the reference"
    if is_up:
        return f"{cell.column} units of one server do the work of {formats.trimmed(cell.value)}"
    share = formats.percent(cell.value, 0)
    return f"On {cell.column} servers, each reaches {share} of its speed alone"


def _platform_sentence(cell: ProfileCell, best: str) -> str:
    if cell.column == best:
        return "The highest-end platform is the reference"
    if 0.995 <= cell.value < 1.005:
        return f"As fast on {cell.column} as on {best}"
    if cell.value > 1:
        return f"{formats.trimmed(cell.value)} × as fast on {cell.column} as on {best}"
    return f"On {cell.column} it reaches {formats.percent(cell.value, 0)} of its speed on {best}"


def _setting_sentence(cell: ProfileCell) -> str:
    setting = setting_named(cell.column)
    if setting == DEFAULT_SETTING:
        return f"The default setting is the reference: {setting.description}"
    name = setting.description
    return f"{name[0].upper()}{name[1:]}: {_ratio(cell.value)} × the default"


def _tolerance_sentence(cell: ProfileCell) -> str:
    pressure = PRESSURES[cell.column]
    if cell.value >= FULL:
        return f"Tolerates any {pressure} pressure"
    if round(cell.value) == 0:
        return f"Loses 5 % or more under any {pressure} pressure"
    return (
        f"Tolerates {pressure} pressure up to {formats.thousands(cell.value)} %; "
        "loses 5 % or more above that"
    )


def facts(cells: Cells, kind: str) -> list[Fact]:
    """Return the most important facts about an application.

    Its rate, fastest and slowest platform, scaling (to more servers only if its kind does), the
    two resources it is most sensitive to and the one it presses most.
    """
    platforms = cells[MatrixName.HETEROGENEITY]
    best = platforms[0].column if platforms else "the highest-end platform"
    rate = cells[MatrixName.BASE_RATE][0]
    picked = [_fact(rate, sentence(rate, kind, best), kind)]
    picked += _platform_fact(platforms)
    picked += _scaling(cells[MatrixName.SCALE_UP], "units of one server")
    if kind in SPREADS:
        picked += _scaling(cells[MatrixName.SCALE_OUT], "servers")
    picked += _setting_fact(cells.get(MatrixName.FRAMEWORK, ()), kind)
    sensitive = sorted(cells[MatrixName.TOLERATED], key=lambda cell: cell.value)[:2]
    loudest = sorted(cells[MatrixName.CAUSED], key=lambda cell: -cell.value)[:1]
    picked += [_fact(cell, sentence(cell, kind, best), kind) for cell in (*sensitive, *loudest)]
    return picked


def _fact(cell: ProfileCell, text: str, kind: str) -> Fact:
    return Fact(text, certainty(cell, kind), cell.source)


def _share_fact(cell: ProfileCell, text: str, *, of: float) -> Fact:
    """Return a fact about a share, with the interval of that share."""
    if cell.source is not Source.INFERRED:
        return _fact(cell, text, "")
    low, high = (formats.percent(end / of, 0) for end in (cell.low, cell.high))
    return Fact(text, f"inferred, 90 % interval {low.removesuffix(' %')}–{high}", cell.source)


def _platform_fact(platforms: Sequence[ProfileCell]) -> list[Fact]:
    if len(platforms) < 2:
        return []
    ordered = sorted(platforms, key=lambda cell: -cell.value)
    fastest, slowest = ordered[0], ordered[-1]
    share = formats.percent(slowest.value / fastest.value, 0)
    text = f"Fastest on {fastest.column}; slowest on {slowest.column}, at {share} of that speed"
    return [_share_fact(slowest, text, of=fastest.value)]


def _setting_fact(settings: Sequence[ProfileCell], kind: str) -> list[Fact]:
    """Return the setting that is clearly fastest, if there is one."""
    best = max(settings, key=lambda cell: cell.low, default=None)
    if best is None or best.low <= 1.0:
        return []
    setting = setting_named(best.column).description
    return [_fact(best, f"{_ratio(best.value)} × as fast with {setting}", kind)]


def _scaling(curve: Sequence[ProfileCell], of: str) -> list[Fact]:
    """Return the size up to which a curve keeps 80 % of linear, and the next size."""
    if len(curve) < 2:
        return []
    linear = [int(c.column) if c.matrix is MatrixName.SCALE_UP else 1 for c in curve]
    share = [cell.value / full for cell, full in zip(curve, linear, strict=True)]
    # one unit is the reference, even if it was overridden
    end = next((i for i, s in enumerate(share) if i and s < GOOD_SCALING), len(share))
    reach = curve[end - 1]
    if end == len(share):
        kept = formats.percent(share[-1], 0)
        text = f"Scales to {reach.column} {of}, keeping {kept} of linear"
        return [_share_fact(reach, text, of=linear[-1])]
    start = f"Scales to {reach.column} {of}" if end > 1 else f"Gains little from more {of}"
    text = f"{start}; {curve[end].column} keep {formats.percent(share[end], 0)} of linear"
    return [_share_fact(curve[end], text, of=linear[end])]


def drift_text(mean_error: float) -> str:
    """Format a moving mean of ln(measured / predicted), e.g. "12 % slower"."""
    share = math.expm1(mean_error)
    return f"{formats.percent(abs(share), 0)} {'faster' if share >= 0 else 'slower'}"


# ---- similarity ----


def shared(neighbour: Neighbour) -> str:
    """Describe what two applications have in common."""
    if not neighbour.drivers:
        return "similar in most measures"
    common: dict[tuple[MatrixName, bool], list[str]] = {}
    for driver in neighbour.drivers:
        common.setdefault((driver.matrix, driver.is_above), []).append(driver.column)
    parts = [_common_text(matrix, columns, above) for (matrix, above), columns in common.items()]
    return f"both {formats.listed(parts)}"


def _common_text(matrix: MatrixName, columns: Sequence[str], is_above: bool) -> str:
    """Describe what two applications have in common in one matrix."""
    more = "more" if is_above else "less"
    match matrix:
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            verb = "tolerate" if matrix is MatrixName.TOLERATED else "cause"
            return f"{verb} {more} {formats.listed([PRESSURES[c] for c in columns])} pressure"
        case MatrixName.SCALE_UP:
            sizes = formats.listed(sorted(columns, key=int))
            return f"gain {more} from {sizes} units of a server"
        case MatrixName.FRAMEWORK:
            return f"gain {more} from {formats.listed(columns)}"
        case MatrixName.SCALE_OUT:
            return f"keep {more} speed on {formats.listed(sorted(columns, key=int))} servers"
        case _:
            return f"are {'faster' if is_above else 'slower'} on {formats.listed(columns)}"
