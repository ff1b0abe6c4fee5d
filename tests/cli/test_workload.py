"""berth workload: fits, mixes and generated traces, no server."""

import json
from pathlib import Path

import pytest

from controlplane.cli.errors import Exit
from controlplane.cli.main import main

SWIM = "".join(
    f"job{i}\t{30 * i}\t30\t{(i % 7 + 1) * 10**9}\t{(i % 3) * 10**8}\t{10**8}\n"
    for i in range(120)
)


def test_a_fit_is_a_file_whose_trace_replays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, model, trace = (tmp_path / name for name in ("a.tsv", "a.json", "b.jsonl.gz"))
    source.write_text(SWIM)
    assert main(["workload", "fit", str(source), "--out", str(model), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(model.read_text())
    assert (document["format"], document["version"]) == ("berth-workload", 1)
    assert {"class", "quantity", "distance", "low", "high"} <= document["distances"][0].keys()
    assert [row["process"] for row in document["processes"]][:1] == ["Poisson"]
    assert sum(row["is_chosen"] for row in document["processes"]) == 1
    arguments = ["workload", "generate", str(model), "--out", str(trace), "--scale", "0.2"]
    assert main(arguments) == 0
    assert "24 jobs of a-fit" in capsys.readouterr().out
    arguments = ["replay", str(trace), "--servers", "30", "--policy", "random", "--json"]
    assert main(arguments) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["trace"]["format"] == "berth"
    assert answer["runs"][0]["jobs_submitted"] == 24


def test_the_same_seed_generates_the_same_file(tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.jsonl" for name in "abc"]
    for path, seed in zip(files, ("4", "4", "5"), strict=True):
        arguments = ["workload", "generate", "paragon-medium", "--out", str(path), "--seed", seed]
        assert main(arguments) == 0
    first, second, third = (path.read_bytes() for path in files)
    assert first == second
    assert first != third


def test_the_mixes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "mixes", "--json"]) == 0
    rows = {row["mix"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["paragon-low"]["jobs"] == 178
    assert rows["tarcil-large"]["jobs"] == 7200
    assert rows["clavismo-parapluie"]["jobs"] == 8


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["generate", "none", "--out", "x.jsonl"], Exit.USAGE,
         "none is neither a mix (berth workload mixes) nor a file"),
        (["generate", "paragon-low", "--out", "x.txt"], Exit.FAILED,
         "expected a name that ends in .swf, .parquet or .jsonl"),
        (["generate", "paragon-low", "--out", "x.jsonl", "--scale", "0"], Exit.USAGE,
         "scale must be > 0"),
        (["generate", "paragon-low", "--out", "x.jsonl", "--seed", "-1"], Exit.USAGE,
         "--seed must lie in 0 .. 2^32 - 1, not -1"),
        (["fit", "none.tsv", "--out", "x.json"], Exit.USAGE, "none.tsv: cannot be read"),
    ],
    ids=["mix", "ending", "scale", "seed", "trace"],
)  # fmt: skip
def test_unusable_arguments_are_refused_in_one_sentence(
    arguments: list[str],
    code: Exit,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["workload", *arguments]) == code
    assert sentence in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "is not JSON"), ("[" * 100_000, "is nested too deeply"), ("{}", "expected format")],
    ids=["broken", "deep", "other"],
)
def test_an_unusable_model_is_refused(
    text: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "m.json"
    model.write_text(text)
    assert main(["workload", "generate", str(model), "--out", str(tmp_path / "t.jsonl")]) == 2
    assert sentence in capsys.readouterr().err
