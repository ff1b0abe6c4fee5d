"""Nodes of Slurm as platforms and labels of servers, and jobs of Slurm as constraints on them."""

import re
from collections.abc import Collection
from hashlib import sha256
from typing import Final

from apps.execution.core.slurm.values import SlurmJob, SlurmNode

NODE_LABEL: Final = "slurm-node"
PARTITION_LABEL: Final = "slurm-partition-"
FEATURE_LABEL: Final = "slurm-feature-"
YES: Final = "yes"
_GIBIBYTE: Final = 2**30
_LONGEST: Final = 63
_PLAIN_FEATURES: Final = re.compile(r"[\w.-]+(&[\w.-]+)*")


def platform_of(node: SlurmNode) -> str:
    """Return the name of the platform of nodes with these features, cores and this memory."""
    size = f"{node.cpus}c-{max(1, round(node.memory_bytes / _GIBIBYTE))}g"
    name = "-".join(["slurm", *sorted(node.features), size])
    if len(name) <= _LONGEST:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: _LONGEST - len(digest) - len(size) - 2]}-{digest}-{size}"


def labels_of(node: SlurmNode) -> dict[str, str]:
    """Return the labels of a server: its node, partitions and features."""
    return {
        NODE_LABEL: node.name,
        **{PARTITION_LABEL + name: YES for name in sorted(node.partitions)},
        **{FEATURE_LABEL + name: YES for name in sorted(node.features)},
    }


def why_not(job: SlurmJob, nodes: Collection[SlurmNode]) -> str | None:
    """Return why Berth cannot place a marked job; None if it can."""
    if job.is_array:
        return "Berth places no arrays and no parts of heterogeneous jobs"
    if job.node_count > 1:
        return f"it needs {job.node_count} nodes, and Berth places jobs on one"
    if job.features and not _PLAIN_FEATURES.fullmatch(job.features):
        return f"Berth reads features joined by &, not {job.features!r}"
    if not eligible(job, nodes):
        return f"no node of the partition {job.partition} has the features {job.features or 'any'}"
    return None


def eligible(job: SlurmJob, nodes: Collection[SlurmNode]) -> list[SlurmNode]:
    """Return the nodes on which Slurm would let a job run, whatever their state."""
    wanted = set(job.features.split("&")) if job.features else set()
    partitions = set(job.partition.split(","))
    return [
        node
        for node in nodes
        if partitions & set(node.partitions)
        and wanted <= set(node.features)
        and job.cpus <= node.cpus
    ]


def labels_wanted(job: SlurmJob, *, node: str | None = None) -> dict[str, str]:
    """Return the labels that the server of a job must have.

    Parameters
    ----------
    node : where Slurm runs it already; None = nowhere
    """
    if node is not None:
        return {NODE_LABEL: node}
    features = job.features.split("&") if job.features else []
    wanted = {FEATURE_LABEL + name: YES for name in features}
    if "," not in job.partition:  # of several partitions, any will do: the platforms say so
        wanted[PARTITION_LABEL + job.partition] = YES
    return wanted


def name_of(job: SlurmJob) -> str:
    """Return the name of a job in Berth."""
    return f"{_plain(job.name)[:110] or 'job'}-{job.id}"


def application_of(job: SlurmJob) -> str:
    """Return the application of a job: its script, or its name without one."""
    name = _plain(job.command.split(" ")[0].rsplit("/", 1)[-1]) or _plain(job.name)
    return f"slurm-{name[:120] or 'job'}"


def command_of(job: SlurmJob) -> tuple[str, ...]:
    """Return the command that the pages show: the script, or the name of the job."""
    return (job.command or job.name or f"job {job.id}",)


def project_of(account: str) -> str:
    """Return the name that the project of an account would have; empty without an account."""
    return re.sub(r"[^a-z0-9_-]+", "-", account.lower()).strip("-")[:_LONGEST]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", text).strip("._+-")
