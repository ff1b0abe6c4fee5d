"""Rigid parallel jobs, without the compiled code that runs them."""

from dataclasses import dataclass

from apps.testbed.core.traces import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class ParallelJobs:
    """Jobs in the order of their submission.

    Attributes
    ----------
    submit_s : (n,) non-decreasing
    processors : (n,) held together, >= 1
    seconds : (n,) run time, >= 0
    estimate_s : (n,) run time that the scheduler knows, >= `seconds` and > 0
    """

    submit_s: Floats
    processors: Ints
    seconds: Floats
    estimate_s: Floats

    def __len__(self) -> int:
        return int(self.submit_s.size)
