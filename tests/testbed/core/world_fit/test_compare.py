"""Intervals, the fit and the report, on measurements drawn from a world with known parameters."""

from dataclasses import replace

import numpy as np
import pytest

from apps.emulation.core.worlds import MEASURED, PAPER
from apps.emulation.core.worlds.measured import MeasuredWorld
from apps.emulation.core.worlds.parameters import LogNormal
from apps.testbed.core.world_fit import compare, fit, report, source
from apps.testbed.core.world_fit.groups import GROUPS, Group

LIKE = {
    "heterogeneity batch": np.zeros((15, 1, 20)),
    "scale-up": np.zeros((10, 4, 2)),
    "scale-out": np.zeros((12, 5)),
    "slowdown": np.zeros((12, 1, 6)),
    "caused and sensitivity, CPU": np.tile(np.arange(60.0)[:, None, None] % 3, (1, 1, 2)),
    "noise": np.zeros((60, 1)),
    "servers": np.zeros((60, 1, 2)),
    "tasks": np.zeros((60, 40)),
    "service capacity": np.zeros((30, 1, 6)),
    "service latency": np.zeros((30, 1, 4)),
}


def group_named(name: str) -> Group:
    return next(group for group in GROUPS if group.name == name)


def measurements(world: MeasuredWorld, group: Group, seed: int = 3) -> np.ndarray:
    return np.array(group.simulate(world, group.kind, LIKE[group.name], seed))


SAME = {"servers", "slowdown", "service latency", "service capacity"}


# of servers every test has the same figures; the slowdowns of all sources err together
@pytest.mark.parametrize("name", [name for name in LIKE if name not in SAME])
def test_a_world_is_inside_the_interval_of_its_own_measurements(name: str) -> None:
    group = group_named(name)
    values = measurements(MEASURED, group)
    found = compare.compared(group, (values, values[:2]), [MEASURED], 5)
    assert [f.figure for f in found] == list(group.figures)
    inside = sum(f.held_in.has(f.worlds["measured"]) for f in found)
    assert inside >= len(found) - 1 - (len(found) > 4)  # intervals of 90 %
    assert all(f.held_out is None for f in found)  # two applications have no interval


@pytest.mark.parametrize(
    "name",
    [
        "heterogeneity batch",
        "caused and sensitivity, CPU",
        "noise",
        "servers",
        "tasks",
        "service capacity",
        "service latency",
    ],
)
def test_the_paper_world_is_outside(name: str) -> None:
    group = group_named(name)
    found = compare.compared(group, (measurements(MEASURED, group),) * 2, [PAPER], 5)
    assert not all(f.held_in.has(f.worlds["paper"]) for f in found)


def test_an_interval_contains_its_figure() -> None:
    group = group_named("noise")
    values = np.random.default_rng(1).normal(-4.0, 1.0, (50, 1))
    mean, deviation = compare.bootstrap(group, values, np.random.default_rng(2))
    assert mean.low < mean.value < mean.high
    assert mean.high - mean.low == pytest.approx(2 * 1.645 / np.sqrt(50), rel=0.3)
    assert deviation.has(values.std())


def test_the_fit_recovers_the_parameters_of_a_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "EVALUATIONS", 5)
    true = replace(MEASURED.fitted, noise=LogNormal(-4.0, 0.5))
    group = group_named("noise")
    values = group.simulate(MeasuredWorld(true), group.kind, np.zeros((60, 1)), 3)
    first, place = fit.FREE[group.name]
    found = fit.fit_group(group, values, fit.START, first, place).noise
    assert found.mean == pytest.approx(-4.0, abs=0.3)
    assert found.deviation == pytest.approx(0.5, abs=0.2)
    assert fit.START.noise != found


def test_the_module_text_evaluates_to_the_parameters() -> None:
    text = source.module_text(MEASURED.fitted, {"gavel/pairs.csv.gz": "0" * 64})
    names: dict[str, object] = {}
    exec(compile(text, "fitted.py", "exec"), names)  # noqa: S102 - our own text
    assert names["FITTED"] == MEASURED.fitted
    assert names["DATA"] == {"gavel/pairs.csv.gz": "0" * 64}


def test_a_figure_outside_its_interval_is_named() -> None:
    figure = compare.ComparedFigure(
        "noise", "mean", compare.Interval(1.0, 0.9, 1.1), None, {"measured": 1.2, "paper": 1.0}, {}
    )
    group = report.GroupReport(group_named("noise"), (figure,), {})
    found = report.WorldReport((group,))
    assert found.outside() == [figure]
    assert found.outside("paper") == []
    assert "NO" in report.as_text(found)
    assert report.as_json(found, {})["outside"] == ["noise: mean"]
