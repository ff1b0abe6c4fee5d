"""Read the measurements into arrays whose first axis is what a bootstrap resamples.

Every reader takes a function that returns the rows of a file of the data folder. Values are NaN
where nothing was measured.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import numpy as np

from apps.emulation.core.truth import QOS
from apps.inventory.core.snapshot import Floats

Row = Mapping[str, str]
ReadRows = Callable[[str], Iterable[Row]]
Labelled = dict[str, Floats]  # one array for each application, test or family

HELD_OUT_SHARE: Final = 0.25
MACHINES: Final = 60
MICROBENCHMARKS: Final = ("cpu", "l1d", "l1i", "l2", "llc", "membw")
SHARING: Final = ("cpu", "l1i", "llc", "membw")  # whose effect on latencies is compared
LOAD, PERCENTILE = 0.3, 0.95  # share of the capacity alone at which it is, and of which queries
MIN_SLOWDOWN: Final = 0.005  # log; less is noise
C3O_JOBS: Final = ("sort", "grep", "kmeans", "sgd", "pagerank")
C3O_OUTCOME: Final = frozenset({"instance_count", "slots", "memory", "gross_runtime"})
MIN_RUNS: Final = 20  # of an Azure month
MIN_TASKS: Final = 10  # of a Google job
SCHEDULED, FINISHED, ENDED = "1", "4", frozenset("23456")  # events of a Google task


def split(parts: Labelled) -> tuple[list[str], list[str]]:
    """Names of the held-in and the held-out part; the same for the same names."""
    order = sorted(parts, key=lambda name: sha256(name.encode()).hexdigest())
    held_out = max(1, round(HELD_OUT_SHARE * len(order)))
    return sorted(order[held_out:]), sorted(order[:held_out])


def stacked(parts: Labelled, names: Sequence[str]) -> Floats:
    """(n, k, ...) the arrays of some names, padded with NaN to the same number of rows."""
    rows = max(len(parts[name]) for name in names)
    first = next(iter(parts.values()))
    table = np.full((len(names), rows, *first.shape[1:]), np.nan)
    for i, name in enumerate(names):
        table[i, : len(parts[name])] = parts[name]
    return table


def scout(read: ReadRows) -> Labelled:
    """Log speed of both inputs of each application on all clusters, (inputs, columns)."""
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    for row in read("scout_multinode/runs.csv.gz"):
        cells[row["workload"]][f"{row['vm_type']} {row['nodes']}"] = -_log(row["runtime_s"])
    return _matrix(cells, lambda workload: workload.rsplit("_", 1)[0])


def ibm(read: ReadRows) -> Labelled:
    """Log speed of each workload on all configurations, (1, columns)."""
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    labels = ("workload", "target_cost", "target_runtime", "status")
    for row in read("ibm_multicloud/runs.csv.gz"):
        if row["status"] == "ok":
            column = " ".join(value for key, value in row.items() if key not in labels)
            cells[row["workload"]][column] = -_log(row["target_runtime"])
    return _matrix(cells, lambda workload: workload)


def sparecores(read: ReadRows) -> Labelled:
    """Log score per core of each family's benchmarks on sixty machines, (benchmarks, machines).

    Scores of one core or of memory latency are not divided.
    """
    facts = read("sparecores/machines.csv.gz")
    cores = {f"{row['vendor']}/{row['machine_type']}": row["cpus"] for row in facts}
    cells: dict[str, dict[str, float]] = defaultdict(dict)
    for row in read("sparecores/benchmark_by_machine.csv.gz"):
        name = row["benchmark"]
        for machine, score in row.items():
            if score and cores.get(machine):
                sign = -1.0 if "LATENCY" in name else 1.0
                divided = 0.0 if _is_of_one_core(name) else _log(cores[machine])
                cells[name][machine] = sign * _log(score) - divided
    return _matrix(cells, _family, columns=MACHINES)


def parsec_scaling(read: ReadRows) -> Labelled:
    """Log speed-up of each benchmark on 4 and 8 threads by every group, (groups, 2)."""
    seconds = _grouped(
        read("cca_ibench/parsec_threads.csv.gz"), ("benchmark", "group", "threads"), "real_s"
    )
    found: dict[str, list[list[float]]] = defaultdict(list)
    for name, group in sorted({key[:2] for key in seconds}):
        times = [seconds.get((name, group, n)) for n in ("1", "4", "8")]
        if all(times):
            one, four, eight = (float(np.median(runs)) for runs in times if runs)
            found[name].append([np.log(one / four), np.log(one / eight)])
    return _arrays(found)


def scale_out(read: ReadRows) -> Labelled:
    """Exponent of the speed-up between 4 and 12 servers, by job and context, (contexts,).

    Exponents above 1, of data that does not fit in the memory of a few servers, count as 1.
    """
    runs: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read("scout_multinode/runs.csv.gz"):
        job = f"scout {row['workload'].rsplit('_', 1)[0]}"
        key = job, f"{row['workload']} {row['vm_type']}"
        runs[key][int(row["nodes"])].append(float(row["runtime_s"]))
    for job in C3O_JOBS:
        for row in read(f"c3o/{job}.tsv.gz"):
            context = " ".join(v for k, v in row.items() if k not in C3O_OUTCOME)
            runs[f"c3o {job}", context][int(row["instance_count"])].append(
                float(row["gross_runtime"])
            )
    found: dict[str, list[float]] = defaultdict(list)
    for (job, _), by_nodes in sorted(runs.items()):
        if 4 in by_nodes and 12 in by_nodes:
            ratio = np.median(by_nodes[4]) / np.median(by_nodes[12])
            found[job].append(min(float(np.log(ratio) / np.log(3.0)), 1.0))
    return _arrays(found)


def slowdowns(read: ReadRows) -> Labelled:
    """Log slowdown of each benchmark next to six microbenchmarks, median over groups, (1, 6)."""
    keys = ("benchmark", "group", "machine", "input", "interference")
    seconds = _grouped(read("cca_ibench/parsec_interference.csv.gz"), keys, "real_s")
    logs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (name, *rest, source), times in seconds.items():
        alone = seconds.get((name, *rest, "none"))
        if source != "none" and alone:
            logs[name, source].append(float(np.log(np.median(times) / np.median(alone))))
    names = sorted({name for name, _ in logs})
    return {
        name: np.array(
            [[max(float(np.median(logs[name, s])), MIN_SLOWDOWN) for s in MICROBENCHMARKS]]
        )
        for name in names
        if all((name, s) in logs for s in MICROBENCHMARKS)
    }


def service_capacity(read: ReadRows) -> Labelled:
    """Log slowdown of memcached's capacity next to six microbenchmarks by set-up, (1, 6).

    The capacity is the most queries per second that it answered at any offered load. Losses below
    5 % count as 5 %: in the worlds, a service that tolerates full intensity loses as much.
    """
    found = {}
    for group, curves in _memcached(read).items():
        most = {source: float(curve[:, 1].max()) for source, curve in curves.items()}
        logs = [[np.log(most["none"] / most[source]) for source in MICROBENCHMARKS]]
        found[group] = np.maximum(logs, -np.log(QOS))
    return found


def service_latency(read: ReadRows) -> Labelled:
    """Log ratio of memcached's 95th percentile to that alone, at 30 % of its capacity, (1, 4).

    Next to the microbenchmarks of `SHARING`. Those of l1d and l2 reduce the capacity, but not the
    latency at such a load: they leave the core to memcached while it has few queries.
    """
    found = {}
    for group, curves in _memcached(read).items():
        load = LOAD * curves["none"][:, 1].max()
        logs = {s: np.interp(load, curve[:, 0], curve[:, 2]) for s, curve in curves.items()}
        found[group] = np.array([[logs[s] - logs["none"] for s in SHARING]])
    return found


def _memcached(read: ReadRows) -> dict[str, dict[str, Floats]]:
    """By set-up and source, (loads, 3): offered, answered queries/s, log 95th percentile."""
    runs: dict[tuple[str, str], dict[float, list[tuple[float, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in read("cca_ibench/memcached_interference.csv.gz"):
        if row["target_qps"] and row["qps"] and row["p95_us"]:
            of_load = runs[row["group"], row["interference"]][float(row["target_qps"])]
            of_load.append((float(row["qps"]), _log(row["p95_us"])))
    curves: dict[str, dict[str, Floats]] = defaultdict(dict)
    for (group, source), by_load in sorted(runs.items()):
        curves[group][source] = np.array(
            [[load, *np.median(by_load[load], axis=0)] for load in sorted(by_load)]
        )
    every = {"none", *MICROBENCHMARKS}
    return {group: found for group, found in curves.items() if every <= found.keys()}


def classes(read: ReadRows) -> Labelled:
    """Class of the noise that each program causes and of its sensitivity, (1, 2)."""
    return {
        row["name"]: np.array([[float(row["noise"]), float(row["sensitivity"])]])
        for row in read("actimanager/noise_sensitivity.csv.gz")
    }


def shared_gpus(read: ReadRows) -> Labelled:
    """Loss of each job type next to every other one by kind of GPU, (1, jobs, GPUs)."""
    rows = [row for row in read("gavel/pairs.csv.gz") if float(row["norm_a"] or 0.0) > 0.0]
    jobs = sorted({row[side] for row in rows for side in ("job_a", "job_b")})
    gpus = sorted({row["gpu"] for row in rows})
    loss = np.full((len(jobs), len(jobs), len(gpus)), np.nan)
    for row in rows:
        a, b, gpu = jobs.index(row["job_a"]), jobs.index(row["job_b"]), gpus.index(row["gpu"])
        loss[a, b, gpu], loss[b, a, gpu] = 1.0 - float(row["norm_a"]), 1.0 - float(row["norm_b"])
    return {job: loss[i : i + 1] for i, job in enumerate(jobs)}


def repeated_runs(read: ReadRows) -> Labelled:
    """Log standard deviation of each test on one long-lived server, relative to its mean, (1,)."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in read("azure_vm_noise/monthly.csv.gz"):
        if row["vm_lifespan"] == "long" and int(row["n"]) >= MIN_RUNS:
            found[_test(row)].append(float(row["sd"]) / float(row["mean"]))
    medians = {name: float(np.median(values)) for name, values in found.items()}
    return {name: np.array([np.log(value)]) for name, value in medians.items() if value > 0.0}


def servers(read: ReadRows) -> Labelled:
    """Log ratio of the median server to the slowest 5 % and 1 % of servers by test, (1, 2)."""
    found: dict[str, list[list[float]]] = defaultdict(list)
    for row in read("azure_vm_noise/monthly.csv.gz"):
        if row["vm_lifespan"] == "short" and int(row["n"]) >= 5 * MIN_RUNS:
            ranks = ("p05", "p01") if _is_higher_better(row["unit"]) else ("p95", "p99")
            ends = [float(row[rank]) for rank in ranks]
            if min(ends) > 0.0 and float(row["p50"]) > 0.0:
                found[_test(row)].append([abs(np.log(end / float(row["p50"]))) for end in ends])
    return {name: np.median(values, axis=0)[None] for name, values in found.items()}


def task_durations(read: ReadRows) -> Labelled:
    """Log durations of the tasks of each job over their median, (tasks,).

    Of tasks that started in the trace. Jobs of which more than a tenth of the tasks were stopped,
    failed or ran longer than the trace are left out: their slow tasks are not known.
    """
    started: dict[tuple[str, str], float] = {}
    ended: dict[str, list[float]] = defaultdict(list)
    others: dict[str, int] = defaultdict(int)
    for row in read("google_2011/task_events.csv.gz"):
        key, kind, at_us = (row["job_id"], row["task_index"]), row["event_type"], row["time_us"]
        if kind == SCHEDULED and int(at_us) > 0:
            started[key] = float(at_us)
        elif kind in ENDED and key in started:
            seconds = (float(at_us) - started.pop(key)) / 1e6
            if kind == FINISHED:
                ended[key[0]].append(max(seconds, 1.0))
            else:
                others[key[0]] += 1
    for job, _ in started:
        others[job] += 1
    return {
        job: np.log(seconds) - np.log(np.median(seconds))
        for job, seconds in sorted(ended.items())
        if len(seconds) >= MIN_TASKS and others[job] <= len(seconds) / 9
    }


def _is_of_one_core(benchmark: str) -> bool:
    lower = benchmark.lower()
    one = "single" in lower or lower.startswith("redis")
    return one or ("ME_" in benchmark and "THREADED" not in benchmark)


def _family(benchmark: str) -> str:
    head, _, tail = benchmark.partition(":")
    return f"{head} {tail}" if head.startswith(("geekbench", "passmark")) else head.split("_")[0]


def _test(row: Row) -> str:
    return f"{row['test_suite']} {row['test_name']} {row['sku']}"


def _is_higher_better(unit: str) -> bool:
    return unit not in {"ms", "msec", "us Per Event"}


def _log(text: str) -> float:
    return float(np.log(float(text)))


def _grouped(
    rows: Iterable[Row], keys: tuple[str, ...], value: str
) -> dict[tuple[str, ...], list[float]]:
    found: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        if row[value]:
            found[tuple(row[key] for key in keys)].append(float(row[value]))
    return found


def _arrays(found: Mapping[str, Sequence[object]]) -> Labelled:
    return {name: np.array(values, dtype=float) for name, values in sorted(found.items())}


def _matrix(
    cells: Mapping[str, Mapping[str, float]],
    label: Callable[[str], str],
    *,
    columns: int | None = None,
) -> Labelled:
    """Rows on the columns that most rows have, or on some of these, evenly spaced."""
    names = sorted({column for row in cells.values() for column in row})
    shared = [c for c in names if sum(c in row for row in cells.values()) >= 0.95 * len(cells)]
    if columns is not None and len(shared) > columns:
        shared = [shared[i] for i in np.linspace(0, len(shared) - 1, columns).astype(int)]
    found: dict[str, list[list[float]]] = defaultdict(list)
    for name, row in sorted(cells.items()):
        found[label(name)].append([row.get(column, np.nan) for column in shared])
    return _arrays(found)
