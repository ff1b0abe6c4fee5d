"""Launches, migrations and reports of running jobs."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import Q

from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import DatabaseClock
from apps.inventory.models import Server
from apps.workloads.models import Job

ONE_OPEN_PROPOSAL: Final = "one_open_proposal"  # constraint


class BackendHolder(models.Model):
    """The process that runs a backend; the token counts the processes that have run it."""

    backend = models.CharField(max_length=31, primary_key=True)
    worker = models.CharField(max_length=63)
    token = models.PositiveBigIntegerField()
    held_until = models.DateTimeField()
    session_pid = models.IntegerField(help_text="process id of its database session")
    session_started = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.backend} of {self.worker}"


class LaunchState(models.TextChoices):
    """State of a launch at its backend."""

    REQUESTED = "requested"
    RUNNING = "running"
    ENDED = "ended"


class Launch(models.Model):
    """One start of one job by one backend; at most one live launch per job."""

    # the index of launch_attempt_once begins with it
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="launches", db_index=False)
    attempt = models.PositiveIntegerField()
    backend = models.CharField(max_length=31)
    state = models.CharField(
        max_length=9, choices=LaunchState.choices, default=LaunchState.REQUESTED
    )
    order = models.JSONField(help_text="parts (server, units) and what the backend must know")
    cancel_requested = models.BooleanField(default=False)
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(
        null=True, help_text="until when its process starts it, or says that it runs it"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)
    outcome = models.CharField(max_length=10, blank=True)
    message = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job", "attempt"], name="launch_attempt_once"),
            models.UniqueConstraint(
                fields=["job"],
                name="one_live_launch",
                condition=Q(state__in=["requested", "running"]),
            ),
        )
        indexes = (
            # backends: the next launches, in order; live ones after a restart; cancellations
            models.Index(
                fields=["backend", "state", "id"],
                name="launch_live",
                condition=Q(state__in=["requested", "running"]),
            ),
        )

    def __str__(self) -> str:
        return f"{self.job_id} #{self.attempt} {self.state}"


class MigrationState(models.TextChoices):
    """State of a migration; requested and running ones are open."""

    REQUESTED = "requested"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


_OPEN = Q(state__in=["requested", "running"])


class Migration(models.Model):
    """A migration of units of a running job to another server; at most one open per job.

    The units of both servers are allocated from the request to the end: ``source_allocation_id``
    and ``target_allocation_id`` refer to ``scheduling.Allocation``; one of them is then released.
    """

    # migration_by_job begins with it
    job = models.ForeignKey(
        Job, on_delete=models.CASCADE, related_name="migrations", db_index=False
    )
    launch = models.ForeignKey(Launch, on_delete=models.CASCADE, related_name="migrations")
    source_allocation_id = models.BigIntegerField()
    target_allocation_id = models.BigIntegerField(unique=True)
    from_server_id = models.BigIntegerField()
    to_server_id = models.BigIntegerField()
    units = models.PositiveIntegerField()
    predicted_s = models.FloatField(help_text="cluster seconds it should take")
    state = models.CharField(
        max_length=9, choices=MigrationState.choices, default=MigrationState.REQUESTED
    )
    cancel_requested = models.BooleanField(default=False)
    claimed_by = models.CharField(max_length=63, blank=True)
    claimed_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    requested_s = models.FloatField()
    started_s = models.FloatField(null=True)
    ended_s = models.FloatField(null=True)
    reason_code = models.CharField(max_length=40, help_text="why it was asked for")
    message = models.CharField(max_length=500, blank=True, help_text="why it was not done")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["job"], name="one_open_migration", condition=_OPEN),
        )
        indexes = (
            # backends: open migrations; the sweep: those whose launch has ended
            models.Index(fields=["id"], name="migration_open", condition=_OPEN),
            # the migrations of a job, newest first
            models.Index(fields=["job", "-id"], name="migration_by_job"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} {self.from_server_id} to {self.to_server_id} {self.state}"


class ProposalState(models.TextChoices):
    """State of a proposed preemption."""

    PROPOSED = "proposed", "waits for an operator, or is being applied"
    APPLIED = "applied"
    WITHDRAWN = "withdrawn", "no longer possible or needed"
    DISMISSED = "dismissed", "dismissed by an operator"


class PreemptionProposal(models.Model):
    """A preemption that Berth proposes for a waiting job; in automatic mode it applies it next.

    ``preview`` names the victims; ``victims``, ``lost`` and ``broken`` are their number, the
    unit-seconds of work that they lose and the number of promises that they break.
    """

    job_id = models.UUIDField()
    state = models.CharField(
        max_length=9, choices=ProposalState.choices, default=ProposalState.PROPOSED
    )
    is_automatic = models.BooleanField(help_text="applied without an operator")
    at = models.DateTimeField(db_default=DatabaseClock())
    cluster_s = models.FloatField()
    basis = models.CharField(max_length=32)
    victims = models.PositiveIntegerField()
    lost = models.BigIntegerField()
    broken = models.PositiveIntegerField()
    preview = models.JSONField(help_text="victims, with what each loses and why it was chosen")
    message = models.CharField(max_length=500, blank=True, help_text="why it was withdrawn")
    decided_at = models.DateTimeField(null=True, help_text="when it was applied or dismissed")
    decided_s = models.FloatField(null=True, help_text="the same in cluster time")
    decided_by = models.CharField(
        max_length=150, blank=True, help_text="name of the operator; empty: Berth itself"
    )
    overridden = models.JSONField(
        default=list, help_text="limits that the operator has overridden"
    )

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["job_id"], name=ONE_OPEN_PROPOSAL, condition=Q(state="proposed")
            ),
        )
        indexes = (
            # victims of the last hour
            models.Index(
                fields=["decided_s"], name="proposal_applied", condition=Q(state="applied")
            ),
            # the proposals of a job
            models.Index(fields=["job_id", "state"], name="proposal_by_job"),
            # retention
            models.Index(fields=["at"], name="proposal_by_age"),
        )

    def __str__(self) -> str:
        return f"{self.victims} victims for {self.job_id} {self.state}"


class JobSample(models.Model):
    """One report of a running job, or the mean of several; values not provided are null.

    Old reports are averaged (`services.samples`): of a minute each, then of an hour each.
    ``cluster_s`` and ``progress`` are then those of the last report.
    """

    # sample_by_job begins with it
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="samples", db_index=False)
    cluster_s = models.FloatField()
    progress = models.FloatField(null=True, help_text="null: a command that reports none")
    performance = models.FloatField(null=True)
    attainment = models.FloatField(null=True)
    cpu_share = models.FloatField(help_text="of the cores it holds, 0-1")
    offered_qps = models.FloatField(null=True, help_text="queries/s that a service received")
    served_qps = models.FloatField(null=True, help_text="queries/s that it answered")
    memory_rate = models.FloatField(null=True, help_text="off-chip requests/s and unit")
    network_wait = models.FloatField(
        null=True, help_text="share of time spent waiting for packets, of a server full of it, 0-1"
    )
    disk_wait = models.FloatField(
        null=True, help_text="share of time spent waiting for the disk, likewise"
    )
    traffic_bps = models.FloatField(null=True, help_text="bits/s and unit within the job")
    run_wait = models.FloatField(
        null=True, help_text="share of the time of its threads spent waiting for a core, 0-1"
    )
    blocked = models.FloatField(
        null=True, help_text="share spent asleep: for the disk, the network, a lock or a timer"
    )
    memory_bytes = models.BigIntegerField(null=True, help_text="that its processes use")
    cpu_pressure = models.FloatField(
        null=True, help_text="share of time in which a process around it waited for a core, 0-1"
    )
    memory_pressure = models.FloatField(null=True, help_text="likewise for memory")
    io_pressure = models.FloatField(null=True, help_text="likewise for input or output")
    readings = models.PositiveIntegerField(
        default=1, db_default=1, help_text="number of reports that it is the mean of"
    )
    attainment_min = models.FloatField(null=True, help_text="of these reports; null: of one")
    attainment_max = models.FloatField(null=True)

    class Meta:
        indexes = (
            # retention: the oldest samples
            models.Index(fields=["cluster_s"], name="sample_by_time"),
            # the performance chart of one job
            models.Index(fields=["job", "cluster_s"], name="sample_by_job"),
        )

    def __str__(self) -> str:
        return f"{self.job_id} at {self.cluster_s:.0f} s"


class EnrolmentToken(models.Model):
    """A one-time permission for one machine to become a server of the cluster."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    server_name = models.CharField(max_length=63)
    digest = models.BinaryField(unique=True, help_text="SHA-256 of the secret")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.server_name} until {self.expires_at}"


class ServerAgent(models.Model):
    """The agent of one server, and its credential, which is valid for this server only."""

    name = models.CharField(max_length=63, unique=True, help_text="of its server")
    server = models.OneToOneField(
        Server, on_delete=models.CASCADE, null=True, related_name="agent",
        help_text="null before it has registered",
    )  # fmt: skip
    digest = models.BinaryField(unique=True, help_text="SHA-256 of its secret")
    next_digest = models.BinaryField(
        unique=True, null=True, help_text="of a new secret, which replaces the other when used"
    )
    epoch = models.PositiveBigIntegerField(
        default=0, help_text="number of registrations: the agent of an older one is fenced"
    )
    facts = models.JSONField(default=dict, help_text="version, and which limits it can enforce")
    enrolled_at = models.DateTimeField(auto_now_add=True)
    registered_at = models.DateTimeField(null=True)
    lease_s = models.FloatField(
        null=True,
        help_text="longest lease that its machine may hold: wall seconds for which its jobs run"
        " without an answer; null before it has registered",
    )
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class OutputStream(models.TextChoices):
    """Output streams of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class OutputChunk(models.Model):
    """A part of the output of a command; the oldest parts of a long output are deleted."""

    # retention deletes by job
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="output")
    # output_once begins with it
    launch = models.ForeignKey(
        Launch, on_delete=models.CASCADE, related_name="output", db_index=False
    )
    stream = models.CharField(max_length=6, choices=OutputStream.choices)
    start = models.BigIntegerField(help_text="position of its first byte in the stream")
    data = models.BinaryField()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["launch", "stream", "start"], name="output_once"),
        )

    def __str__(self) -> str:
        return f"{self.launch_id} {self.stream} from {self.start}"


class SlurmJob(models.Model):
    """One job of Slurm as a job of Berth; Slurm may queue a job again that has ended."""

    slurm_id = models.BigIntegerField()
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="slurm")
    is_open = models.BooleanField(default=True, help_text="Slurm or Berth has not ended it")
    pinned = models.CharField(
        max_length=255, blank=True, help_text="node on which Slurm runs it unasked"
    )
    cpu_s = models.FloatField(null=True, help_text="CPU seconds used so far")
    max_rss_bytes = models.BigIntegerField(null=True, help_text="most memory of one task")

    class Meta:
        constraints = (
            # the jobs to compare with those of Slurm; no two of them are one
            models.UniqueConstraint(
                fields=["slurm_id"], name="open_slurm_job_once", condition=Q(is_open=True)
            ),
        )

    def __str__(self) -> str:
        return f"Slurm job {self.slurm_id}"


class KubernetesPod(models.Model):
    """One pod of Kubernetes as a job of Berth."""

    uid = models.CharField(max_length=63)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    job = models.OneToOneField(Job, on_delete=models.CASCADE, related_name="pod")
    is_open = models.BooleanField(default=True, help_text="Kubernetes or Berth has not ended it")
    pinned = models.CharField(
        max_length=253, blank=True, help_text="node that it is bound to, not by Berth"
    )

    class Meta:
        constraints = (
            # the pods to compare with those of Kubernetes; no two of them are one
            models.UniqueConstraint(
                fields=["uid"], name="open_pod_once", condition=Q(is_open=True)
            ),
        )

    def __str__(self) -> str:
        return f"pod {self.namespace}/{self.name}"
