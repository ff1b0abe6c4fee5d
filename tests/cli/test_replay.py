"""berth replay: policies compared on a trace, no server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from apps.testbed.core.replay.model import ReplayOptions, RunRow
from controlplane.cli.errors import Exit
from controlplane.cli.main import main

JOBS = 12
SWIM = "".join(f"job{i}\t{40 * i}\t40\t{10**9}\t0\t{10**8}\n" for i in range(JOBS))


@pytest.fixture
def trace(tmp_path: Path) -> str:
    path = tmp_path / "small.tsv"
    path.write_text(SWIM)
    return str(path)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["replay", *arguments, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert isinstance(answer, dict)
    return answer


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["replay", *arguments])
    return code, capsys.readouterr().err


def test_every_policy_runs_with_every_seed(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    answer = answered(
        capsys, trace, "--servers", "20", "--policy", "least_loaded,random", "--seeds", "1-2"
    )
    assert {"trace", "cluster", "runs", "comparison"} <= answer.keys()
    assert answer["trace"].items() >= {"format": "swim", "jobs": JOBS, "skipped": 0}.items()
    assert answer["cluster"]["servers"] == 20
    assert [(run["policy"], run["seed"]) for run in answer["runs"]] == [
        ("least_loaded", 1), ("least_loaded", 2), ("random", 1), ("random", 2),
    ]  # fmt: skip
    assert all(run.keys() == set(RunRow.__dataclass_fields__) for run in answer["runs"])
    assert all(run["jobs_finished"] == JOBS for run in answer["runs"])
    assert answer["comparison"]["baseline"] == "least_loaded"
    assert answer["comparison"]["verdict"]


def test_default_is_the_policy_of_the_installation(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTH_POLICY", "roomiest")
    answer = answered(capsys, trace, "--servers", "20", "--profiles", "true")
    assert answer["options"]["policies"] == {"default": "roomiest"}
    assert answer["options"]["profiles"] == "true"
    monkeypatch.delenv("BERTH_POLICY")
    again = answered(capsys, trace, "--servers", "20", "--profiles", "true")
    assert again["options"]["policies"] == {"default": ReplayOptions().policy}


def test_policies_with_queues_of_their_own_run_beside_the_others(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answered(capsys, trace, "--servers", "20", "--policy", "random,sparrow")
    assert [run["policy"] for run in answer["runs"]] == ["random", "sparrow"]
    assert all(run["jobs_finished"] == JOBS for run in answer["runs"])


def test_options_that_a_policy_does_not_use_are_refused_before_the_first_run(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (trace, "--servers", "20", "--policy", "random,sparrow", "--admission", "fifo")
    code, error = refused(capsys, *arguments)
    assert code == Exit.USAGE
    assert "sparrow has queues of its own, and does not use admission" in error


def test_servers_may_fail(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (trace, "--servers", "20", "--failures", "5", "--repair-s", "60")
    answer = answered(capsys, *arguments)
    assert answer["options"]["failures"] == {"per_day": 5.0, "repair_s": 60.0}
    assert answer["runs"][0]["jobs_submitted"] > 0


def test_every_policy_also_runs_with_each_of_the_weights(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = tmp_path / "saving.json"
    stored.write_text(json.dumps({"name": "x", "weights": {"P": 1.0, "D": 0.2, "C": 0.0}}))
    answer = answered(
        capsys, trace, "--servers", "20", "--policy", "random,node_rr", "--profiles", "true",
        "--weights", str(stored), "--weights", "0.22,1,0.36", "--rebalance-s", "120",
    )  # fmt: skip
    assert [run["policy"] for run in answer["runs"]] == [
        "random", "node_rr", "random, weights saving", "node_rr, weights saving",
        "random, weights 0.22,1,0.36", "node_rr, weights 0.22,1,0.36",
    ]  # fmt: skip
    assert answer["options"]["weights"]["saving"] == {"P": 1.0, "D": 0.2, "C": 0.0}
    assert [run["migrations"] for run in answer["runs"]][:2] == [0, 0]
    assert answer["comparison"]["baseline"] == "random"


def test_weights_by_name_are_those_of_a_preference_set(
    trace: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def found(_client: object, key: str) -> dict[str, Any]:
        asked.append(key)
        return {"name": "quiet nights", "weights": {"P": 0.1, "D": 1.0, "C": 0.0}}

    monkeypatch.setenv("BERTH_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("BERTH_TOKEN", "t")
    monkeypatch.setattr("controlplane.cli.preferences.find_set", found)
    answer = answered(
        capsys, trace, "--servers", "20", "--profiles", "true", "--weights", "quiet nights"
    )
    assert asked == ["quiet nights"]
    assert answer["options"]["weights"] == {"quiet nights": {"P": 0.1, "D": 1.0, "C": 0.0}}


def test_a_cluster_file_and_a_page(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, page = tmp_path / "two.json", tmp_path / "page.html"
    cluster.write_text(
        json.dumps(
            {
                "platforms": [{"name": "m3.xlarge"}],
                "servers": [{"platform": "m3.xlarge", "count": 2}],
            }
        )
    )
    arguments = (trace, "--servers", str(cluster), "--policy", "random", "--html", str(page))
    answer = answered(capsys, *arguments)
    assert answer["cluster"]["units"] == 8
    assert "<h1>Replay of small on two</h1>" in page.read_text()


def test_unusable_arguments_are_refused_in_one_sentence(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    page = str(tmp_path / "no" / "page.html")
    money = tmp_path / "money.json"
    money.write_text('{"money": 1}')
    for arguments, code, sentence in [
        ((trace, "--servers", "0"), Exit.USAGE, "a cluster has 1 .. 100,000 servers, not 0"),
        ((trace, "--servers", "-3"), Exit.USAGE, "a cluster has 1 .. 100,000 servers, not -3"),
        ((trace, "--servers", "9" * 9), Exit.USAGE, "a cluster has 1 .. 100,000 servers"),
        ((trace, "--servers", "9" * 5000), Exit.USAGE, "fewer than 5,000 digits"),
        ((trace, "--servers", str(deep)), Exit.USAGE, "deep.json is nested too deeply"),
        ((trace, "--servers", str(tmp_path)), Exit.USAGE, "cannot be read: Is a directory"),
        ((trace, "--servers", "9", "--html", page), Exit.USAGE, "page.html cannot be written"),
        ((trace, "--servers", "9", "--seeds", "5-1"), Exit.USAGE, "seeds must be 1 .. 1,000"),
        ((trace, "--servers", "9", "--seeds", "1-9999999"), Exit.USAGE, "seeds must be 1 .. 1,0"),
        ((trace, "--servers", "9", "--seeds", "9" * 5000), Exit.USAGE, "seeds must look like"),
        ((trace, "--servers", "9", "--seeds", "1,1"), Exit.USAGE, "seeds must be different"),
        ((trace, "--servers", "9", "--failures", "0"), Exit.USAGE, "failures a day and the time"),
        ((trace, "--servers", str(broken)), Exit.USAGE, "broken.json is not JSON"),
        ((trace, "--servers", "none.json"), Exit.USAGE, "none.json cannot be read"),
        ((trace, "--servers", "9", "--policy", "best"), Exit.USAGE, "unknown policy 'best'"),
        ((trace, "--servers", "9", "--policy", "random,random"), Exit.USAGE, "must be different"),
        ((trace, "--servers", "9", "--seeds", "1-x"), Exit.USAGE, "seeds must look like 1-5"),
        ((trace, "--servers", "9", "--world", "flat"), Exit.USAGE, "world must be one of"),
        ((trace, "--servers", "9", "--admission", "x"), Exit.USAGE, "admission must be one of"),
        ((trace, "--servers", "9", "--weights", "1,2"), Exit.USAGE, "three weights for P, D and"),
        ((trace, "--servers", "9", "--weights", "P=0"), Exit.USAGE, "one weight must be above 0"),
        ((trace, "--servers", "9", "--weights", str(money)), Exit.USAGE, "not of 'money'"),
        ((trace, "--servers", "9", "--weights", str(broken)), Exit.USAGE, "is not JSON"),
        ((trace, "--servers", "9", "--weights", "no.json"), Exit.USAGE, "no.json cannot be read"),
        ((trace, "--servers", "9", "--rebalance-s", "9"), Exit.USAGE, "rebalance_s at least 60"),
        ((trace, "--servers", "9", "--max-wait-s", "-1"), Exit.USAGE, "max_wait_s must be at"),
        ((trace, "--servers", "9", "--patience-s", "-1"), Exit.USAGE, "patience_s must be at"),
        (("none.tsv", "--servers", "9"), Exit.USAGE, "none.tsv: cannot be read"),
    ]:
        found, text = refused(capsys, *arguments)
        assert (found, sentence in text) == (code, True), text


def test_a_cluster_without_the_highest_end_platform_runs(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = answered(capsys, trace, "--servers", "6", "--policy", "random")
    assert "cr1.8xlarge" not in answer["cluster"]["platforms"]
    (run,) = answer["runs"]
    assert run["jobs_finished"] == JOBS
    assert 0.0 < run["performance_mean"] <= 1.0


def test_other_verbs_do_not_load_the_engine() -> None:
    script = (
        "import sys; from controlplane.cli.main import parser_for; parser_for(['-h']);"
        "print(any(name in sys.modules for name in ('numpy', 'numba', 'apps.testbed')))"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
