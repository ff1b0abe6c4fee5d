"""Scenarios of Paragon, Quasar and Tarcil on the replay engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

from apps.emulation.core.draws import SINGLE_NODE
from apps.scheduling.core.admission.arq import ArqAdmission
from apps.scheduling.core.admission.by_bucket import BucketAdmission
from apps.scheduling.core.admission.types import Applicant
from apps.scheduling.core.tarcil import encoding
from apps.testbed.core.replay.clusters import synthetic_cluster
from apps.testbed.core.replay.model import ProfileSource, ReplayOptions
from apps.testbed.core.replay.summary import Holds
from apps.testbed.core.replay.workloads import Application, workload
from apps.testbed.core.reproduction import PAPERS, paragon, quasar, tarcil
from apps.testbed.core.reproduction.figures import Relation
from apps.testbed.core.reproduction.replays import Replayed, Scenario, Variant, replayed

TRUE = ReplayOptions(profiles=ProfileSource.TRUE)


@pytest.fixture(scope="module")
def pair() -> Replayed:
    """Two jobs of one unit, the second one an hour after the first."""
    load = workload(
        "two", [Application("a", SINGLE_NODE)], np.array([0.0, 3600.0]),
        np.zeros(2, dtype=np.int64), np.array([600.0, 600.0]), units=np.ones(2, dtype=np.int64),
    )  # fmt: skip
    return replayed(Scenario(synthetic_cluster(4), load, TRUE), "least_loaded", 1)


def test_paragons_scenarios_have_the_papers_jobs_and_intervals() -> None:
    counts = {name: len(paragon.jobs_of(each, 1)) for name, each in paragon.SCENARIOS.items()}
    assert counts == {"low": 2500, "high": 5000, "over": 8500}
    gaps = np.diff(paragon.jobs_of(paragon.SCENARIOS["low"], 1).arrival_s)
    assert (gaps == 1.0).all()
    burst = np.diff(paragon.jobs_of(paragon.SCENARIOS["over"], 1).arrival_s)
    assert (burst <= 0.1 + 1e-9).sum() >= 1000
    assert paragon.jobs_of(paragon.SCENARIOS["over"], 1).arrival_s[3750] == 3750.0


def test_a_reduced_scenario_has_the_same_load_per_server() -> None:
    small = paragon.jobs_of(paragon.SCENARIOS["low"], 1, scale=10)
    assert len(small) == 250
    assert (np.diff(small.arrival_s) == 10.0).all()


def test_tarcils_cluster_is_the_papers() -> None:
    cluster = tarcil.cluster_of()
    assert (len(cluster), int(cluster.units.sum()), len(cluster.platforms)) == (400, 4178, 10)
    assert (cluster.units.min(), cluster.units.max()) == (4, 32)
    assert len(tarcil.scenario_of(1).load) == 7200


def test_reservations_have_the_papers_ratios() -> None:
    needs = np.full(20_000, 6)
    reserved = quasar.reservations(needs, np.random.default_rng(1))
    assert reserved.max() == 60
    assert reserved.min() == 1
    # a share of 20,000 draws has a deviation of at most 0.0035; ratios that round to 6 count as
    # right: ln(6.5 / 6) / ln 10 of the over- and ln(6 / 5.5) / ln 5 of the underestimates
    over = 0.7 * (1 - np.log(6.5 / 6) / np.log(10))
    under = 0.2 * (1 - np.log(6 / 5.5) / np.log(5))
    assert abs((reserved > 6).mean() - over) < 4.5 * 0.0035
    assert abs((reserved < 6).mean() - under) < 4.5 * 0.0035


def test_a_scheduler_that_needs_time_decides_one_job_after_the_other(pair: Replayed) -> None:
    load = replace(pair.load, arrival_s=np.array([10.0, 10.0]))
    scenario = Scenario(synthetic_cluster(4), load, TRUE)
    slow = Variant("slow", "least_loaded", decision_s=2.0).run(scenario, 1)
    assert slow.result.started_s.tolist() == [12.0, 14.0]
    at_once = Variant("at once", "least_loaded").run(scenario, 1)
    assert at_once.result.started_s.tolist() == [10.0, 10.0]


def test_jobs_that_start_after_a_second_or_never_have_waited(pair: Replayed) -> None:
    late = replace(pair.result, started_s=pair.result.arrived_s + np.array([0.99, 1.0]))
    assert replace(pair, result=late).waited == 50.0
    never = replace(pair.result, started_s=np.array([0.0, np.nan]))
    assert replace(pair, result=never).waited == 50.0
    assert pair.waited == 0.0


@pytest.mark.parametrize(
    ("paper", "label", "plain", "control"),
    [
        (paragon, "ARQ", "P", ArqAdmission),
        (tarcil, "tarcil-lsh", "tarcil", BucketAdmission),
    ],
    ids=["paragon", "tarcil"],
)
def test_jobs_pass_the_admission_control_of_production_or_none(
    paper: ModuleType,
    label: str,
    plain: str,
    control: type,
    monkeypatch: pytest.MonkeyPatch,
    pair: Replayed,
) -> None:
    seen: list[str] = []
    evaluate = control.evaluate  # type: ignore[attr-defined]  # both have it

    def noted(self: object, applicants: Sequence[Applicant], *args: Any) -> Any:
        seen.extend(each.request.job for each in applicants)
        return evaluate(self, applicants, *args)

    monkeypatch.setattr(control, "evaluate", noted)
    scenario = Scenario(synthetic_cluster(4), pair.load, TRUE)
    with_control = paper.VARIANTS[label].run(scenario, 1)
    assert len(seen) == len(set(seen)) == 2
    without = paper.VARIANTS[plain].run(scenario, 1)
    assert len(seen) == 2
    # an idle cluster has what each of the two needs
    assert with_control.waited == without.waited == 0.0


def test_the_most_demanding_jobs_are_those_of_the_highest_class_in_use(pair: Replayed) -> None:
    quiet, noisy = (replace(pair.truths[0], caused=np.full(10, score)) for score in (29.0, 30.0))
    load = replace(pair.load, applications=(Application("a", SINGLE_NODE),) * 2,
                   application=np.array([0, 1]))  # fmt: skip
    run = replace(pair, load=load, truths=[quiet, noisy])
    assert paragon.most_demanding(run).tolist() == [False, True]  # classes 2 and 3
    same = replace(run, truths=[quiet, quiet])
    assert paragon.most_demanding(same).tolist() == [True, True]


def test_the_peak_is_the_largest_share_of_the_units_held_at_once(pair: Replayed) -> None:
    units = int(synthetic_cluster(4).units.sum())
    assert pair.peak_share() == pytest.approx(100.0 / units)  # the jobs never meet
    load = replace(pair.load, arrival_s=np.array([0.0, 1.0]))
    both = replayed(Scenario(synthetic_cluster(4), load, TRUE), "least_loaded", 1)
    assert both.peak_share() == pytest.approx(200.0 / units)
    assert both.busiest_s() == 1.0


def test_paragons_numbers_are_those_with_arq_but_one_at_high_load() -> None:
    stated = {
        figure.number: {
            each.key: each.paper for each in figure.quantities if each.key in ("ARQ", "P")
        }
        for figure in PAPERS["paragon"].figures
    }
    assert stated == {
        "13-low": {"ARQ": 91.0, "P": None},
        "13-high": {"ARQ": 61.0, "P": 56.0},
        "13-over": {"ARQ": 52.0, "P": None},
    }


@pytest.mark.parametrize(
    ("paper", "number", "measure"),
    [
        ("paragon", "13-low", paragon.measure_of("low", 100)),
        ("quasar", "11", quasar.measure_of(100)),
        ("tarcil", "10", partial(tarcil.latencies, 0.05)),
        ("tarcil", "15", tarcil.measure_of(100)),
        ("tarcil", "17", tarcil.measure_of(100)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_quantity_of_a_figure_is_measured(
    paper: str, number: str, measure: Callable[[int, Any], Mapping[str, float]]
) -> None:
    (figure,) = PAPERS[paper].chosen(number)
    values = measure(1, cast("Any", None))  # these figures need no data
    assert {each.key for each in figure.quantities} <= values.keys()
    assert np.isfinite([values[each.key] for each in figure.quantities]).all()


def test_figure_10_has_one_to_twenty_agents_at_ten_to_ninety_percent_load() -> None:
    (figure,) = PAPERS["tarcil"].chosen("10")
    labels = {each.label for each in figure.quantities if each.unit == "ms"}
    assert labels == {
        f"mean latency, {agents} agent{'s' if agents > 1 else ''}, {load} % load"
        for agents in (1, 3, 12, 20)
        for load in (10, 30, 50, 70, 90)
    }


def test_figure_15_has_the_largest_loss_of_every_variant() -> None:
    (figure,) = PAPERS["tarcil"].chosen("15")
    worst = [each for each in figure.quantities if each.key.endswith("-worst")]
    assert [each.key for each in worst] == [f"{label}-worst" for label in tarcil.VARIANTS]
    stated = {each.key: (each.paper, each.relation) for each in worst if each.paper is not None}
    assert stated == {"tarcil-lsh-worst": (8.0, Relation.AT_MOST)}


def test_jobs_that_never_meet_have_the_quality_of_an_idle_server(pair: Replayed) -> None:
    assert pair.busiest_s() == 0.0
    # U = 1 there, so Q = 1 - (1 - T) = T
    target = np.sort(np.minimum(99, np.floor(pair.truths[0].caused + 0.5)))[::-1]
    code = float("".join(f"{int(digit):02d}" for digit in target))
    assert pair.qualities(0.0).quality.tolist() == pytest.approx([code / 1e20], abs=1e-9)
    assert pair.qualities(0.0).is_enough.tolist() == [True]
    assert pair.qualities(3000.0).quality.size == 0


def test_only_the_units_of_other_jobs_lower_the_quality_of_a_unit(pair: Replayed) -> None:
    (server,) = pair.holds.server[pair.holds.job == 0]
    alone = Holds(*(np.array([each]) for each in (server, 1, 0.0, 10.0, 0)))
    beside = replace(pair, holds=alone._replace(units=np.array([4]))).qualities(5.0)
    idle = replace(pair, holds=alone).qualities(5.0)
    assert beside.quality.tolist() == idle.quality.tolist() * 4
    assert beside.is_enough.tolist() == [True] * 4
    two = Holds(np.full(2, server), np.full(2, 4), np.zeros(2), np.full(2, 10.0), np.arange(2))
    shared = replace(pair, holds=two).qualities(5.0)
    demand = encoding.demand(pair.truths[0].caused)
    others = 4 * pair.truths[0].caused / (pair.emulated.topology.server_units[server] - 1)
    quality = encoding.quality(np.minimum(others, 100.0)[None, :], demand.order)
    close = encoding.closeness(quality, demand.target, encoding.Form.NEAREST).shares()
    assert shared.quality.tolist() == pytest.approx(close.tolist() * 8)
    assert shared.quality[0] != beside.quality[0]


def test_cores_near_the_best_platform_are_counted(pair: Replayed) -> None:
    platforms, units = pair.emulated.machines.platform, pair.emulated.topology.server_units
    speed = pair.truths[0].platform_speed[platforms]
    near = units[speed >= 0.95 * speed.max()].sum()
    assert pair.near_best_share() == pytest.approx(100.0 * near / units.sum())
    assert 0.0 < pair.near_best_share() <= 100.0


def test_the_speed_of_a_platform_is_relative_to_the_best_of_the_cluster(pair: Replayed) -> None:
    platforms = pair.emulated.machines.platform
    speed = pair.truths[0].platform_speed
    (used,) = {int(platforms[server]) for server in pair.holds.server}
    expected = speed[used] / speed[np.unique(platforms)].max()
    assert pair.platform_speed().tolist() == pytest.approx([expected] * 2)
    alone = pair.performance / pair.platform_speed()
    assert (alone <= 1.0 + 1e-9).all()


def test_useful_work_is_the_work_requested_over_the_capacity(pair: Replayed) -> None:
    units = int(synthetic_cluster(4).units.sum())
    span_s = float(pair.result.ended_s[1])
    assert pair.useful_share() == pytest.approx(100.0 * 1200.0 / (units * span_s))


def test_the_share_of_the_target_is_at_most_one_and_none_without_an_end(pair: Replayed) -> None:
    taken = pair.result.ended_s - pair.result.arrived_s
    load = replace(pair.load, target_s=np.array([taken[0] / 2, taken[1] * 2]))
    assert quasar.target_share(replace(pair, load=load)) == pytest.approx(75.0)
    late = replace(pair.result, arrived_s=pair.result.arrived_s - taken)
    waited = replace(pair, load=load, result=late)
    assert quasar.target_share(waited) == pytest.approx(62.5)
    assert quasar.target_share(waited, with_wait=False) == pytest.approx(75.0)
    ended = pair.result.ended_s.copy()
    ended[1] = np.nan
    lost = replace(pair, load=load, result=replace(pair.result, ended_s=ended))
    assert quasar.target_share(lost) == pytest.approx(25.0)


def test_reservations_are_what_the_replay_allocates() -> None:
    scenario = quasar.scenario_of(1, scale=100)
    scenario = replace(scenario, options=TRUE)
    assert scenario.reserved is not None
    run = replayed(scenario, "reservation_least_loaded", 1)
    done = np.isfinite(run.result.ended_s)
    assert done.any()
    assert (run.result.units[done] == scenario.reserved[done]).all()
    joint = replayed(scenario, "quasar", 1)
    assert (joint.result.units != run.result.units).any()


def test_more_agents_decide_a_burst_sooner() -> None:
    one, twelve = (tarcil.agents_run(agents, 0.9, 1, span_s=0.2).result for agents in (1, 12))
    # none waits for one of twelve agents: its wait is one decision, and one for each conflict
    decisions = (twelve.started_s - twelve.arrived_s) / tarcil.DECISION_S
    assert decisions == pytest.approx(np.round(decisions))
    assert (np.round(decisions) <= 1 + twelve.conflicts).all()
    waited_s = [float(np.mean(run.started_s - run.arrived_s)) for run in (one, twelve)]
    assert waited_s[0] > 1.5 * waited_s[1]


@pytest.mark.parametrize("name", ["paragon", "quasar", "tarcil"])
def test_every_figure_of_a_replay_has_a_reduced_size(name: str) -> None:
    figures = PAPERS[name].reduced().figures
    assert all(figure.title.endswith("(reduced)") for figure in figures)
    assert all(full.small is figure.measure for full, figure in zip(
        PAPERS[name].figures, figures, strict=True
    ))  # fmt: skip


@pytest.mark.parametrize("name", ["paragon", "quasar", "tarcil"])
def test_a_number_of_the_paper_has_a_reason_for_a_difference(name: str) -> None:
    for figure in PAPERS[name].figures:
        assert all(each.why for each in figure.quantities if each.paper is not None)
