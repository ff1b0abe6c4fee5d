"""The size of a job: rates on every platform and the units that meet its target."""
