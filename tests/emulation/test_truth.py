import numpy as np
import pytest

from apps.common.core.interference import N_SOURCES
from apps.emulation.core.draws import KINDS, application_truth
from apps.emulation.core.platforms import catalogue
from apps.emulation.core.truth import (
    BLOCK_BYTES,
    FLOOR,
    Curves,
    Framework,
    UniversalScaling,
    interference_factor,
    unit_pressure,
)
from apps.inventory.core.demo import PLATFORMS, platform_counts
from apps.workloads.core.framework import DEFAULT_SETTING, SETTINGS, Setting
from tests.emulation.worlds import all_platforms


def test_same_seed_name_and_kind_give_the_same_truth() -> None:
    first = application_truth(7, "sort", "analytics", all_platforms())
    second = application_truth(7, "sort", "analytics", all_platforms())
    assert np.array_equal(first.platform_speed, second.platform_speed)
    assert np.array_equal(first.caused, second.caused)
    assert (first.bytes_per_s, first.scale_up, first.demand) == (
        second.bytes_per_s,
        second.scale_up,
        second.demand,
    )


@pytest.mark.parametrize(
    ("seed", "name", "kind"),
    [(8, "sort", "analytics"), (7, "grep", "analytics"), (7, "sort", "batch")],
)
def test_another_seed_name_or_kind_gives_another_truth(seed: int, name: str, kind: str) -> None:
    first = application_truth(7, "sort", "analytics", all_platforms())
    second = application_truth(seed, name, kind, all_platforms())
    assert not np.array_equal(first.caused, second.caused)


def test_a_truth_has_the_same_numbers_in_every_process() -> None:
    sort = application_truth(2011, "sort", "analytics", all_platforms())
    assert sort.caused[0] == pytest.approx(48.07185016268026, abs=1e-9)


def test_adding_a_platform_changes_nothing_else() -> None:
    few = application_truth(7, "sort", "analytics", catalogue(["cr1.8xlarge"], seed=7))
    more = application_truth(7, "sort", "analytics", catalogue(["cr1.8xlarge", "new"], seed=7))
    assert few.bytes_per_s == more.bytes_per_s
    assert np.array_equal(few.tolerated, more.tolerated)
    assert more.platform_speed[0] == few.platform_speed[0] == 1.0


def test_refuses_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="analytics, latency_critical"):
        application_truth(7, "sort", "hadoop", all_platforms())


@pytest.mark.parametrize("kind", KINDS)
def test_every_draw_is_in_its_documented_range(kind: str) -> None:
    truths = [application_truth(3, f"app-{i}", kind, all_platforms()) for i in range(200)]
    caused = np.array([t.caused for t in truths])
    tolerated = np.array([t.tolerated for t in truths])
    block_s = BLOCK_BYTES / np.array([t.bytes_per_s for t in truths])
    assert caused.min() >= 0.0
    assert caused.max() <= 100.0
    assert tolerated.min() >= 1.0
    assert tolerated.max() <= 100.0
    assert block_s.min() >= 30.0
    assert block_s.max() <= 150.0
    assert np.corrcoef(caused.ravel(), tolerated.ravel())[0, 1] < -0.85


def test_few_factors_explain_most_of_the_platform_speeds() -> None:
    truths = [application_truth(3, f"app-{i}", "batch", all_platforms()) for i in range(200)]
    logs = np.log([t.platform_speed for t in truths])
    values = np.linalg.svd(logs - logs.mean(axis=0), compute_uv=False) ** 2
    assert values[:3].sum() / values.sum() > 0.98


def test_performance_is_exactly_95_percent_at_the_tolerated_pressure() -> None:
    pressure, tolerated = np.zeros(N_SOURCES), np.full(N_SOURCES, 100.0)
    pressure[3], tolerated[3] = 42.0, 42.0
    assert interference_factor(pressure, tolerated) == pytest.approx(0.95, abs=1e-12)


def test_performance_never_rises_with_pressure_and_stops_at_the_floor() -> None:
    pressure = np.linspace(0.0, 100.0, 201)[:, None] * np.ones(N_SOURCES)
    factor = interference_factor(pressure, np.full(N_SOURCES, 30.0))
    assert np.all(np.diff(factor) <= 0.0)
    assert factor[0] == 1.0
    assert factor[-1] == FLOOR


def test_a_score_of_100_never_costs_more_than_5_percent() -> None:
    pressure = np.zeros(N_SOURCES)
    pressure[0] = 100.0
    assert interference_factor(pressure, np.full(N_SOURCES, 100.0)) >= 0.95 - 1e-12


def test_above_the_tolerated_pressure_performance_falls_to_the_plateau() -> None:
    curves = Curves(
        knee=np.full(N_SOURCES, 1.0),
        decay=np.full(N_SOURCES, 2.0),
        plateau=np.full(N_SOURCES, 0.6),
        floor=0.15,
    )
    pressure, tolerated = np.zeros((5, N_SOURCES)), np.full(N_SOURCES, 40.0)
    pressure[:, 3] = [0.0, 20.0, 40.0, 42.0, 100.0]
    factor = interference_factor(pressure, tolerated, curves)
    assert factor == pytest.approx([1.0, 0.975, 0.95, 0.6 + 0.35 / np.e, 0.6])


def test_pressure_is_the_mean_over_the_other_units() -> None:
    total, own = np.full(N_SOURCES, 90.0), np.full(N_SOURCES, 30.0)
    assert unit_pressure(total, own, 4) == pytest.approx(np.full(N_SOURCES, 20.0))
    assert np.array_equal(unit_pressure(total, own, 1), np.zeros(N_SOURCES))


def test_scaling_without_coherency_is_amdahl() -> None:
    serial = 0.1
    law = UniversalScaling(contention=serial, coherency=0.0)
    assert law.speed_up(8) == pytest.approx(1.0 / (serial + (1.0 - serial) / 8.0))
    assert law.speed_up(1) == 1.0


def test_unknown_platforms_are_the_same_hardware_in_every_cluster() -> None:
    first = catalogue(["cr1.8xlarge", "mine"], seed=5)
    second = catalogue(["mine", "cr1.8xlarge"], seed=5, reference=1)
    assert np.array_equal(first.capacity[1], second.capacity[0])


@pytest.mark.parametrize("servers", [1, 13, 14, 600, 1000, 6000])
def test_platform_counts_add_up(servers: int) -> None:
    assert sum(platform_counts(servers)) == servers


def test_a_thousand_servers_equal_the_published_table() -> None:
    assert platform_counts(1000) == [facts.count for facts in PLATFORMS]
    assert sum(facts.count * facts.cores for facts in PLATFORMS) == 7355


def framework(**facts: float) -> Framework:
    """Framework whose tasks wait half of the time; settings have no other effect unless given."""
    plain = {
        "busy": 0.5,
        "crowding_cost": 0.0,
        "working_set_bytes": 1.0,
        "spill_cost": 0.0,
        "compression_saving": 0.0,
        "compression_cost": 0.0,
    }
    return Framework(**(plain | facts))


def setting(tasks: int = 1, heap_gb: float = 1.0, *, compressed: bool = False) -> Setting:
    return Setting(tasks, round(heap_gb * 1e9), is_compressed=compressed)


@pytest.mark.parametrize("name", ["sort", "grep", "join"])
def test_the_default_setting_changes_nothing(name: str) -> None:
    framework_truth = application_truth(7, name, "analytics", all_platforms()).framework
    assert framework_truth is not None
    assert framework_truth.speed(DEFAULT_SETTING) == 1.0
    assert all(0.05 < framework_truth.speed(setting) < 8.0 for setting in SETTINGS)


@pytest.mark.parametrize("kind", ["latency_critical", "single_node", "batch"])
def test_only_analytics_frameworks_have_settings(kind: str) -> None:
    assert application_truth(7, "x", kind, all_platforms()).framework is None


def test_a_second_task_works_while_the_first_waits() -> None:
    assert framework().speed(setting(2)) == pytest.approx(2.0)
    assert framework(busy=0.8).speed(setting(2)) == pytest.approx(1 / 0.8)
    assert framework().speed(setting(4)) == pytest.approx(2.0)  # the core is busy at two


def test_tasks_that_share_a_core_slow_each_other() -> None:
    assert framework(crowding_cost=0.1).speed(setting(4)) == pytest.approx(2.0 / 1.3)


def test_each_halving_of_the_heap_below_the_working_set_costs_its_share() -> None:
    small = framework(working_set_bytes=1e9, spill_cost=0.2)
    assert small.speed(setting(heap_gb=0.5)) == pytest.approx(1 / 1.2)
    assert small.speed(setting(heap_gb=2.0)) == pytest.approx(1.0)
    large = framework(working_set_bytes=2e9, spill_cost=0.2)
    assert large.speed(setting(heap_gb=2.0)) == pytest.approx(1.2)


def test_compression_saves_waiting_and_costs_work() -> None:
    speed = framework(compression_saving=0.4, compression_cost=0.1).speed(setting(compressed=True))
    assert speed == pytest.approx(1.0 / (0.5 * 1.1 + 0.5 * 0.6))
