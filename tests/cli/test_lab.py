"""berth lab run: a bundle again, without a server."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.testbed.core.generator import generate_day
from apps.testbed.core.lab import LabPlan, LabSetting
from apps.testbed.core.lab_bundle import bundle_of
from apps.testbed.core.lab_runs import run_setting
from apps.testbed.core.replay.clusters import document_of, synthetic_cluster
from apps.testbed.core.trace_jobs import workload_of_sizes
from controlplane.cli.main import main


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    """Two settings with one seed on ten jobs, with results."""
    plan = LabPlan(
        cluster=document_of(synthetic_cluster(20)),
        trace=workload_of_sizes(generate_day(10, np.random.default_rng(1))),
        world="paper",
        settings=(LabSetting("tarcil", {}), LabSetting("random", {"policy": "random"})),
        seeds=(1,),
        baseline="random",
    )
    records = [run_setting(plan, setting, seed).record for setting, seed in plan.runs]
    content = bundle_of("two", plan, {"berth": "1"}, records, None)
    found: dict[str, Any] = json.loads(json.dumps(content))
    return found


def stored(folder: Path, content: Any) -> str:
    path = folder / "bundle.json"
    path.write_text(json.dumps(content))
    return str(path)


def test_a_bundle_runs_again_with_identical_records(
    bundle: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", stored(tmp_path, bundle)]) == 0
    assert "2 runs; all 2 records of the bundle are identical." in capsys.readouterr().out


def test_the_json_output_holds_records_and_result(
    bundle: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "run", stored(tmp_path, bundle), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert output["differing"] == []
    assert sorted(output["records"], key=lambda r: r["setting"]) == bundle["records"]
    assert output["result"]["baseline"] == "random"


def test_another_baseline_may_be_named(
    bundle: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored(tmp_path, bundle)
    assert main(["lab", "run", path, "--json", "--baseline", "tarcil"]) == 0
    result = json.loads(capsys.readouterr().out)["result"]
    assert (result["baseline"], result["differences"][0]["setting"]) == ("tarcil", "random")
    assert main(["lab", "run", path, "--baseline", "x"]) == 2
    assert "--baseline must be one of tarcil, random, not 'x'" in capsys.readouterr().err


def test_other_results_are_named_and_fail(
    bundle: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = json.loads(json.dumps(bundle))
    changed["records"][0]["row"]["energy_kwh"] += 1e-9
    assert main(["lab", "run", stored(tmp_path, changed)]) == 1
    assert "1 of 2 records differ from the bundle: random seed 1." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "message"),
    [({}, "not a bundle"), ([], "not a bundle")],
    ids=["object", "list"],
)
def test_a_file_that_is_no_bundle_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: Any, message: str
) -> None:
    assert main(["lab", "run", stored(tmp_path, content)]) == 1
    assert message in capsys.readouterr().err


def test_a_missing_file_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "run", "/absent.json"]) == 2
    assert "No such file" in capsys.readouterr().err
