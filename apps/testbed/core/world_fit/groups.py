"""Groups of fitted figures: their measurements, their figures and their repetition in a world."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.emulation.core.draws import ANALYTICS, BATCH, LATENCY_CRITICAL, SINGLE_NODE
from apps.emulation.core.worlds import World
from apps.inventory.core.snapshot import Floats, Ints
from apps.testbed.core.world_fit import data_sets, figures, simulated
from apps.testbed.core.world_fit.data_sets import Labelled, ReadRows

FILES: Final = {
    "scout_multinode": ("runs.csv.gz",),
    "ibm_multicloud": ("runs.csv.gz",),
    "sparecores": ("benchmark_by_machine.csv.gz", "machines.csv.gz"),
    "cca_ibench": (
        "parsec_threads.csv.gz",
        "parsec_interference.csv.gz",
        "memcached_interference.csv.gz",
    ),
    "c3o": tuple(f"{job}.tsv.gz" for job in data_sets.C3O_JOBS),
    "actimanager": ("noise_sensitivity.csv.gz",),
    "gavel": ("pairs.csv.gz",),
    "azure_vm_noise": ("monthly.csv.gz",),
    "google_2011": ("task_events.csv.gz",),
}


def _chosen_rows(values: Floats, chosen: Ints) -> Floats:
    return values[chosen]


def _pairs(values: Floats, chosen: Ints) -> Floats:
    return values[np.ix_(chosen, chosen)]


@dataclass(frozen=True, slots=True)
class Group:
    """Figures of one kind of measurement.

    Attributes
    ----------
    name, title : key, and heading of the figure
    sets : folders of the data
    resampled : what a bootstrap resamples, and what is held out
    kind : of the applications that the world draws
    read : the measurements by application, test or family
    figures : names of the figures
    compute : the figures of an array
    simulate : the array in a world, of the shape of another one, by seed
    resample : rows of an array by index
    scale : the fit minimises misses relative to the figures, or to this if they are smaller
    axis : name of the quantity whose distribution is drawn
    """

    name: str
    title: str
    sets: tuple[str, ...]
    resampled: str
    kind: str
    read: Callable[[ReadRows], Labelled]
    figures: tuple[str, ...]
    compute: Callable[[Floats], Floats]
    simulate: Callable[[World, str, Floats, int], Floats]
    axis: str
    resample: Callable[[Floats, Ints], Floats] = _chosen_rows
    scale: float = 0.1

    def parts(self, read: ReadRows) -> tuple[Floats, Floats]:
        """Held-in and held-out measurements."""
        found = self.read(read)
        held_in, held_out = data_sets.split(found)
        return self.selected(found, held_in), self.selected(found, held_out)

    def selected(self, found: Labelled, names: list[str]) -> Floats:
        """Measurements of some names; of pairs, those among them."""
        values = data_sets.stacked(found, names)
        if self.resample is _pairs:
            order = sorted(found)
            values = values[:, 0][:, [order.index(name) for name in names]]
        return values

    def drawn(self, values: Floats) -> Floats:
        """Sample whose distribution is drawn."""
        is_table = self.compute is figures.heterogeneity
        if is_table:
            rows = values.reshape(-1, values.shape[-1])
            values = figures.doubly_centred(rows[~np.isnan(rows).all(axis=1)])
        return values[~np.isnan(values)]


SPECTRUM: Final = ("spread", "share of 1 component", "share of 2", "share of 3")


def _heterogeneity(
    kind: str, source: str, resampled: str, read: Callable[[ReadRows], Labelled]
) -> Group:
    return Group(
        name=f"heterogeneity {kind}",
        title=f"Heterogeneity, {kind}",
        sets=(source,),
        resampled=resampled,
        kind=kind,
        read=read,
        figures=SPECTRUM,
        compute=figures.heterogeneity,
        simulate=simulated.heterogeneity,
        axis="log speed without the means of its row and column",
    )


GROUPS: Final = (
    _heterogeneity(ANALYTICS, "scout_multinode", "applications", data_sets.scout),
    _heterogeneity(BATCH, "ibm_multicloud", "workloads", data_sets.ibm),
    _heterogeneity(SINGLE_NODE, "sparecores", "benchmark families", data_sets.sparecores),
    Group(
        name="scale-up",
        title="Speed-up on the cores of one server",
        sets=("cca_ibench",),
        resampled="benchmarks",
        kind=BATCH,
        read=data_sets.parsec_scaling,
        figures=("mean, 4 units", "mean, 8 units", "deviation, 4 units", "deviation, 8 units"),
        compute=figures.scale_up,
        simulate=simulated.scale_up,
        axis="log speed-up on 4 and 8 units",
    ),
    Group(
        name="scale-out",
        title="Speed-up on several servers",
        sets=("scout_multinode", "c3o"),
        resampled="jobs",
        kind=ANALYTICS,
        read=data_sets.scale_out,
        figures=("mean exponent", "deviation"),
        compute=figures.scale_out,
        simulate=simulated.scale_out,
        axis="exponent of the speed-up from 4 to 12 servers",
    ),
    Group(
        name="slowdown",
        title="Slowdown next to a microbenchmark at full intensity",
        sets=("cca_ibench",),
        resampled="benchmarks",
        kind=BATCH,
        read=data_sets.slowdowns,
        figures=(*data_sets.MICROBENCHMARKS, "deviation", "correlation of sources"),
        compute=figures.slowdown,
        simulate=simulated.slowdown,
        axis="log slowdown",
    ),
    Group(
        name="caused and sensitivity, CPU",
        title="What programs cause and how sensitive they are, CPU",
        sets=("actimanager",),
        resampled="programs",
        kind=SINGLE_NODE,
        read=data_sets.classes,
        figures=("correlation",),
        compute=figures.class_correlation,
        simulate=simulated.classes,
        axis="class",
    ),
    Group(
        name="caused and sensitivity, GPU",
        title="Loss of job types that share a GPU",
        sets=("gavel",),
        resampled="job types",
        kind=BATCH,
        read=data_sets.shared_gpus,
        figures=("correlation",),
        compute=figures.pair_correlation,
        simulate=simulated.shared,
        axis="loss next to another job",
        resample=_pairs,
    ),
    Group(
        name="noise",
        title="Noise of repeated runs",
        sets=("azure_vm_noise",),
        resampled="tests",
        kind=BATCH,
        read=data_sets.repeated_runs,
        figures=("mean", "deviation"),
        compute=figures.noise,
        simulate=simulated.noise,
        axis="log of the relative standard deviation",
    ),
    Group(
        name="servers",
        title="Slow servers",
        sets=("azure_vm_noise",),
        resampled="tests",
        kind=BATCH,
        read=data_sets.servers,
        figures=("slowest 5 %", "slowest 1 %"),
        compute=figures.server_speed,
        simulate=simulated.server_speed,
        axis="log ratio of the median server to slow ones",
    ),
    Group(
        name="tasks",
        title="Durations of the tasks of a job",
        sets=("google_2011",),
        resampled="jobs",
        kind=BATCH,
        read=data_sets.task_durations,
        figures=(
            "mean log coefficient of variation",
            "deviation of it",
            "slowest 10 % to median, log",
            "slowest task to median, log",
        ),
        compute=figures.task_durations,
        simulate=simulated.tasks,
        axis="log of the duration over the job's median",
    ),
    Group(
        name="service capacity",
        title="Loss of a service's capacity next to a microbenchmark",
        sets=("cca_ibench",),
        resampled="set-ups",
        kind=LATENCY_CRITICAL,
        read=data_sets.service_capacity,
        figures=data_sets.MICROBENCHMARKS,
        compute=figures.service_capacity,
        simulate=simulated.service_capacity,
        axis="log slowdown of the capacity",
    ),
    Group(
        name="service latency",
        title="Latency of a service next to a microbenchmark, at 30 % load",
        sets=("cca_ibench",),
        resampled="set-ups",
        kind=LATENCY_CRITICAL,
        read=data_sets.service_latency,
        figures=data_sets.SHARING,
        compute=figures.service_latency,
        simulate=simulated.service_latency,
        axis="log ratio of the 95th percentile to that alone",
        scale=1.0,  # equal errors of a latency are equally bad next to all microbenchmarks
    ),
)
