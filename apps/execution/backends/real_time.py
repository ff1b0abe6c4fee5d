"""The clock that backends of real machines need."""

from apps.common.core.errors import ControlPlaneError
from apps.inventory.selectors import cluster_time


class ClockError(ControlPlaneError):
    """The cluster clock does not run as the wall clock does."""


def require_real_time(jobs: str) -> None:
    """Check that cluster time passes as wall time, as it does for real jobs.

    Parameters
    ----------
    jobs : what runs, in the message, such as "jobs of Slurm"

    Raises
    ------
    ClockError : it does not.
    """
    speed = cluster_time().speed
    if speed != 1.0:
        raise ClockError(
            f"the cluster clock runs at speed {speed:g}, and {jobs} run at speed 1:"
            " start it with manage start_clock --speed 1"
        )
