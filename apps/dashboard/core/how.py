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
    "plan-progress": (
        "From when a move was asked for to when its backend reported the container at its new "
        "server, in cluster time. A job moves one container at a time, the cluster so many a "
        "minute as the loop is set to, and a move waits for the room that another one frees. "
        "Outlined: when a move that waits is expected, if it need not wait for room."
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
    "scale-up": (
        "Work per second of so many units on one server of the highest-end platform, divided by "
        "that of one unit. Filled points were measured in short runs, hollow ones are inferred "
        "from them and from the applications that are known on every column; a whisker is the "
        "90 % interval."
    ),
    "scale-out": (
        "Work per second of so many servers divided by that many times one server's. Filled "
        "points were measured in short runs, hollow ones are inferred; a whisker is the 90 % "
        "interval."
    ),
    "platform-speed": (
        "Work per second of one unit on each platform divided by that on the highest-end one. "
        "Filled marks were measured in short runs, hollow ones are inferred, a diamond was set "
        "by hand; a whisker is the 90 % interval."
    ),
    "setting-speed": (
        "Work per second of the same tasks on the same units under each setting, divided by that "
        "under the default one. Filled marks were measured in short runs, hollow ones are "
        "inferred, a diamond was set by hand; a whisker is the 90 % interval."
    ),
    "interference": (
        "Tolerated: a microbenchmark presses one resource harder and harder; the score is where "
        "the application has lost 5 % of its performance. Caused: how hard one unit presses "
        "others, on the same scale. Filled marks were measured, hollow ones are inferred; a "
        "whisker is the 90 % interval."
    ),
    "matrix": (
        "A row is an application, a column what may be measured of it. Solid cells were measured "
        "(the weighted mean of all measurements of the cell), hatched ones are inferred by the "
        "estimator from the rest of their row and from the other rows, diamonds were set by hand. "
        "Rates and speed-ups have logarithmic colours; a base rate is coloured relative to the "
        "median of the applications of its kind on the page."
    ),
    "singular-values": (
        "Singular values of the fully known rows around their column means: logarithms of rates "
        "and speed-ups, points of scores. Each is the strength of one similarity concept "
        "(Paragon §3.2); its share of the variance is its square divided by the sum of squares."
    ),
    "calibration": (
        "A fifth of the applications is hidden in turn except for two random cells each, and "
        "inferred from the rest. A point is the share of the hidden cells that lie inside the "
        "intervals of one level; on the diagonal intervals hold what they promise. Whiskers: 95 % "
        "interval of the share (Wilson)."
    ),
    "revision-error": (
        "When a revision has come into force, a fifth of its applications is hidden in turn "
        "except for two random cells each, and inferred from the rest. Average, median and 90th "
        "percentile are over applications, of the mean error of the hidden cells of each."
    ),
    "prediction-error": (
        "Each point compares what a running job did with what its profile said it would do on "
        "the units it had, given its neighbours. The band holds 90 % of the points if the "
        "profile's own error is right. Drift is flagged by a two-sided cumulated sum of the "
        "errors in standard deviations."
    ),
}
HOW_ALIASES: Final = {"quality": "guarantee"}


def how_computed(name: str) -> str:
    """Return how a figure is computed; "" where there is nothing to say."""
    return HOW.get(HOW_ALIASES.get(name, name), "")
