"""Parser of the Alibaba GPU cluster trace of 2023: pods with requests and times.

Source: alibaba/clusterdata, cluster-trace-gpu-v2023; Weng et al., "Beware of Fragmentation"
(USENIX ATC 2023).
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from apps.testbed.core.classes import similarity_classes
from apps.testbed.core.jobs import CLASSES, slug
from apps.testbed.core.text_table import Line, SkippedLines, number_in, read_columns, shorten
from apps.testbed.core.trace_workload import TraceFormat, TraceWorkload, job_table
from apps.testbed.core.traces import Bools, Floats, Ints, TraceError

POD_COLUMNS: Final = (
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "creation_time",
    "deletion_time", "scheduled_time",
)  # fmt: skip
OTHER_COLUMNS: Final = ("gpu_spec", "pod_phase", "gpu_spec33")
QOS: Final = ("LS", "BE", "Burstable", "Guaranteed")
MIB: Final = 2**20
SEED: Final = 2023
SHORTEST_S: Final = 1.0


def is_pods_header(text: str) -> bool:
    """Whether a line is the header of a table of pods."""
    return {"cpu_milli", "creation_time"} <= set(text.split(","))


def parse_pods(
    header: Line, rest: Iterable[Line], path: str, name: str, skipped: SkippedLines
) -> TraceWorkload:
    """Read the pods that ran. A pod is a job of one task.

    Latency-sensitive pods (LS) are services that run for their logged time; the others have the
    work of their cores times that time. Applications are classes of pods with similar requests.

    Raises
    ------
    TraceError : a column is missing, or unknown and ``skipped`` is strict; a line is malformed.
    """
    names = [cell.strip() for cell in header[1].split(",")]
    notes = _check_header(names, header[0], path, skipped)
    columns = read_columns(rest, _PodReader(names, path), 8, skipped)
    created, deleted, scheduled = columns[5:8]
    ran = ~np.isnan(scheduled) & (deleted > scheduled) & (scheduled >= created)
    if not ran.any():
        raise TraceError(path, 0, "no pod has a scheduled_time before its deletion_time")
    left_out = int(np.count_nonzero(~ran))
    if left_out:
        notes += (f"{left_out} pods never ran, or still ran at the end, and were left out.",)
    order = np.flatnonzero(ran)[np.argsort(created[ran], kind="stable")]
    return _workload(columns[:, order], name, notes)


def _check_header(
    names: list[str], line: int, path: str, skipped: SkippedLines
) -> tuple[str, ...]:
    if missing := [column for column in POD_COLUMNS if column not in names]:
        raise TraceError(path, line, f"no column {', '.join(missing)}; expected a table of pods")
    unknown = [column for column in names if column not in (*POD_COLUMNS, *OTHER_COLUMNS)]
    if unknown and skipped.strict:
        detail = f"unknown column {', '.join(map(shorten, unknown))}"
        raise TraceError(path, line, detail)
    return (f"unknown columns {', '.join(map(shorten, unknown))} ignored.",) if unknown else ()


class _PodReader:
    """Reads cpu, memory, GPUs, share of a GPU, QoS, created, deleted and scheduled."""

    def __init__(self, names: list[str], path: str) -> None:
        self._names, self._path = names, path
        self._index = {name: i for i, name in enumerate(names)}

    def __call__(self, number: int, text: str) -> list[float]:
        cells = text.split(",")
        if len(cells) != len(self._names):
            detail = f"{len(cells)} columns; the header has {len(self._names)}"
            raise TraceError(self._path, number, detail)
        qos = cells[self._index["qos"]]
        if qos not in QOS:
            detail = f"qos is {shorten(qos)}; expected one of {', '.join(QOS)}"
            raise TraceError(self._path, number, detail)

        def value(column: str) -> float:
            return number_in(cells[self._index[column]], column, self._path, number)

        def time(column: str) -> float:
            return value(column) if cells[self._index[column]] else float("nan")

        return [
            value("cpu_milli"),
            value("memory_mib"),
            value("num_gpu"),
            value("gpu_milli"),
            float(QOS.index(qos)),
            value("creation_time"),
            time("deletion_time"),
            time("scheduled_time"),
        ]


def _workload(columns: Floats, name: str, notes: tuple[str, ...]) -> TraceWorkload:
    cpu, memory, gpus, gpu_milli, qos, created, deleted, scheduled = columns
    units = np.maximum(1, np.ceil(cpu / 1000.0)).astype(np.int64)
    seconds = np.maximum(deleted - scheduled, SHORTEST_S)
    gpu = np.where(gpus == 1, gpu_milli / 1000.0, gpus)
    is_service: Bools = qos == QOS.index("LS")
    application, names, kinds = _applications(cpu, memory, gpu, is_service, name)
    if gpu.any():
        count = int(np.count_nonzero(gpu))
        notes += (f"{count} pods request GPUs; a replay has none and counts cores and memory.",)
    return TraceWorkload(
        name=name,
        format=TraceFormat.ALIBABA_GPU_2023,
        applications=names,
        kinds=kinds,
        jobs=job_table(
            created - created[0],
            application,
            np.where(is_service, np.inf, units * seconds),
            units=units,
            tasks=np.where(is_service, 0, 1),
            seconds=seconds,
            wait_s=scheduled - created,
            unit_memory_bytes=memory * MIB / units,
            gpus=gpu,
        ),
        notes=notes,
    )


def _applications(
    cpu: Floats, memory: Floats, gpu: Floats, is_service: Bools, name: str
) -> tuple[Ints, tuple[str, ...], tuple[str, ...]]:
    features = np.log10(1.0 + np.stack([cpu, memory, 1000.0 * gpu], axis=1))
    classes = similarity_classes(features, CLASSES, np.random.default_rng(SEED))
    labels, application = np.unique(2 * classes + is_service, return_inverse=True)
    trace = slug(name)
    names = tuple(f"{trace}-{'ls' if label % 2 else 'be'}{label // 2:02d}" for label in labels)
    kinds = tuple("latency_critical" if label % 2 else "single_node" for label in labels)
    return application.astype(np.int64), names, kinds
