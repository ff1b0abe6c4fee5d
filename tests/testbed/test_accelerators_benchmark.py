"""The comparison of policies for accelerators of three types."""

import gzip
from pathlib import Path

import pytest

from apps.testbed.core.accelerators.registry import ROUND_POLICIES
from benchmarks._results import load
from benchmarks.accelerators import FILE, TYPES, main

SPEEDS = {"v100": 4.0, "p100": 2.0, "k80": 1.0}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two job types: one gains from the fast type, one does not."""
    lines = ["gpu,job_type,num_gpus,steps_per_s"]
    for gpu in TYPES:
        for number in (1, 2, 4, 8):
            lines.append(f"{gpu},large,{number},{SPEEDS[gpu] * number**0.9}")
            lines.append(f"{gpu},small,{number},{3.0 * number**0.5}")
    path = tmp_path / FILE
    path.parent.mkdir()
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def test_every_policy_runs_the_same_jobs_and_the_tables_are_stored(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["--jobs", "12", "--accelerators", "8", "--loads", "0.8", "--seeds", "2"]
    assert main(["--data", str(data), *size, "--results", str(data)]) == 0
    result = load("accelerators", data)
    names = [f"`{name}`" for name in ROUND_POLICIES]
    means = result["tables"]["means"]
    assert [row[1] for row in means[1:]] == names
    assert all("±" in cell for row in means[1:] for cell in row[2:])
    others = [row[1] for row in result["tables"]["differences"][1:]]
    assert others == [name for name in names if name != "`fair_share_blind`"]
    assert set(result["figures"]["0.8"]) == set(ROUND_POLICIES)
    assert len(result["figures"]["0.8"]["fifo"]["mean_h"]) == 2
    assert result["figures"]["0.8"]["fifo"]["restarts"] == [0.0, 0.0]
    assert "load 0.8  seed 2  gavel_max_min" in capsys.readouterr().out


def test_one_seed_has_no_intervals(data: Path) -> None:
    size = ["--jobs", "4", "--accelerators", "8", "--loads", "0.5", "--seeds", "1"]
    assert main(["--data", str(data), *size, "--results", str(data)]) == 0
    tables = load("accelerators", data)["tables"]
    assert {cell for row in tables["differences"][1:] for cell in row[2:]} == {"-"}
    assert not any("±" in cell for row in tables["means"] for cell in row)


def test_a_folder_without_the_measurements_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--data", str(tmp_path)])
    assert "has no gavel/isolated.csv.gz" in capsys.readouterr().err
