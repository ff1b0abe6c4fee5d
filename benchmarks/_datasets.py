"""Readers of the real measurements: applications x configurations, as performance.

Every reader takes the folder of the sets and returns blocks. Values are performance, higher is
better: runtimes are inverted. Rows that belong to one application share a group and are held out
together. Only the given folder is read.
"""

import csv
import gzip
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from apps.classification.core.matrix import Scale
from apps.inventory.core.snapshot import Floats

SPARECORES_MACHINES: Final = 40
ALOJA_CELLS_PER_ROW: Final = 8
ALOJA_CELLS_PER_COLUMN: Final = 30

Cells = Mapping[tuple[str, str], list[float]]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """One matrix of measurements.

    Attributes
    ----------
    name : of the set, a dot and the part
    rows, columns : n and m labels
    values : (n, m) performance, higher is better; NaN where not measured; > 0 on the log scale
    groups : (n,) application of each row
    scale : the space errors are compared in
    """

    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Floats
    groups: tuple[str, ...]
    scale: Scale = Scale.LOG


Reader = Callable[[Path], tuple[Block, ...]]


def scout_multinode(root: Path) -> tuple[Block, ...]:
    """Hadoop and Spark workloads x EC2 clusters; both input sizes of an application together."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(root / "scout_multinode" / "runs.csv.gz"):
        column = f"{line['vm_type']} x{line['nodes']}"
        cells[line["workload"], column].append(1.0 / float(line["runtime_s"]))
    return (_block("scout_multinode.runs", cells, lambda row: row.rsplit("_", 1)[0]),)


def ibm_multicloud(root: Path) -> tuple[Block, ...]:
    """Dask tasks x configurations of three clouds; all data sets of a task together."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    of_a, of_b = ("provider", "A_family", "A_vcpu"), ("B_family", "B_vcpu")
    parts = (*of_a, *of_b, "C_family", "C_type", "C_vcpu", "nodes")
    for line in _lines(root / "ibm_multicloud" / "runs.csv.gz"):
        if line["status"] == "ok":
            column = "/".join(line[part] for part in parts)
            cells[line["workload"], column].append(1.0 / float(line["target_runtime"]))
    return (_block("ibm_multicloud.runs", cells, lambda row: row.split("-", 1)[1]),)


def aloja(root: Path) -> tuple[Block, ...]:
    """HiBench with Hadoop settings x clusters: the part where rows and columns have enough cells.

    Preparation steps (``prep_sort``) go with their benchmark (``sort``).
    """
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    settings = ("Benchmark", "Maps", "IO.SFac", "Rep", "IO.FBuf", "Comp", "Blk.size")
    servers = ("Cluster", "Net", "Disk", "Datanodes", "VM.Size")
    for line in _lines(root / "aloja" / "runs.csv.gz"):
        row = "/".join(line[part] for part in settings)
        column = "/".join(line[part] for part in servers)
        cells[row, column].append(1.0 / float(line["Exe.Time"]))
    whole = _block("aloja.runs", cells, _aloja_benchmark)
    return (_densest(whole, ALOJA_CELLS_PER_ROW, ALOJA_CELLS_PER_COLUMN),)


def c3o(root: Path) -> tuple[Block, ...]:
    """Spark jobs on one machine type with one input x node counts 2 to 12 (a scale-out matrix)."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    fixed = {"instance_count", "slots", "memory", "gross_runtime"}
    for path in sorted((root / "c3o").glob("*.tsv.gz")):
        for line in _lines(path, delimiter="\t"):
            inputs = "/".join(value for key, value in line.items() if key not in fixed)
            row = f"{path.name.split('.')[0]}/{inputs}"
            cells[row, line["instance_count"]].append(1.0 / float(line["gross_runtime"]))
    return (_block("c3o.scale_out", cells, lambda row: row.split("/", 1)[0]),)


def cherrypick_lynceus(root: Path) -> tuple[Block, ...]:
    """Big-data applications x EC2 clusters, and training of networks x EC2 clusters."""
    folder = root / "cherrypick_lynceus"
    clusters: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(folder / "cherrypick.csv.gz"):
        column = f"{line['vm_name']} x{line['num_machines']}"
        clusters[line["app"], column].append(1.0 / float(line["time"]))
    training: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(folder / "tensorflow.csv.gz"):
        knobs = ("network", "learning_rate", "batch_size", "synchronism")
        row = "/".join(line[part] for part in knobs)
        column = f"{line['vm_flavor']} x{line['n_workers']}"
        training[row, column].append(1.0 / float(line["training_time"]))
    return (
        _block("cherrypick_lynceus.cherrypick", clusters, str),
        _block("cherrypick_lynceus.tensorflow", training, lambda row: row.split("/", 1)[0]),
    )


def gavel(root: Path) -> tuple[Block, ...]:
    """Training jobs x GPUs, and x neighbours on one GPU; all batch sizes of a model together."""
    alone: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(root / "gavel" / "isolated.csv.gz"):
        if float(line["steps_per_s"]) > 0:
            column = f"{line['gpu']} x{line['num_gpus']}"
            alone[line["job_type"], column].append(float(line["steps_per_s"]))
    pairs: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(root / "gavel" / "pairs.csv.gz"):
        a, b, gpu = line["job_a"], line["job_b"], line["gpu"]
        if float(line["norm_a"]) > 0 and float(line["norm_b"]) > 0:
            pairs[a, f"{gpu} beside {b}"].append(float(line["norm_a"]))
            if a != b:
                pairs[b, f"{gpu} beside {a}"].append(float(line["norm_b"]))
    return (
        _block("gavel.isolated", alone, _model),
        _block("gavel.pairs", pairs, _model),
    )


def cca_ibench(root: Path) -> tuple[Block, ...]:
    """PARSEC jobs x sources of interference, and x threads; a job of all teams together."""
    folder = root / "cca_ibench"
    by_pair: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(folder / "parsec_interference.csv.gz"):
        row = f"{line['benchmark']}/{line['group']}/{line['input']}"
        by_pair[row, line["interference"]].append(1.0 / float(line["real_s"]))
    threads: dict[tuple[str, str], list[float]] = defaultdict(list)
    for line in _lines(folder / "parsec_threads.csv.gz"):
        row = f"{line['benchmark']}/{line['group']}/{line['input']}"
        threads[row, line["threads"]].append(1.0 / float(line["real_s"]))
    return (
        _block("cca_ibench.interference", by_pair, lambda row: row.split("/", 1)[0]),
        _block("cca_ibench.threads", threads, lambda row: row.split("/", 1)[0]),
    )


def sparecores(root: Path) -> tuple[Block, ...]:
    """Benchmarks x 40 machine types spread evenly over those measured on every benchmark."""
    path = root / "sparecores" / "benchmark_by_machine.csv.gz"
    with gzip.open(path, "rt", newline="") as stream:
        table = list(csv.reader(stream))
    machines = tuple(table[0][1:])
    rows = tuple(line[0] for line in table[1:])
    values = np.array([[float(x) if x else np.nan for x in line[1:]] for line in table[1:]])
    latency = np.array(["LATENCY" in row for row in rows])
    values[latency] = 1.0 / values[latency]
    full = np.flatnonzero((np.isnan(values).mean(axis=0) == 0) & (values > 0).all(axis=0))
    picked = full[np.linspace(0, full.size - 1, SPARECORES_MACHINES).round().astype(np.int64)]
    return (
        Block(
            "sparecores.machines",
            rows,
            tuple(machines[i] for i in picked),
            values[:, picked],
            tuple(_family(row) for row in rows),
        ),
    )


READERS: Final[dict[str, Reader]] = {
    "sparecores": sparecores,
    "scout_multinode": scout_multinode,
    "ibm_multicloud": ibm_multicloud,
    "aloja": aloja,
    "c3o": c3o,
    "cherrypick_lynceus": cherrypick_lynceus,
    "gavel": gavel,
    "cca_ibench": cca_ibench,
}


def _lines(path: Path, delimiter: str = ",") -> Iterable[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as stream:
        yield from csv.DictReader(stream, delimiter=delimiter)


def _block(name: str, cells: Cells, group: Callable[[str], str]) -> Block:
    """Build the matrix of the medians of repeated measurements."""
    rows = tuple(sorted({row for row, _ in cells}))
    columns = tuple(sorted({column for _, column in cells}))
    row_at = {row: i for i, row in enumerate(rows)}
    column_at = {column: j for j, column in enumerate(columns)}
    values = np.full((len(rows), len(columns)), np.nan)
    for (row, column), measured in cells.items():
        values[row_at[row], column_at[column]] = np.median(measured)
    return Block(name, rows, columns, values, tuple(group(row) for row in rows))


def _densest(block: Block, per_row: int, per_column: int) -> Block:
    """Drop rows and columns with too few cells until none is left."""
    known = ~np.isnan(block.values)
    rows, columns = np.arange(known.shape[0]), np.arange(known.shape[1])
    size = -1
    while size != rows.size + columns.size:
        size = rows.size + columns.size
        rows = rows[known[np.ix_(rows, columns)].sum(axis=1) >= per_row]
        columns = columns[known[np.ix_(rows, columns)].sum(axis=0) >= per_column]
    return Block(
        block.name,
        tuple(block.rows[i] for i in rows),
        tuple(block.columns[j] for j in columns),
        block.values[np.ix_(rows, columns)],
        tuple(block.groups[i] for i in rows),
        block.scale,
    )


def _aloja_benchmark(row: str) -> str:
    return row.split("/", 1)[0].removeprefix("prep_").removesuffix("_read").removesuffix("_write")


def _model(job: str) -> str:
    return job.split(" (", 1)[0]


def _family(benchmark: str) -> str:
    """``brotli_0_compress_multi:Bps`` is of brotli, ``geekbench6_multi:HDR`` of HDR."""
    head, _, tail = benchmark.partition(":")
    if head.startswith("geekbench") or head == "passmark":
        return tail
    if head in {"openssl", "bw_mem"}:
        return tail.split("_", 1)[0]
    return head.split("_", 1)[0]
