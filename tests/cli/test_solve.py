"""berth solve and berth evaluate: placements from files, no server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Communication, Instance
from controlplane.cli.errors import Exit
from controlplane.cli.main import main

ROOT = Path(__file__).parents[2]
NODES = [
    {"id": f"n{i}", "rack": "r", "slots": 2, "idle_watts": 100, "peak_watts": 200}
    for i in range(3)
]
CONTAINERS = [
    {"id": "a", "job": "x", "intensity": 1, "class": "taz", "communication": "cluster"},
    {"id": "b", "job": "x", "intensity": 1, "class": "taz", "communication": "cluster"},
    {"id": "c", "job": "y", "intensity": 0, "class": "turtle", "communication": "node"},
    {"id": "d", "job": "y", "intensity": 0, "class": "turtle", "communication": "node"},
]
INSTANCE: dict[str, Any] = {"nodes": NODES, "containers": CONTAINERS}
APART = {"a": "n0", "b": "n1", "c": "n2", "d": "n2"}


def written(folder: Path, data: Any, name: str = "instance.json") -> str:
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    return capsys.readouterr().err


def as_json(case: Instance) -> dict[str, Any]:
    rows = zip(
        case.container_ids,
        case.job.tolist(),
        case.intensity.tolist(),
        case.is_taz.tolist(),
        strict=True,
    )
    return {
        "nodes": [
            {"id": name, "rack": case.rack_ids[rack], "idle_watts": idle, "peak_watts": peak}
            for name, rack, idle, peak in zip(
                case.node_ids,
                case.rack.tolist(),
                case.idle_watts.tolist(),
                case.peak_watts.tolist(),
                strict=True,
            )
        ],
        "containers": [
            {
                "id": name,
                "job": case.job_ids[job],
                "intensity": intensity,
                "class": "taz" if is_taz else "turtle",
                "communication": Communication(int(case.communication[job])).name.lower(),
            }
            for name, job, intensity, is_taz in rows
        ],
    }


def test_the_json_output_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answered(capsys, "solve", written(tmp_path, INSTANCE), "--weights", "0.22,1,0.36")
    assert list(answer) == [
        *("assignment", "raw", "normalised", "F", "bound", "gap"),
        *("optimal", "seconds", "solver"),
    ]
    assert answer["raw"] == {"P": 500.0, "D": 2.0, "C": 0.0}
    assert answer["normalised"] == pytest.approx({"P": 500 / 600, "D": 1.0, "C": 0.0})
    assert answer["F"] == pytest.approx(0.22 * 500 / 600 - 1)
    assert answer["bound"] == pytest.approx(answer["F"])
    assert (answer["gap"], answer["optimal"], answer["solver"]) == (0.0, True, "counts")
    nodes = answer["assignment"]
    assert nodes["c"] == nodes["d"]
    assert len(set(nodes.values())) == 3


def test_evaluating_a_solution_gives_the_same_objectives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, INSTANCE)
    solved = answered(capsys, "solve", path, "--weights", "3,1,1")
    placed = written(tmp_path, solved, "answer.json")
    answer = answered(capsys, "evaluate", path, placed, "--weights", "3,1,1")
    assert answer == {name: solved[name] for name in ("raw", "normalised", "F")}


def test_a_placement_is_evaluated_without_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = written(tmp_path, APART, "placed.json")
    answer = answered(capsys, "evaluate", written(tmp_path, INSTANCE), placed)
    assert answer["raw"] == {"P": 500.0, "D": 2.0, "C": 0.0}
    assert "F" not in answer


def test_migrations_are_reported_if_there_is_a_current_placement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, {**INSTANCE, "current": {"a": "n1", "b": "n1"}})
    placed = written(tmp_path, APART, "placed.json")
    answer = answered(capsys, "evaluate", path, placed, "--weights", "0,0,0,2")
    assert answer["raw"]["M"] == 1.0
    assert answer["F"] == 1.0
    stays = answered(capsys, "solve", path, "--weights", "1,1,1,100")
    assert (stays["raw"]["M"], stays["assignment"]["a"]) == (0.0, "n1")


def test_the_table_is_readable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, INSTANCE)
    assert main(["solve", path, "--weights", "1,1,1"]) == 0
    printed = capsys.readouterr().out
    assert "proven optimal" in printed
    assert "n2: c, d" in printed or "n0: c, d" in printed or "n1: c, d" in printed
    placed = written(tmp_path, APART, "placed.json")
    assert main(["evaluate", path, placed, "--weights", "1,1,1"]) == 0
    judged = capsys.readouterr().out.splitlines()
    assert "Power (P)                  500 W (0.8333 normalised)" in judged
    assert any(line.startswith("Diversified intensity (D)  ") for line in judged)


@pytest.mark.parametrize("solver", ["counts", "branch_and_bound", "random"])
def test_every_solver_can_be_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], solver: str
) -> None:
    path = written(tmp_path, INSTANCE)
    named = ("--solver", solver, "--limit", "0.5")
    answer = answered(capsys, "solve", path, "--weights", "1,1,1", *named)
    assert answer["solver"] == solver
    assert answer["bound"] <= answer["F"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--weights", "1,1"], "give three weights for P, D and C"),
        (["--weights", "1,a,1"], "give three weights for P, D and C"),
        (["--weights", "1,-1,1"], "-1 is not a weight; weights are at least 0"),
        (["--weights", "1,nan,1"], "nan is not a weight"),
        (["--weights", "0,0,0"], "at least one weight must be above 0"),
        (["--weights", "P=1,P=2"], "an objective has two weights"),
        (["--weights", "P=1,D"], "give three weights for P, D and C"),
        (["--weights", "1,1,1", "--limit", "0"], "'0': give a time above 0"),
        (["--weights", "1,1,1", "--limit", "soon"], "'soon': give a time above 0"),
        ([], "the following arguments are required: --weights"),
    ],
)
def test_invalid_options_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["solve", written(tmp_path, INSTANCE), *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_an_unknown_solver_is_refused_with_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(
        capsys, "solve", written(tmp_path, INSTANCE), "--weights", "1,1,1", "--solver", "x"
    )
    assert "unknown solver 'x'; known: branch_and_bound, counts, random" in message


def test_a_bad_instance_names_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"nodes": [{**NODES[0], "slots": 0}], "containers": [{**CONTAINERS[0], "intensity": 2}]}
    message = refused(capsys, "solve", written(tmp_path, bad), "--weights", "1,1,1")
    assert "instance.json is not a placement instance" in message
    assert "/nodes/0/slots: 0 is out of range; accepted: 1 to 65536" in message
    assert "/containers/0/intensity: 2 is out of range; accepted: 0 to 1" in message


def test_invalid_json_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    message = refused(capsys, "solve", written(tmp_path, "{nodes"), "--weights", "1,1,1")
    assert "is not JSON" in message


def test_a_bad_assignment_names_its_container(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    placed = written(tmp_path, {**APART, "a": "n9"}, "placed.json")
    message = refused(capsys, "evaluate", written(tmp_path, INSTANCE), placed)
    assert "/a: unknown node 'n9'" in message


def test_a_missing_file_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "/nowhere.json", "--weights", "1,1,1"]) == Exit.USAGE
    assert "cannot read /nowhere.json" in capsys.readouterr().err


def test_the_schema_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--schema"]) == 0
    assert "Berth placement instance" in capsys.readouterr().out


def test_evaluate_requires_both_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert "give an instance and an assignment" in refused(capsys, "evaluate")


def test_an_interrupt_prints_the_best_placement_so_far(tmp_path: Path) -> None:
    path = written(
        tmp_path, as_json(generate_instance(InstanceSpec(200, has_real_intensities=True), 0))
    )
    command = [sys.executable, "-m", "controlplane.cli.main", "solve", path]
    options = ["--weights", "1,1,1", "--solver", "random", "--limit", "30", "--json"]
    running = subprocess.Popen(  # noqa: S603 - our own program
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with running:
        assert running.stderr is not None
        line = running.stderr.readline()
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=20)
    assert b"gap" in line  # one of progress
    assert running.returncode == 0
    assert len(json.loads(out)["assignment"]) == 200


def test_other_verbs_do_not_import_numpy() -> None:
    code = "import sys, controlplane.cli.main; print('numpy' in sys.modules)"
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True, text=True
    )
    assert done.stdout.strip() == "False"


def test_a_plain_problem_is_solved_without_the_compiler_or_the_library() -> None:
    code = (
        "import sys, time\n"
        "from apps.placement.core.problem import examples\n"
        "from apps.placement.core.solver import registry, run\n"
        "case = examples.generate_instance(examples.InstanceSpec(64), 0)\n"
        "s = run.SolverRun(case, {'P': 1.0, 'D': 1.0}, clock=time.time, limit_s=9)\n"
        "found = registry.solve(s)\n"
        "print(found.is_optimal, 'numba' in sys.modules, 'highspy' in sys.modules)"
    )
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", code], capture_output=True, cwd=ROOT, check=True, text=True
    )
    assert done.stdout.strip() == "True False False"


MONEY = {
    "money": {
        "label": "Energy cost",
        "unit": "EUR",
        "hours": [8, 16],
        "curve": {"": [0.1, 0.3], "far": [0.0, 0.0]},
    }
}


def test_an_objective_of_a_file_is_weighted_by_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    far = [*NODES, *({**node, "id": f"f{i}", "rack": "far"} for i, node in enumerate(NODES))]
    path = written(tmp_path, {**INSTANCE, "nodes": far})
    more = ("--objectives", written(tmp_path, MONEY, "objectives.json"))
    free = answered(capsys, "solve", path, "--weights", "money=1", *more)
    assert set(free["assignment"].values()) <= {"f0", "f1", "f2"}
    assert free["raw"]["money"] == 0.0
    near = written(tmp_path, APART, "near.json")
    judged = answered(capsys, "evaluate", path, near, "--weights", "P=1,money=2", *more)
    # 500 W for 8 h at 0.1 and 16 h at 0.3 a kilowatt-hour; at most three nodes of 200 W
    assert judged["raw"]["money"] == pytest.approx(0.5 * (0.8 + 4.8))
    expected = judged["normalised"]["P"] + 2 * judged["normalised"]["money"]
    assert judged["F"] == pytest.approx(expected)
    assert judged["normalised"]["money"] == pytest.approx(500 / 600)
    assert main(["evaluate", path, near, *more]) == 0
    assert "Energy cost (money)        2.8 EUR (0.8333 normalised)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("objectives", "message"),
    [
        ([], "is not an object of name: curve"),
        ({"P": MONEY["money"]}, "/P: 'P': use lower-case letters"),
        ({"money": 3}, "/money: 3 is not an object with label, unit, hours, curve"),
        ({"money": {**MONEY["money"], "price": 1}}, "/money/price: known fields: label"),
        ({"money": {**MONEY["money"], "hours": [8]}}, "has 2 values, but hours has 1"),
        ({"money": {**MONEY["money"], "hours": [8, -1]}}, "/money/hours/1: -1 is not a number"),
        ({"money": {**MONEY["money"], "curve": {}}}, "/money/curve: {} is not an object of rack"),
        ({"money": {**MONEY["money"], "curve": {"far": [1, 1]}}}, "no curve for rack 'r'"),
        ({"money": {**MONEY["money"], "label": 7}}, "/money/label: 7 is not printable text"),
    ],
)
def test_an_invalid_objective_is_reported_with_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], objectives: Any, message: str
) -> None:
    path = written(tmp_path, INSTANCE)
    more = ("--objectives", written(tmp_path, objectives, "objectives.json"))
    assert message in refused(capsys, "solve", path, "--weights", "1,1,1", *more)


def test_a_weight_of_an_unknown_objective_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, INSTANCE)
    message = refused(capsys, "solve", path, "--weights", "P=1,gold=2")
    assert "unknown objective 'gold'; known: P, D, C, M" in message
