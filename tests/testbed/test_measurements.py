"""The measured world against the measurements, where they are present, and their readers."""

import csv
import gzip
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from apps.emulation.core.worlds.fitted import DATA
from apps.testbed.core.world_fit import data_sets
from apps.testbed.infrastructure.measurements import VARIABLE, checksums, files

FOLDER = os.environ.get(VARIABLE) or None
needs_data = pytest.mark.skipif(FOLDER is None, reason=f"{VARIABLE} names no folder")


@needs_data
def test_every_figure_of_the_measured_world_is_inside_its_interval(tmp_path: Path) -> None:
    page, printed = tmp_path / "page.html", io.StringIO()
    call_command("world_report", "--json", "--html", str(page), stdout=printed)
    found = json.loads(printed.getvalue())
    assert found["outside"] == []
    assert len(found["groups"]) == 13
    paper = [f["is_inside"]["paper"] for g in found["groups"] for f in g["figures"]]
    assert sum(paper) < len(paper) / 2
    assert page.read_text().count("<table>") == 13


@needs_data
def test_the_parameters_were_fitted_to_these_files() -> None:
    assert dict(DATA) == checksums(Path(FOLDER or ""))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"has no scout_multinode/runs\.csv\.gz, "):
        call_command("world_report", "--data", str(tmp_path))


def test_no_folder_at_all_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(CommandError, match="--data or BERTH_MEASUREMENTS"):
        call_command("fit_world")


def test_every_file_has_a_checksum() -> None:
    assert set(DATA) == set(files())
    assert all(len(digest) == 64 for digest in DATA.values())


def reader(**tables: list[dict[str, object]]) -> data_sets.ReadRows:
    """Rows of tables by the name of their folder."""
    text = {name: [{k: str(v) for k, v in row.items()} for row in t] for name, t in tables.items()}
    return lambda path: text[path.split("/", maxsplit=1)[0]]


def test_slowdowns_are_medians_over_the_groups() -> None:
    rows: list[dict[str, object]] = [
        {"benchmark": "radix", "group": group, "machine": "m", "input": "", "real_s": seconds}
        | {"interference": source}
        for group, factor in (("a", 1.0), ("b", 1.2), ("c", 9.0))
        for source in ("none", *data_sets.MICROBENCHMARKS)
        for seconds in [10.0 if source == "none" else 10.0 * factor]
    ]
    found = data_sets.slowdowns(reader(cca_ibench=rows))
    assert found["radix"][0] == pytest.approx(np.full(6, np.log(1.2)))


def test_equal_runs_count_as_a_small_slowdown() -> None:
    rows: list[dict[str, object]] = [
        {"benchmark": "radix", "group": "a", "machine": "m", "input": "", "real_s": 5.0}
        | {"interference": source}
        for source in ("none", *data_sets.MICROBENCHMARKS)
    ]
    assert (data_sets.slowdowns(reader(cca_ibench=rows))["radix"] == 0.005).all()


def test_noise_is_that_of_long_lived_servers() -> None:
    rows: list[dict[str, object]] = [
        {"test_suite": "s", "test_name": "t", "sku": "x", "vm_lifespan": life, "n": n}
        | {"sd": sd, "mean": 10.0}
        for life, n, sd in (("long", 20, 1.0), ("long", 19, 5.0), ("short", 90, 5.0))
    ]
    found = data_sets.repeated_runs(reader(azure_vm_noise=rows))
    assert found["s t x"] == pytest.approx([np.log(0.1)])


def test_slow_servers_are_those_with_high_latencies_and_low_rates() -> None:
    ranks: dict[str, object] = {"p01": 4.0, "p05": 5.0, "p50": 10.0, "p95": 20.0, "p99": 40.0}
    rows: list[dict[str, object]] = [
        {"test_suite": "s", "test_name": unit, "sku": "x", "vm_lifespan": "short", "n": 100}
        | {"unit": unit}
        | ranks
        for unit in ("TPS", "ms")
    ]
    found = data_sets.servers(reader(azure_vm_noise=rows))
    assert found["s TPS x"][0] == pytest.approx(np.log([2.0, 2.5]))
    assert found["s ms x"][0] == pytest.approx(np.log([2.0, 4.0]))


def test_the_split_depends_on_the_names_only() -> None:
    parts = {f"app-{i}": np.zeros(1) for i in range(12)}
    held_in, held_out = data_sets.split(parts)
    assert (len(held_in), len(held_out)) == (9, 3)
    assert sorted(held_in + held_out) == sorted(parts)
    assert data_sets.split(dict(reversed(parts.items()))) == (held_in, held_out)


def test_files_are_read_with_their_separator(tmp_path: Path) -> None:
    for name in files():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        with gzip.open(path, "wt", newline="") as file:
            csv.writer(file, delimiter="\t" if ".tsv" in name else ",").writerow(["a", "b"])
    assert set(checksums(tmp_path)) == set(files())


def google_job(job: str, seconds: list[float], others: int = 0) -> list[dict[str, object]]:
    """Events of a job whose tasks start at 700 s; `others` are never seen to finish."""
    rows: list[dict[str, object]] = []
    for task, taken in enumerate([*seconds, *[0.0] * others]):
        key = {"job_id": job, "task_index": task}
        rows.append(key | {"event_type": 1, "time_us": 700_000_000})
        if task < len(seconds):
            rows.append(key | {"event_type": 4, "time_us": int((700.0 + taken) * 1e6)})
    return rows


def test_durations_of_tasks_are_relative_to_the_median_of_their_job() -> None:
    rows = google_job("a", [60.0] * 6 + [120.0] * 5)
    found = data_sets.task_durations(reader(google_2011=rows))
    assert list(found) == ["a"]
    assert sorted(found["a"]) == pytest.approx([0.0] * 6 + [np.log(2.0)] * 5)


def test_jobs_with_many_unfinished_or_few_tasks_are_left_out() -> None:
    rows = [
        *google_job("one in eleven", [60.0] * 10, others=1),
        *google_job("one in six", [60.0] * 10, others=2),
        *google_job("few", [60.0] * 9),
        {"job_id": "running", "task_index": 0, "event_type": 1, "time_us": 0},
        {"job_id": "running", "task_index": 0, "event_type": 4, "time_us": 900_000_000},
    ]
    assert list(data_sets.task_durations(reader(google_2011=rows))) == ["one in eleven"]


def memcached(group: str, source: str, most: float, p95_us: float) -> list[dict[str, object]]:
    """Answered queries and latencies at four loads, twice each."""
    return [
        {"group": group, "interference": source, "target_qps": load, "qps": min(load, most)}
        | {"p95_us": p95_us * (1.0 + load / 1000.0)}
        for load in (100.0, 200.0, 400.0, 1000.0)
        for _ in range(2)
    ]


def test_services_are_compared_with_themselves_alone_at_the_same_load() -> None:
    rows = memcached("a", "none", 1000.0, 50.0)
    for source in data_sets.MICROBENCHMARKS:
        rows += memcached("a", source, 500.0 if source == "cpu" else 990.0, 150.0)
    rows += memcached("incomplete", "none", 1000.0, 50.0)
    read = reader(cca_ibench=rows)
    capacity, latency = data_sets.service_capacity(read), data_sets.service_latency(read)
    assert list(capacity) == list(latency) == ["a"]
    # a loss of 1 % counts as 5 %
    assert capacity["a"][0] == pytest.approx([np.log(2.0), *[-np.log(0.95)] * 5])
    assert latency["a"][0] == pytest.approx([np.log(3.0)] * 4)
