"""Options of the comparison of policies."""

import json
import math
from argparse import ArgumentTypeError
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.emulation.core.draws import BATCH, SINGLE_NODE
from apps.emulation.core.truth import (
    KNEE_POWER,
    PAPER_CURVES,
    Phases,
    Truth,
    UniversalScaling,
)
from apps.emulation.core.worlds import world_named
from apps.scheduling.core.patience import MAX_PATIENCE_S
from apps.scheduling.core.registry import DEFAULT
from apps.testbed.core.demo_cluster import DemoCluster, demo_cluster
from benchmarks._policy_measures import Isolation, Stay, neighbours_losses
from benchmarks._policy_tables import PolicyRow, Run, as_json, leads, nearest, runs_in, table
from benchmarks._results import load
from benchmarks.policies import Cell, arrivals, main, names, result_name, row


def test_policies_are_read_in_their_order() -> None:
    assert names("tarcil,expected") == ["tarcil", "expected"]


def test_an_unknown_policy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ArgumentTypeError, match=r"'best'.*expected, "):
        names("tarcil,best")


def test_parameters_follow_the_name_of_a_policy() -> None:
    both = "expected,expected:kept=0.5:width=0.05"
    assert names(both) == ["expected", "expected:kept=0.5:width=0.05"]
    assert result_name(names(both), "one") == "policies-parameters"
    world, cell = demo_cluster(20, 1), a_cell(0.9)
    jobs = arrivals(world, 0.9, np.random.default_rng(1))
    default, without = (
        row(world, jobs, cell, policy) for policy in ("expected:spread=2.5", "expected:spread=0")
    )
    assert default.overall == row(world, jobs, cell, "expected").overall != without.overall


def test_only_expected_lets_jobs_wait_for_better_units() -> None:
    world, patient = demo_cluster(20, 1, world_named("measured")), a_cell(1.1)
    jobs = arrivals(world, 1.1, np.random.default_rng(1))
    for policy, differs in (("expected", True), ("least_loaded", False)):
        waited = row(world, jobs, patient, policy)
        at_once = row(world, jobs, patient._replace(patience_s=0.0), policy)
        assert (waited != at_once) is differs
        assert waited.mean > at_once.mean or not differs


def a_cell(load: float) -> Cell:
    return Cell("paper", 20, load, 1, "one", MAX_PATIENCE_S, (), ())


def test_the_number_of_processes_changes_no_result(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = [*SMALL, "--seeds", "1-2", "--policies", "expected,random", "--json"]
    answers = []
    for processes in ("1", "2"):
        assert main([*chosen, "--processes", processes]) == 0
        answers.append(capsys.readouterr())
    assert answers[0] == answers[1]
    assert len(json.loads(answers[0].out)["rows"]) == 4


SMALL = ("--servers", "10", "--world", "paper", "--profiles", "true", "--loads", "0.3,0.6")


def run_small(folder: Path, *more: str) -> None:
    options = [*SMALL, "--seeds", "1-2", "--processes", "1", "--results", str(folder), *more]
    assert main(options) == 0


def test_an_update_replaces_the_runs_of_some_policies(tmp_path: Path) -> None:
    run_small(tmp_path, "--policies", "expected,random,tarcil", "--name", "policies")
    known = load("policies", tmp_path)
    older = {**known, "commit": "before"}
    for figure in older["figures"]:
        figure["overall"] = 0.0
        del figure["commit"]
    (tmp_path / "policies.json").write_text(json.dumps(older))
    run_small(tmp_path, "--policies", "random,roomiest", "--update")
    found = load("policies", tmp_path)
    order = ["expected", "random", "tarcil", "roomiest"]
    assert found["arguments"] == {**known["arguments"], "policies": order}
    figures = found["figures"]
    is_new = {
        each["policy"]: (each["overall"] > 0.0, each["commit"] != "before") for each in figures
    }
    assert is_new == dict.fromkeys(("expected", "tarcil"), (False, False)) | dict.fromkeys(
        ("random", "roomiest"), (True, True)
    )
    assert len(figures) == 4 * 4
    _, *rows = found["tables"]["policies"]
    assert [row[3] for row in rows] == [f"`{name}`" for name in order] * 2
    assert [row[3] for row in found["tables"]["nearest"][1:]] == ["`roomiest`"] * 2


def test_an_update_with_other_settings_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_small(tmp_path, "--policies", "random", "--name", "policies")
    assert load("policies", tmp_path)["tables"].keys() == {"policies"}
    with pytest.raises(SystemExit):
        run_small(tmp_path, "--policies", "random", "--update", "--seeds", "3")
    assert "seeds of the stored result is [1, 2], got [1, 2, 3]" in capsys.readouterr().err


def test_an_update_of_a_result_that_is_not_stored_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run_small(tmp_path, "--policies", "random", "--update", "--name", "nope")
    assert "--update: there is no stored result nope" in capsys.readouterr().err


def test_less_than_one_process_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--processes", "0"])
    assert "--processes must be 1 or more, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["expected:keep=0.5", "expected:kept=-1", "expected:kept"])
def test_a_parameter_that_is_not_accepted_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text):
        names(text)


def one_run(seed: int, policy: str, overall: float, share: float) -> Run:
    found = PolicyRow(0.5, policy, 0.9, 0.8, 0.7, share, overall, 0.25, 0.125, 20.0, 300.5)
    return Run("paper", "inferred", seed, found)


def test_the_json_of_one_seed_has_no_interval() -> None:
    runs = [Run("paper", "true", 1, PolicyRow(0.5, name, *[0.9] * 9)) for name in (DEFAULT, "a")]
    rows: Any = as_json(runs)["rows"]
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    assert [row["lead"] for row in rows] == [None, {"overall": [0, None], "at_095": [0, None]}]


def test_the_json_has_the_two_measures_by_world_profiles_load_and_policy() -> None:
    runs = [
        one_run(1, "expected", 0.8, 0.5),
        one_run(1, "random", 0.3, 0.125),
        one_run(2, "expected", 0.6, 0.25),
        one_run(2, "random", 0.5, 0.125),
    ]
    key = {"world": "paper", "profiles": "inferred", "load": 0.5}
    answer: dict[str, Any] = as_json(runs)
    assert answer.keys() == {"default", "rows"}
    assert answer["default"] == DEFAULT
    expected, other = answer["rows"]
    assert expected == {
        **key,
        "policy": "expected",
        "seeds": [1, 2],
        "overall": pytest.approx(0.7),
        "at_095": 0.375,
        "targets_met": 0.25,
        "neighbours_loss": 0.125,
        "mean_wait_s": 20.0,
        "longest_wait_s": 300.5,
        "lead": None,
    }
    assert (other["policy"], other["overall"], other["at_095"]) == ("random", 0.4, 0.125)
    # differences 0.5 and 0.1: half of the interval is t(0.95, 1) = 6.314 times sd / sqrt 2 = 0.2
    assert other["lead"]["overall"] == pytest.approx([0.3, 1.2628], rel=1e-4)
    assert other["lead"]["at_095"] == pytest.approx([0.25, 0.78922], rel=1e-4)


def test_the_table_shows_waits_in_whole_seconds() -> None:
    names, cells = table([one_run(1, "expected", 0.8, 0.5), one_run(2, "expected", 0.6, 0.5)])
    shown = dict(zip(names, cells, strict=True))
    assert shown["overall"].startswith("0.700 ± ")
    assert (shown["mean wait, s"], shown["longest wait, s"]) == ("20 ± 0", "300 ± 0")


def test_the_nearest_rival_has_the_smallest_lead_of_the_default_on_a_measure() -> None:
    runs = [
        one_run(1, "expected", 0.8, 0.5),
        one_run(1, "random", 0.3, 0.625),
        one_run(1, "tarcil", 0.7, 0.25),
    ]
    _, found = nearest(runs)
    assert found[:3] == ["paper", "inferred", "0.50"]
    assert (found[3], found[4][:7], found[5], found[6][:7]) == (
        *("`tarcil`", "+0.1000"),
        *("`random`", "-0.1250"),
    )


@pytest.mark.parametrize("name", ["policies", "policies-many", "policies-some"])
def test_the_stored_leads_are_those_of_the_stored_runs(name: str) -> None:
    stored = load(name)
    assert nearest(runs_in(stored["figures"])) == stored["tables"]["nearest"]


def test_there_is_no_lead_without_the_default() -> None:
    assert leads([one_run(1, "random", 0.3, 0.1)]) == {}


TOLERATED = 50.0


def an_application(caused: float, world: DemoCluster) -> Truth:
    """An application that tolerates 50 of each source, at full speed on every platform."""
    drawn = world.world.application_truth(1, "app", BATCH, world.machines.platforms)
    return replace(
        drawn,
        tolerated=np.full(10, TOLERATED),
        caused=np.array([caused] + [0.0] * 9),
        curves=PAPER_CURVES,
        rack_loss=0.0,
        is_in_step=False,
    )


def test_a_start_costs_its_neighbours_what_its_pressure_takes_from_their_speed() -> None:
    world = demo_cluster(10, 1)
    loud, quiet = an_application(80.0, world), an_application(0.0, world)
    units = np.array([5, 3], dtype=np.int32)
    stays = [
        Stay(0.0, 100.0, {0: 1}, quiet),
        Stay(1.0, 100.0, {0: 1, 1: 1}, quiet),  # half of it is elsewhere
        Stay(2.0, 100.0, {0: 2}, loud),  # two of four other units: a pressure of 40
        Stay(100.0, 101.0, {0: 1}, loud),  # all others have ended
    ]
    slowdown = 0.05 * (40.0 / TOLERATED) ** KNEE_POWER
    losses = neighbours_losses(stays, units)
    assert losses.tolist() == pytest.approx([0.0, 0.0, 1.5 * slowdown, 0.0])


def test_later_pressure_is_relative_to_the_speed_before_it() -> None:
    world = demo_cluster(10, 1)
    loud, quiet = an_application(100.0, world), an_application(0.0, world)
    stays = [Stay(float(n), 100.0, {0: 1}, each) for n, each in enumerate((quiet, loud, loud))]
    _, first, second = neighbours_losses(stays, np.array([5], dtype=np.int32)).tolist()
    at = [1.0 - 0.05 * (pressure / TOLERATED) ** KNEE_POWER for pressure in (0.0, 25.0, 50.0)]
    assert first == pytest.approx(1.0 - at[1])
    # the second one also slows the first loud job down: from no pressure to 25
    assert second == pytest.approx(1.0 - at[2] / at[1] + 1.0 - at[1])


def test_run_times_alone_follow_work_units_and_speed() -> None:
    world = demo_cluster(100, 1)
    drawn = an_application(0.0, world)
    linear = UniversalScaling(0.0, 0.0)
    scores = np.zeros((1, 10))
    steady = Phases(np.zeros(1), np.ones(1), scores, scores, math.inf)
    speed = np.linspace(0.4, 1.0, drawn.platform_speed.size)
    truth = replace(drawn, scale_up=linear, scale_out=linear, phases=steady, platform_speed=speed)
    alone = Isolation(world)
    fastest = alone.fastest(truth, 2)
    best = float(speed[world.topology.server_platform].max())
    assert {float(speed[world.topology.server_platform[s]]) for s in fastest} == {best}
    assert sum(fastest.values()) == 2
    assert alone.run_s(truth, 60.0, fastest) == pytest.approx(30.0 / best)
    assert alone.run_s(truth, 60.0, {0: 1}) == pytest.approx(
        60.0 / float(speed[world.topology.server_platform[0]])
    )
    by_unit = np.repeat(speed[world.topology.server_platform], world.topology.server_units)
    assert alone.target_s(truth, 30.0 / best) == pytest.approx(30.0 / np.median(by_unit) / 0.95)


def test_jobs_of_many_units_use_the_same_share_and_single_node_ones_have_one() -> None:
    world = demo_cluster(50, 1)
    jobs = arrivals(world, 0.5, np.random.default_rng(1), "many")
    sizes = np.array([job.request.units for job in jobs])
    single = np.array([job.truth.kind == SINGLE_NODE for job in jobs])
    assert set(sizes[single].tolist()) == {1}
    assert set(sizes[~single].tolist()) == {1, 2, 4, 8}
    work = sum(job.work_s for job in arrivals(world, 0.5, np.random.default_rng(1)))
    assert sum(job.work_s for job in jobs) == pytest.approx(work, rel=0.15)
    assert all(job.request.gang for job in jobs)


def test_a_run_of_many_units_measures_each_job_once() -> None:
    world = demo_cluster(20, 1)
    jobs = arrivals(world, 0.5, np.random.default_rng(1), "many")
    found = row(world, jobs, a_cell(0.5), "expected")
    assert 0.0 < found.mean <= 1.0 + 1e-9
    assert 0.0 < found.overall <= 1.0 + 1e-9
    assert 0.0 <= found.targets_met <= 1.0
    assert found.neighbours_loss > 0.0


def test_waits_are_from_arrival_to_start() -> None:
    world = demo_cluster(20, 1)
    jobs = arrivals(world, 0.95, np.random.default_rng(1))
    at_once, patient = (
        row(world, jobs, a_cell(0.95)._replace(patience_s=patience_s), "expected")
        for patience_s in (0.0, 300.0)
    )
    assert 0.0 <= at_once.mean_wait_s < patient.mean_wait_s < patient.longest_wait_s
    idle = row(world, jobs[-1:], a_cell(0.95), "expected")
    assert (idle.mean_wait_s, idle.longest_wait_s) == (0.0, 0.0)


def test_no_policy_beats_the_default_on_both_measures_in_the_stored_result() -> None:
    cells: dict[tuple[str, str, float], dict[str, list[tuple[float, float]]]] = {}
    for found in load("policies")["figures"]:
        cell = cells.setdefault((found["world"], found["profiles"], found["load"]), {})
        measures = found["overall"], found["near_full_speed"]
        cell.setdefault(found["policy"], []).append(measures)
    assert len(cells) == 16
    for key, policies in cells.items():
        means = {name: np.mean(of_seeds, axis=0) for name, of_seeds in policies.items()}
        assert {"least_loaded", "random", "tarcil", "roomiest"} <= means.keys()
        better = [name for name, mean in means.items() if (mean > means[DEFAULT]).all()]
        assert better == [], key
