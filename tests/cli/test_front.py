"""berth front: the front of a placement problem from a file, no server."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.placement.core.front.archive import hypervolume, losses
from apps.placement.core.problem.examples import InstanceSpec, generate_instance
from apps.placement.core.problem.instance import Instance
from apps.placement.core.problem.instance_file import parse, parse_assignment
from apps.placement.core.problem.objectives import evaluate
from controlplane.cli.main import main
from tests.cli.test_solve import INSTANCE, as_json, refused, written

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "controlplane.cli.main")
REAL = InstanceSpec(containers=40, nodes=30, nodes_per_rack=10, kinds=2, has_real_intensities=True)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["front", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def of_file(path: str) -> Instance:
    return parse(json.loads(Path(path).read_text()))


def test_a_plain_problem_has_its_whole_front_with_a_placement_for_each_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, INSTANCE)
    answer = answered(capsys, path, "--budget", "5s")
    assert list(answer) == [
        *("points", "hypervolume", "reference"),
        *("generations", "seconds", "exact"),
    ]
    assert answer["exact"] is True
    assert answer["generations"] == 0
    values = sorted((p["P"], p["D"], p["C"]) for p in answer["points"])
    assert values == [(400.0, 0.0, 0.0), (400.0, 2.0, 2.0), (500.0, 2.0, 0.0)]
    assert answer["points"][0]["assignment"].keys() == {"a", "b", "c", "d"}


def test_the_objectives_of_every_point_match_its_assignment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, as_json(generate_instance(REAL, 1)))
    answer = answered(capsys, path, "--budget", "2s", "--seed", "3")
    instance = of_file(path)
    assert answer["exact"] is False
    assert answer["generations"] > 10
    assert len(answer["points"]) > 5
    worth = [
        evaluate(instance, parse_assignment(instance, point["assignment"]))
        for point in answer["points"]
    ]
    raw = np.array([[each.raw[name] for name in "PDC"] for each in worth])
    points = np.array([[point[name] for name in "PDC"] for point in answer["points"]])
    assert points == pytest.approx(raw)
    normalised = np.array([[p["normalised"][name] for name in "PDC"] for p in answer["points"]])
    volume = hypervolume(losses(normalised), tuple(answer["reference"]))
    assert answer["hypervolume"] == pytest.approx(volume)


def test_the_number_of_points_can_be_limited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, as_json(generate_instance(REAL, 1)))
    answer = answered(capsys, path, "--budget", "1s", "--points", "4")
    assert len(answer["points"]) == 4


def test_the_table_shows_the_hypervolume(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["front", written(tmp_path, INSTANCE)]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["P", "(W)", "D", "C", "P", "D", "C", "(normalised)"]
    assert "3 of 3 points, complete" in text


def test_yaml_has_the_same_content(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["front", written(tmp_path, INSTANCE), "-o", "yaml"]) == 0
    assert "exact: true" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--seed", "-1"), "--seed must be at least 0, not -1")],
)
def test_invalid_requests_are_refused(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    assert words in refused(capsys, "front", written(tmp_path, INSTANCE), *arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--budget", "soon"), "'soon': give a time above 0"),
        (("--budget", "0s"), "'0s': give a time above 0"),
        (("--points", "0"), "'0': give a number from 1 to 2000"),
        (("--points", "many"), "'many': give a number"),
    ],
)
def test_invalid_options_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["front", "instance.json", *arguments])
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_a_bad_instance_names_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {"nodes": INSTANCE["nodes"], "containers": [{"id": "a"}]}
    assert "/containers/0/job" in refused(capsys, "front", written(tmp_path, bad))


def test_ctrl_c_prints_the_front_so_far_and_progress_is_on_standard_error(tmp_path: Path) -> None:
    path = written(tmp_path, as_json(generate_instance(REAL, 1)))
    with subprocess.Popen(  # noqa: S603 - our own command
        [*COMMAND, "front", path, "--budget", "5min", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    ) as process:
        assert process.stderr is not None
        line = next(text for text in process.stderr if not text.startswith("generation 0 "))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert "hypervolume" in line
    assert process.returncode == 0
    answer = json.loads(out)
    assert answer["seconds"] < 250
    assert len(answer["points"]) > 1
