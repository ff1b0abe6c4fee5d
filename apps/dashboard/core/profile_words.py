"""Profiles in sentences: what an application does, tolerates and causes, and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.classification.core.cells import Source
from apps.classification.core.estimators.flags import Degraded
from apps.classification.core.matrix import MatrixName
from apps.classification.core.similarity import Neighbour
from apps.dashboard.core import words
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
    MatrixName.SCALE_UP: "speed-up of so many units of one server over one unit",
    MatrixName.SCALE_OUT: "efficiency of so many servers relative to linear",
    MatrixName.FRAMEWORK: "speed under a setting of its framework relative to the default",
    MatrixName.TOLERATED: "pressure, 0–100 %, above which it loses 5 % or more",
    MatrixName.CAUSED: "pressure, 0–100 %, that one unit puts on the others",
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
FULL: Final = 99.5  # points from which a pressure is "any"
GOOD_SCALING: Final = 0.8  # of linear


SOURCE_WORDS: Final = {
    Source.MEASURED: "measured",
    Source.INFERRED: "inferred",
    Source.OVERRIDE: "set by hand",
}
FLAG_NAMES: Final = {
    Degraded.NO_CELL: "nothing measured",
    Degraded.ONE_CELL: "one cell only",
    Degraded.FEW_ROWS: "small library",
    Degraded.FAR: "far from the library",
}


@dataclass(frozen=True, slots=True)
class Flag:
    """Why estimates are degraded."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One sentence about an application, and how sure it is."""

    sentence: str
    certainty: str
    source: Source


def flag(code: str) -> Flag:
    """Return a flag of a profile in words; the code itself where it is new.

    A code may name the matrix it is about, e.g. "scale_up:far".
    """
    matrix, _, reason = code.rpartition(":")
    if reason not in set(Degraded):
        return Flag(code.replace("_", " "), code)
    known = Degraded(reason)
    where = MATRIX_NAMES[MatrixName(matrix)] if matrix in set(MatrixName) else ""
    name = FLAG_NAMES[known]
    return Flag(f"{where}: {name}" if where else name, known.sentence)


def typed_unit(matrix: MatrixName, kind: str) -> tuple[str, float]:
    """Return the unit in which people type a value, and what one of it is in the matrix."""
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
    """Return a column as its readers call it, e.g. "LLC capacity", "8 units"."""
    match matrix:
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return words.SOURCE_NAMES.get(column, column)
        case MatrixName.SCALE_UP:
            return words.plural(int(column), "unit")
        case MatrixName.SCALE_OUT:
            return words.plural(int(column), "server")
        case MatrixName.BASE_RATE:
            return RATE_COLUMNS.get(column, column)
        case MatrixName.HETEROGENEITY | MatrixName.FRAMEWORK:
            return column


def value_text(matrix: MatrixName, column: str, value: float, kind: str) -> str:
    """Return a value of a cell with its unit."""
    match matrix:
        case MatrixName.BASE_RATE:
            unit = RATE_UNITS.get(kind) if column == "metric" else None
            return words.quantity(value, unit) if unit else f"{words.byte_size(value)}/s"
        case MatrixName.HETEROGENEITY | MatrixName.SCALE_UP | MatrixName.FRAMEWORK:
            return f"{_ratio(value)} ×"
        case MatrixName.SCALE_OUT:
            return words.percent(value, 0)
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            return f"{words.thousands(value)} %"


def _ratio(value: float) -> str:
    """Return a ratio in three digits; 0.99999 is 1.00, not 1.000."""
    return words.significant(float(f"{value:.3g}"))


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
    """Return the standard error of a measured cell in its unit; a dash where it was not."""
    if cell.source is not Source.MEASURED or math.isnan(cell.standard_error):
        return "–"
    if cell.matrix in (MatrixName.TOLERATED, MatrixName.CAUSED):
        return f"{words.trimmed(cell.standard_error, 2)} %"
    if cell.matrix is MatrixName.SCALE_OUT:
        return words.percent(cell.standard_error, 1)
    return value_text(cell.matrix, cell.column, cell.standard_error, kind)


def certainty(cell: ProfileCell, kind: str) -> str:
    """Return how sure a cell is."""
    match cell.source:
        case Source.OVERRIDE:
            return "set by hand"
        case Source.MEASURED:
            times = words.plural(cell.samples, "sample")
            return f"measured, {times}"
        case Source.INFERRED:
            return f"inferred, 90 % sure of {interval_text(cell, kind)}"


def sentence(cell: ProfileCell, kind: str, best: str) -> str:
    """Return what one cell means; ``best`` is the highest-end platform."""
    shown = value_text(cell.matrix, cell.column, cell.value, kind)
    match cell.matrix:
        case MatrixName.BASE_RATE:
            what = "works through" if cell.column == "bytes" else "does"
            return f"One unit of {best} {what} {shown}"
        case MatrixName.HETEROGENEITY:
            return _platform(cell, best)
        case MatrixName.SCALE_UP | MatrixName.SCALE_OUT:
            return _scales(cell)
        case MatrixName.FRAMEWORK:
            return _set(cell)
        case MatrixName.TOLERATED:
            return _tolerates(cell)
        case MatrixName.CAUSED:
            return f"One unit puts {shown} of {PRESSURES[cell.column]} pressure on the others"


def _scales(cell: ProfileCell) -> str:
    is_up = cell.matrix is MatrixName.SCALE_UP
    if cell.column == "1":
        return f"One {'unit' if is_up else 'server'} is what the others are compared to"
    if is_up:
        return f"{cell.column} units of one server do the work of {words.trimmed(cell.value)}"
    return f"On {cell.column} servers each keeps {words.percent(cell.value, 0)} of its speed alone"


def _platform(cell: ProfileCell, best: str) -> str:
    if cell.column == best:
        return "The highest-end platform, which the others are compared to"
    if 0.995 <= cell.value < 1.005:
        return f"As fast on {cell.column} as on {best}"
    if cell.value > 1:
        return f"{words.trimmed(cell.value)} × as fast on {cell.column} as on {best}"
    return f"On {cell.column} it reaches {words.percent(cell.value, 0)} of its speed on {best}"


def _set(cell: ProfileCell) -> str:
    setting = setting_named(cell.column)
    if setting == DEFAULT_SETTING:
        return f"The default, which the others are compared to: {setting.words}"
    return f"{setting.words[0].upper()}{setting.words[1:]}: {_ratio(cell.value)} × the default"


def _tolerates(cell: ProfileCell) -> str:
    pressure = PRESSURES[cell.column]
    if cell.value >= FULL:
        return f"Tolerates any {pressure} pressure"
    if round(cell.value) == 0:
        return f"Any {pressure} pressure costs it 5 % or more"
    return (
        f"Tolerates {pressure} pressure up to {words.thousands(cell.value)} %; "
        "above it loses 5 % or more"
    )


def facts(cells: Cells, kind: str) -> list[Fact]:
    """Return the handful of sentences that say most about an application.

    Its rate, fastest and slowest platform, how far it scales (to more servers only where its kind
    does), the two pressures it minds most and the one it causes most.
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
    minded = sorted(cells[MatrixName.TOLERATED], key=lambda cell: cell.value)[:2]
    loudest = sorted(cells[MatrixName.CAUSED], key=lambda cell: -cell.value)[:1]
    picked += [_fact(cell, sentence(cell, kind, best), kind) for cell in (*minded, *loudest)]
    return picked


def _fact(cell: ProfileCell, text: str, kind: str) -> Fact:
    return Fact(text, certainty(cell, kind), cell.source)


def _share_fact(cell: ProfileCell, text: str, *, of: float) -> Fact:
    """Return a fact about a share, with the interval of the share."""
    if cell.source is not Source.INFERRED:
        return _fact(cell, text, "")
    low, high = (words.percent(end / of, 0) for end in (cell.low, cell.high))
    return Fact(text, f"inferred, 90 % sure of {low.removesuffix(' %')}–{high}", cell.source)


def _platform_fact(platforms: Sequence[ProfileCell]) -> list[Fact]:
    if len(platforms) < 2:
        return []
    ordered = sorted(platforms, key=lambda cell: -cell.value)
    fastest, slowest = ordered[0], ordered[-1]
    share = words.percent(slowest.value / fastest.value, 0)
    text = f"Fastest on {fastest.column}; {slowest.column}, the slowest, reaches {share} of that"
    return [_share_fact(slowest, text, of=fastest.value)]


def _setting_fact(settings: Sequence[ProfileCell], kind: str) -> list[Fact]:
    """Which setting is surely fastest, where one is."""
    best = max(settings, key=lambda cell: cell.low, default=None)
    if best is None or best.low <= 1.0:
        return []
    setting = setting_named(best.column).words
    return [_fact(best, f"{_ratio(best.value)} × as fast with {setting}", kind)]


def _scaling(curve: Sequence[ProfileCell], of: str) -> list[Fact]:
    """How far a curve keeps 80 % of linear, and what comes after."""
    if len(curve) < 2:
        return []
    linear = [int(c.column) if c.matrix is MatrixName.SCALE_UP else 1 for c in curve]
    share = [cell.value / full for cell, full in zip(curve, linear, strict=True)]
    # one unit is what the others are compared to, whatever somebody set it to
    end = next((i for i, s in enumerate(share) if i and s < GOOD_SCALING), len(share))
    reach = curve[end - 1]
    if end == len(share):
        kept = words.percent(share[-1], 0)
        text = f"Scales to {reach.column} {of}, keeping {kept} of linear"
        return [_share_fact(reach, text, of=linear[-1])]
    start = f"Scales to {reach.column} {of}" if end > 1 else f"Gains little from more {of}"
    text = f"{start}; {curve[end].column} keep {words.percent(share[end], 0)} of linear"
    return [_share_fact(curve[end], text, of=linear[end])]


def drift_text(mean_error: float) -> str:
    """Return a moving mean of ln(measured / predicted) as "12 % slower"."""
    share = math.expm1(mean_error)
    return f"{words.percent(abs(share), 0)} {'faster' if share >= 0 else 'slower'}"


# ---- what neighbours share ----


def shared(neighbour: Neighbour) -> str:
    """Return what two applications have in common, in words."""
    if not neighbour.drivers:
        return "alike in a little of everything"
    alike: dict[tuple[MatrixName, bool], list[str]] = {}
    for driver in neighbour.drivers:
        alike.setdefault((driver.matrix, driver.is_above), []).append(driver.column)
    parts = [_alike(matrix, columns, above) for (matrix, above), columns in alike.items()]
    return f"both {words.listed(parts)}"


def _alike(matrix: MatrixName, columns: Sequence[str], is_above: bool) -> str:
    """Return what two have in common in some columns of one matrix."""
    more = "more" if is_above else "less"
    match matrix:
        case MatrixName.TOLERATED | MatrixName.CAUSED:
            verb = "tolerate" if matrix is MatrixName.TOLERATED else "cause"
            return f"{verb} {more} {words.listed([PRESSURES[c] for c in columns])} pressure"
        case MatrixName.SCALE_UP:
            sizes = words.listed(sorted(columns, key=int))
            return f"gain {more} from {sizes} units of a server"
        case MatrixName.FRAMEWORK:
            return f"gain {more} from {words.listed(columns)}"
        case MatrixName.SCALE_OUT:
            return f"keep {more} speed on {words.listed(sorted(columns, key=int))} servers"
        case _:
            return f"are {'faster' if is_above else 'slower'} on {words.listed(columns)}"
