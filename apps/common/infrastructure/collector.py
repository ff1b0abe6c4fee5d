"""Python's cycle collector in processes that run for days."""

import gc
from typing import Final

# New objects between two collections. Python's default of 700 collects several times within one
# batch of jobs, whose objects are all still in use.
YOUNG: Final = 10_000


def spare_loaded_objects() -> None:
    """Leave what the process has loaded out of all later collections.

    Modules, models and compiled kernels are some hundred thousand objects that stay until the
    end. Without this, collections examine them again and again: 7 % of the CPU time of an instance
    that runs 700 jobs/s. Call it after loading, also several times.
    """
    gc.collect()  # what is garbage now would never be freed
    gc.freeze()
    gc.set_threshold(YOUNG, *gc.get_threshold()[1:])
