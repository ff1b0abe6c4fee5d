"""Admission controls by name."""

from apps.scheduling.core.admission.arq import ArqAdmission
from apps.scheduling.core.admission.by_bucket import BY_CONTENTION, ONE_BUCKET, BucketAdmission
from apps.scheduling.core.admission.types import MAX_WAIT_S, Admission, Control


def make_admission(control: Control, *, max_wait_s: float = MAX_WAIT_S) -> Admission | None:
    """Return an admission control; None = every job is decided at once.

    Parameters
    ----------
    max_wait_s : no job is kept waiting for better units longer than this
    """
    match control:
        case Control.NONE:
            return None
        case Control.COUNT:
            return BucketAdmission(control, ONE_BUCKET, max_wait_s=max_wait_s)
        case Control.TARCIL_LSH:
            return BucketAdmission(control, BY_CONTENTION, max_wait_s=max_wait_s)
        case Control.ARQ:
            return ArqAdmission(max_wait_s=max_wait_s)
