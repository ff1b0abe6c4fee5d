"""Effect of choosing the measured columns: error with 2, 3, 4 cells chosen by each design.

Columns are chosen from the rows of the training applications only; the default estimator then
fills the rest of the held-out applications' rows. On the sets ``live.*`` of the emulated library
the cell of the reference column, which the first run measures anyway, is one of the entries.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.design import A_OPTIMAL, FIXED, INFORMATIVE, RANDOM, choose
from apps.classification.core.estimators import DEFAULT, ESTIMATORS, Model
from apps.classification.core.matrix import MatrixName
from apps.classification.core.ranking import REFERENCED
from apps.inventory.core.snapshot import Bools, Floats
from benchmarks._compare import overall, ratio
from benchmarks._datasets import READERS
from benchmarks._generated import Size, roofline_case
from benchmarks._held_out import Case, Scores, cases, scores
from benchmarks._world import CURVES, world

DESIGNS: Final = (RANDOM, FIXED, A_OPTIMAL, INFORMATIVE)
ENTRIES: Final = (2, 3, 4)
SEEDS: Final = 3
GENERATED: Final = ((20, 10), (30, 10), (400, 10), (30, 40))  # dense rows, columns
GENERATED_ROWS: Final = 150
LIVE: Final = "live"
ALL: Final = "all real sets"
TIMED_ROWS, TIMED_COLUMNS = 1000, 100
# design and entries of ours, and of theirs
PAIRS: Final = (
    *((design, k, RANDOM, k) for design in (FIXED, A_OPTIMAL, INFORMATIVE) for k in ENTRIES),
    (INFORMATIVE, 2, RANDOM, 3),
    (INFORMATIVE, 2, RANDOM, 4),
)


@dataclass(frozen=True, slots=True)
class Line:
    """Default estimator, one design; shares. ``whole_row`` counts measured cells as error 0."""

    part: str
    entries: int
    design: str
    rows: int
    error: float
    whole_row: float
    covered: float

    def __str__(self) -> str:
        head = f"{self.part:<29} {self.entries} entries  {self.design:<12}"
        errors = f"avg {self.error:6.1%}  whole row {self.whole_row:6.1%}"
        return f"{head} {errors}  covered {self.covered:4.0%}"


@dataclass(frozen=True, slots=True)
class Gain:
    """Error of one design over that of another: below 1 the first is better.

    ``whole_row`` is the same ratio with measured cells counted as error 0, which favours the
    design with more measurements.
    """

    where: str
    ours: str
    theirs: str
    ratio: float
    low: float
    high: float
    whole_row: float

    def __str__(self) -> str:
        what = f"{self.where:<18} {self.ours:<13} / {self.theirs:<8}"
        interval = f"[{self.low:.3f}, {self.high:.3f}]"
        return f"{what} {self.ratio:.3f} {interval}  whole row {self.whole_row:.3f}"


class ProbedCase(NamedTuple):
    """A case, its fitted estimator, and the (m,) columns every row has measured before."""

    case: Case
    model: Model
    already: Bools


Results = dict[tuple[str, int, str], tuple[Line, Scores]]


def probing(
    sets: Sequence[str], data: Path | None, seed: int, *, quiet: bool
) -> dict[str, object]:
    """Measure, and print unless ``quiet``: lines, then ratios to random cells, then the speed."""
    lines: list[Line] = []
    results: Results = {}
    for part, probed_cases in _parts(sets, data, seed):
        for line, scored in _measured(part, probed_cases, seed):
            lines.append(line)
            results[part, line.entries, line.design] = line, scored
            _say(line, quiet)
    ratios = [gain for pair in PAIRS for gain in _gains(results, pair, seed)]
    for gain in ratios:
        _say(gain, quiet)
    speed = choice_ms(seed)
    for name, spent in speed.items():
        _say(f"2 of {TIMED_COLUMNS} columns, {TIMED_ROWS} rows, {name}: {spent:.1f} ms", quiet)
    return {
        "probing": {
            "lines": [asdict(line) for line in lines],
            "ratios": [asdict(gain) for gain in ratios],
            "choice_ms": speed,
        }
    }


def choice_ms(seed: int) -> dict[str, float]:
    """Milliseconds to choose two columns of a large library, at the first and a repeated call."""
    case, _ = roofline_case(Size(TIMED_ROWS, 0, TIMED_COLUMNS), 1, 2, seed)
    scores = {}
    for name in ("first", "again"):
        began = time.perf_counter()
        _choose(case, 2, INFORMATIVE, np.ones(TIMED_COLUMNS, np.bool_), np.random.default_rng(0))
        scores[name] = (time.perf_counter() - began) * 1e3
    return scores


def _say(what: object, quiet: bool) -> None:
    if not quiet:
        sys.stdout.write(f"{what}\n")
        sys.stdout.flush()


def _parts(
    sets: Sequence[str], data: Path | None, seed: int
) -> Iterator[tuple[str, list[ProbedCase]]]:
    for name in sets:
        if name in READERS:
            if data is None or not (data / name).is_dir():
                raise SystemExit(f"--data must hold a folder {name}")
            for block in READERS[name](data):
                max_entries = max(k for k in ENTRIES if len(block.columns) >= k + 2)
                held_out = [
                    case
                    for draw in range(SEEDS)
                    for case in cases(
                        block, max_entries, np.random.default_rng([seed + draw, max_entries])
                    )
                ]
                yield block.name, [_probed_case(case) for case in held_out]
        elif name == "emulated":
            yield from _emulated(seed)
        elif name == "generator":
            for dense, columns in GENERATED:
                drawn = [
                    roofline_case(Size(dense, 0, columns), GENERATED_ROWS, 4, seed + draw).case
                    for draw in range(SEEDS)
                ]
                yield f"generator.{dense}x{columns}", [_probed_case(case) for case in drawn]
        else:
            raise SystemExit(f"--sets must be among {', '.join(READERS)}, emulated, generator")


def _emulated(seed: int) -> Iterator[tuple[str, list[ProbedCase]]]:
    for matrix in CURVES:
        held_out = [_emulated_case(matrix, seed + draw) for draw in range(SEEDS)]
        yield f"emulated.{matrix.value}", [_probed_case(case) for case in held_out]
        if matrix in REFERENCED:
            first = np.arange(held_out[0].truth.shape[1]) == 0
            yield f"{LIVE}.{matrix.value}", [_probed_case(case, first) for case in held_out]


def _emulated_case(matrix: MatrixName, seed: int) -> Case:
    """Observed with the noise of a profiling run, compared with the hidden truth."""
    cluster = world(seed)
    dense, truth = cluster.library.matrices[matrix].values, cluster.truth(matrix)
    return Case(
        dense,
        np.arange(len(dense)),
        truth,
        cluster.observed(matrix),
        np.zeros(truth.shape, np.bool_),
        np.arange(len(truth)),
        matrix.scale,
    )


def _probed_case(case: Case, already: Bools | None = None) -> ProbedCase:
    model = ESTIMATORS[DEFAULT].fit(case.library, scale=case.scale, groups=case.groups)
    return ProbedCase(
        case, model, np.zeros(case.truth.shape[1], np.bool_) if already is None else already
    )


def _measured(
    part: str, probed_cases: Sequence[ProbedCase], seed: int
) -> Iterator[tuple[Line, Scores]]:
    columns = min(probed.case.truth.shape[1] for probed in probed_cases)
    for k in ENTRIES:
        if columns < k + 2:
            continue
        for design in DESIGNS:
            rng = np.random.default_rng([seed, k])
            known_cells = [given_cells(probed, k, design, rng) for probed in probed_cases]
            parts = [
                _scored(probed, known)
                for probed, known in zip(probed_cases, known_cells, strict=True)
            ]
            scored = Scores(*(np.concatenate(column) for column in zip(*parts, strict=True)))
            left = np.concatenate(
                [
                    _unknown_share(probed.case.truth, known)
                    for probed, known in zip(probed_cases, known_cells, strict=True)
                ]
            )
            line = Line(
                part,
                k,
                design,
                scored.error.size,
                float(scored.error.mean()),
                float((scored.error * left).mean()),
                float(scored.covered.mean()),
            )
            yield line, scored


def given_cells(probed: ProbedCase, k: int, design: str, rng: np.random.Generator) -> Bools:
    """(q, m) True at k measured cells of each row: those measured before, and those chosen."""
    case, already = probed.case, probed.already
    # a probe that did not decide has measured nothing
    known = already & ~np.isnan(case.observed)
    chosen: dict[bytes, list[int]] = {}
    for row, measurable in enumerate(~np.isnan(case.truth) & ~np.isnan(case.observed)):
        pattern = measurable.tobytes()
        if design == RANDOM or pattern not in chosen:
            more = min(k - int(already.sum()), int((measurable & ~already).sum()))
            chosen[pattern] = _choose(case, more, design, measurable, rng, already)
        known[row, chosen[pattern]] = True
    return known


def _choose(
    case: Case,
    k: int,
    design: str,
    measurable: Bools,
    rng: np.random.Generator,
    already: Bools | None = None,
) -> list[int]:
    return choose(
        case.library,
        k,
        scale=case.scale,
        method=design,
        allowed=measurable,
        already=already,
        groups=case.groups,
        rng=rng,
    ).tolist()


def _scored(probed: ProbedCase, known: Bools) -> Scores:
    case = probed.case
    answer = probed.model.fold(np.where(known, case.observed, 1.0), known)
    answered = Case(
        case.library,
        case.groups,
        case.truth,
        case.observed,
        known,
        case.applications,
        case.scale,
    )
    return scores(answered, answer)


def _unknown_share(truth: Floats, known: Bools) -> Floats:
    """(q,) share of the measurable cells of each row that are not known."""
    there = ~np.isnan(truth)
    return (there & ~known).sum(axis=1) / there.sum(axis=1)


def _gains(results: Results, pair: tuple[str, int, str, int], seed: int) -> Iterator[Gain]:
    """Ratios by set, and their geometric mean over the real sets."""
    ours, more = (pair[1], pair[0]), (pair[3], pair[2])
    parts = [p for p, *what in results if tuple(what) == ours and (p, *more) in results]
    pairs = {p: (results[p, *ours], results[p, *more]) for p in parts}
    by_set: dict[str, list[str]] = {}
    for part in parts:
        by_set.setdefault(part.split(".")[0], []).append(part)
    comparisons = {
        name: ratio(
            name,
            "",
            [(pairs[p][0][1], pairs[p][1][1]) for p in members],
            np.random.default_rng(seed),
        )
        for name, members in by_set.items()
    }
    whole = {
        name: _geometric([pairs[p][0][0].whole_row / pairs[p][1][0].whole_row for p in members])
        for name, members in by_set.items()
    }
    summaries = {name: comparison.summary for name, comparison in comparisons.items()}
    real = [name for name in comparisons if name in READERS]
    if real:
        summaries[ALL] = overall(ALL, "", [comparisons[name] for name in real])
        whole[ALL] = _geometric([whole[name] for name in real])
    what = f"{ours[1]} {ours[0]}", f"{more[1]} {more[0]}"
    for name, comparison in summaries.items():
        yield Gain(name, *what, comparison.ratio, comparison.low, comparison.high, whole[name])


def _geometric(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))
