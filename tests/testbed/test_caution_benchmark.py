"""The report of `./dev bench caution`."""

import json
from pathlib import Path

from benchmarks import caution


def test_every_tolerance_is_compared_on_the_same_jobs(tmp_path: Path) -> None:
    argv = ["--world", "paper", "--servers", "6", "--loads", "0.5", "--seeds", "1-2"]
    assert caution.main([*argv, "--results", str(tmp_path)]) == 0
    stored = json.loads((tmp_path / "caution.json").read_text())
    rows = {(row["tolerance"], row["seed"]) for row in stored["figures"]}
    names = [*caution.TOLERANCES, caution.TRUE]
    assert rows == {(name, seed) for name in names for seed in (1, 2)}
    shown = stored["tables"]["caution"]
    assert [row[2] for row in shown[1:]] == names
    assert all(row["overall"] > 0.0 and 0.0 <= row["near_full_speed"] <= 1.0
               for row in stored["figures"])  # fmt: skip
