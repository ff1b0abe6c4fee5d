"""How each figure is computed, in the words of the page."""

from typing import Final

HOW: Final = {
    "utilisation": (
        "Each row is the mean processor use of up to four neighbouring servers of one "
        "platform, as they last reported before each recorded moment. Hatched: no report. "
        "The lines above are used and allocated processors of the whole cluster, each "
        "server by its size."
    ),
    "attainment": (
        "Performance divided by the target, so 1 or more is met: target ÷ expected "
        "completion time, the worse of rate and latency, or instructions/s ÷ target. "
        "Running jobs at their last report, and the latest that succeeded in the range. "
        "Failed, cancelled and best-effort jobs are not counted."
    ),
    "queue": (
        "Jobs that are submitted, being profiled or queued, by the one reason that outranks "
        "the others. Waited is cluster time since submission of those waiting now."
    ),
    "decision-latency": (
        "Wall time in the agent from a batch to its placements, divided among the jobs of "
        "the batch. Percentiles of the decisions in each interval; the title's are over the "
        "whole range. Conflicts are commits that another agent won."
    ),
    "power": (
        "Sum over the servers of the power their backend last reported. The dotted lines "
        "are the sums of the idle and of the peak power of all servers."
    ),
    "performance": (
        "Every report of the job's backend, in cluster time. The dashed line and its band "
        "are what was predicted when it was placed, with the 90 % interval."
    ),
    "guarantee": (
        "A rank is the share of the eligible units that are no better than the one found; "
        "it is measured for some decisions on one unit. With R independent draws it stays "
        "at or below x with probability x to the R. The band holds 95 % of such samples "
        "(Kolmogorov)."
    ),
    "pressure": (
        "Bars: the sum of what the tenants cause, per resource, divided by the cores of the "
        "server less one. Marks: the least that any tenant tolerates, from its profile."
    ),
    "server-history": (
        "Share of the server's cores in use and allocated, at each recorded moment."
    ),
    "feasibility": (
        "The profile's rate on each platform times its scaling curve, less 10 % for "
        "neighbours; for work in tasks, the units that the last wave leaves idle are not "
        "counted; for services, the latency of a queue with Poisson queries (M/M/c). "
        "Intervals add the errors of the rate, of the curve and of the platform in squares."
    ),
}
HOW_ALIASES: Final = {"quality": "guarantee"}


def how_computed(name: str) -> str:
    """Return how a figure is computed; "" where there is nothing to say."""
    return HOW.get(HOW_ALIASES.get(name, name), "")
