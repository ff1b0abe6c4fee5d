"""Applications, batches and jobs."""

from apps.workloads.models.applications import Application, ApplicationKind
from apps.workloads.models.batches import Archive, Batch, BatchMode
from apps.workloads.models.counts import JobCount, JobCountChange
from apps.workloads.models.jobs import NEW_JOB, NEW_JOB_OF_FLOW, OPEN_STATES, Job
from apps.workloads.models.search_terms import SearchTerms
from apps.workloads.models.shapes import WaitingShape

__all__ = [
    "NEW_JOB",
    "NEW_JOB_OF_FLOW",
    "OPEN_STATES",
    "Application",
    "ApplicationKind",
    "Archive",
    "Batch",
    "BatchMode",
    "Job",
    "JobCount",
    "JobCountChange",
    "SearchTerms",
    "WaitingShape",
]
