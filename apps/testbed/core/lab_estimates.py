"""Time and memory of a run of the Lab, before it starts.

The constants were measured with 20 to 1,000 servers and 200 to 8,000 jobs on one core of a cloud
server; an installation scales the seconds by its own runs.
"""

from typing import Final

RUN_S: Final = 0.4  # library and profiles
JOB_S: Final = 0.0011
PAIR_S: Final = 1e-6  # of a job and a server, for policies that score every server
BASE_BYTES: Final = 240 * 2**20  # of a process with the compiled kernels
JOB_BYTES: Final = 3_000
SERVER_BYTES: Final = 6_000


def run_seconds(jobs: int, servers: int) -> float:
    """Wall seconds of one run."""
    return RUN_S + jobs * (JOB_S + servers * PAIR_S)


def run_bytes(jobs: int, servers: int) -> int:
    """Memory of the worker at the end of a run; runs follow each other."""
    return BASE_BYTES + jobs * JOB_BYTES + servers * SERVER_BYTES
