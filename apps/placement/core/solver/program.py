"""Mixed-integer programs, solved by HiGHS within a time limit; a running solve can be stopped.

highspy is imported when a program is first solved, so that readers do not load it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from apps.inventory.core.snapshot import Floats, Ints

INFINITY: Final = float("inf")
# HiGHS accepts rows violated, and reduced costs below 0, by these tolerances. Costs are scaled to
# a median of 1; bounds are lowered by the tolerances of all rows and columns.
ROW_TOLERANCE: Final = 1e-6
COST_TOLERANCE: Final = 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class ProgramResult:
    """The result of a solve.

    Attributes
    ----------
    bound : lower bound on the cost of any solution, less tolerances; -inf if nothing was proven
    values : of the best solution, by column; None if there is none
    """

    bound: float
    values: Floats | None


class MixedIntegerProgram:
    """Columns with costs and ranges, and rows that bound sums of them; minimised."""

    def __init__(self) -> None:
        self._cost: list[Floats] = []
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._whole: list[Ints] = []
        self._columns = 0
        self._row_low: list[float] = []
        self._row_high: list[float] = []
        self._entries: list[tuple[Ints, Ints, Floats]] = []

    def columns(
        self, cost: Floats, high: "Floats | float" = INFINITY, *, is_whole: bool = False
    ) -> Ints:
        """Add columns with values from 0 to ``high``, and return their numbers."""
        first, count = self._columns, cost.size
        self._columns += count
        self._cost.append(cost)
        self._low.append(np.zeros(count))
        self._high.append(np.broadcast_to(np.asarray(high, dtype=np.float64), (count,)))
        numbers: Ints = np.arange(first, self._columns)
        if is_whole:
            self._whole.append(numbers)
        return numbers

    def row(
        self,
        low: float,
        high: float,
        *terms: "tuple[Ints, Floats | float]",
    ) -> None:
        """Add low <= Σ factor·column <= high."""
        for columns, factor in terms:
            self._add(np.full(columns.size, len(self._row_low)), columns, factor)
        self._row_low.append(low)
        self._row_high.append(high)

    def rows(
        self,
        low: float,
        high: "Floats | float",
        *terms: "tuple[Ints, Floats | float]",
        is_exact: bool = False,
    ) -> None:
        """Add one row per element of the terms' columns, which have equal lengths."""
        count = terms[0][0].size
        first = len(self._row_low)
        for columns, factor in terms:
            self._add(np.arange(first, first + count), columns, factor)
        ceiling = np.broadcast_to(np.asarray(high, np.float64), (count,)).tolist()
        self._row_low.extend(ceiling if is_exact else [low] * count)
        self._row_high.extend(ceiling)

    def _add(self, rows: Ints, columns: Ints, factor: "Floats | float") -> None:
        each = np.broadcast_to(np.asarray(factor, dtype=np.float64), (columns.size,))
        self._entries.append((rows, columns, each))

    def solve(
        self,
        *,
        limit_s: float,
        should_stop: Callable[[], bool] = lambda: False,
        gap_tolerance: float = 0.0,
    ) -> ProgramResult:
        """Solve until the time limit, or until the relative gap is below ``gap_tolerance``."""
        import highspy  # noqa: PLC0415 - 5 MB that only solvers need

        scale = self._scale()
        make: Any = highspy.Highs
        solver = make()
        solver.silent()
        for name, value in (
            ("time_limit", max(limit_s, 0.0)),
            ("mip_rel_gap", gap_tolerance),
            ("mip_abs_gap", ROW_TOLERANCE),
            ("threads", 1),
        ):
            solver.setOptionValue(name, value)
        solver.passModel(self._model(highspy, scale))
        if self._whole:
            solver.cbMipInterrupt += lambda event: event.interrupt(should_stop())
        solver.run()
        info = solver.getInfo()
        is_feasible = info.primal_solution_status == 2  # kSolutionStatusFeasible
        values = np.array(solver.getSolution().col_value) if is_feasible else None
        slack = ROW_TOLERANCE * len(self._row_low) + COST_TOLERANCE * self._columns
        return ProgramResult((self._proven(solver, info, highspy) - slack) / scale, values)

    def _scale(self) -> float:
        sizes = np.abs(np.concatenate(self._cost))
        sizes = sizes[sizes > 0.0]
        return 1.0 / float(np.median(sizes)) if sizes.size else 1.0

    def _proven(self, solver: Any, info: Any, highspy: Any) -> float:
        if self._whole:
            bound = float(info.mip_dual_bound)
        elif solver.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            bound = float(info.objective_function_value)
        else:
            return -INFINITY
        return bound if np.isfinite(bound) else -INFINITY

    def _model(self, highspy: Any, scale: float) -> Any:
        rows = np.concatenate([entry[0] for entry in self._entries])
        columns = np.concatenate([entry[1] for entry in self._entries])
        factors = np.concatenate([entry[2] for entry in self._entries])
        order = np.argsort(columns, kind="stable")
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self._columns, len(self._row_low)
        model.col_cost_ = np.concatenate(self._cost) * scale
        model.col_lower_ = np.concatenate(self._low)
        model.col_upper_ = np.concatenate(self._high)
        model.row_lower_ = np.array(self._row_low)
        model.row_upper_ = np.array(self._row_high)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        starts = np.searchsorted(columns[order], np.arange(self._columns + 1))
        model.a_matrix_.start_ = starts
        model.a_matrix_.index_ = rows[order]
        model.a_matrix_.value_ = factors[order]
        if self._whole:
            kinds = [highspy.HighsVarType.kContinuous] * self._columns
            for column in np.concatenate(self._whole).tolist():
                kinds[column] = highspy.HighsVarType.kInteger
            model.integrality_ = kinds
        return model
