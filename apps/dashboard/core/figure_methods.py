"""Explanations of how each figure is computed."""

from typing import Final

METHODS: Final = {
    "utilisation": (
        "Each row is the mean CPU use of up to four neighbouring servers of one platform, from "
        "their last reports before each sample. Hatched: no report. The lines above are the "
        "used and allocated cores of the whole cluster."
    ),
    "attainment": (
        "Performance divided by the target; the target is met at 1 or more. It is target ÷ "
        "expected completion time, the worse of rate and latency, or instructions/s ÷ target. "
        "Counted are running jobs at their last report and jobs that succeeded in the range. "
        "Failed, cancelled and best-effort jobs are not counted."
    ),
    "queue": (
        "Jobs that are submitted, being profiled or queued, by their most important reason. The "
        "wait is the cluster time since submission of the jobs waiting now."
    ),
    "decision-latency": (
        "Wall time an agent takes to place a batch, divided by the jobs of the batch. The lines "
        "are percentiles of the decisions in each interval; the title covers the whole range. "
        "Conflicts are commits rejected because another agent took the units first."
    ),
    "system-queues": (
        "Tasks that wait in each queue, by a sample every 10 s of wall time. A point is the "
        "longest queue of the samples that it stands for."
    ),
    "system-rate": (
        "Decisions of each agent between two samples, divided by the wall time between them."
    ),
    "system-time": (
        "The 99th percentile of an agent's decision time between two samples, in wall time. A "
        "point is the longest of the samples that it stands for."
    ),
    "system-conflicts": (
        "Decisions of an agent whose commit lost its units to another agent, divided by all its "
        "decisions between two samples."
    ),
    "system-streams": "Open event streams at each sample, over all stream processes.",
    "pair": (
        "Slowdown: time per run next to the other application, over the time alone in the same "
        "round; mean of the logarithms with the 90 % interval of Student's t. The prediction was "
        "stored before the measurement; its interval has the errors of all scores, not that of "
        "the model's form."
    ),
    "pair-deviation": (
        "The last 500 measured pairs. A point is one application: filled if the predicted "
        "interval contains the measured value. On the dotted line both are equal."
    ),
    "jobs-by-project": "Running and waiting jobs in the projects that you may see.",
    "power": (
        "Sum of the power last reported for each server. The dotted lines are the idle and the "
        "peak power of all servers."
    ),
    "performance": (
        "All reports of the job's backend, in cluster time. The dashed line and its band are "
        "the prediction at placement with its 90 % interval."
    ),
    "dip": (
        "All reports around the dip, in the unit of the target. Bars: other jobs that worked on "
        "the job's servers, from their start until they left; numbered bars are suspects. A dip "
        "is at least two reports below the target."
    ),
    "dip-pressure": (
        "Pressure that the other jobs cause by their profiles, divided by the other units of the "
        "server and averaged over the job's units and the reports. Tolerated: the current "
        "profile of the job's application, with its 90 % interval."
    ),
    "guarantee": (
        "A rank is the share of the eligible units that are not better than the chosen one. It "
        "is measured for a fraction of the one-unit decisions. With R independent samples, the "
        "rank is at most x with probability x to the power R. The band contains 95 % of such "
        "samples (Kolmogorov)."
    ),
    "pressure": (
        "Bars: pressure caused by all tenants, per resource, divided by the number of cores "
        "minus one. Marks: the lowest tolerance of any tenant, from its profile."
    ),
    "lab-curves": (
        "Performance is the time that a job needs alone on the best platform over the time from "
        "its submission to its end. Shares are over the jobs of all seeds of a setting. Jobs that "
        "did not finish count as 0."
    ),
    "lab-front": (
        "Mean performance of all jobs against the share of jobs with a performance of at least "
        "0.95, means over seeds with 90 % intervals. The line joins the settings that no other "
        "one exceeds in both; the bound knows the true profiles and is left out."
    ),
    "lab-halving": (
        "Each round doubles the seeds. Settings are compared in pairs within a seed; a setting is "
        "dropped if it is behind the setting with the best mean, and the interval of their "
        "difference excludes zero. Intervals hold together for all pairs and all rounds with a "
        "probability of 90 % (max-t, Bonferroni over rounds)."
    ),
    "lab-used": (
        "Units that jobs hold over all units of the cluster, in 144 equal intervals until the "
        "last job of the slowest run has ended, mean of the seeds. A run that has ended holds "
        "none."
    ),
    "lab-differences": (
        "Settings are compared with the baseline within a seed, which fixes the behaviour of the "
        "applications and the noise of profiling. Intervals come from a parametric "
        "bootstrap of the largest Student's t of all differences (max-t), so that they hold "
        "together with a probability of 90 %."
    ),
    "plan-progress": (
        "Each bar runs from the request of a migration to the backend's report that the "
        "container is on its new server, in cluster time. A job migrates one container at a "
        "time, the loop's settings limit the migrations started per minute, and a migration may "
        "wait for capacity that another one frees. Outlined bars show when waiting migrations "
        "are expected if capacity is available."
    ),
    "server-history": ("Share of the server's cores in use and allocated, at each sample."),
    "feasibility": (
        "The rate on each platform from the profile, times the scaling curve, times the sizing "
        "allowance of the target (0.9 until it is learned). For tasks, units left idle by the "
        "last wave are not counted. For services, the latency is that of an M/M/c queue. The "
        "variances of the rate, the scaling curve and the platform are added for the intervals."
    ),
    "scale-up": (
        "Work per second of a number of units on one server of the highest-end platform, "
        "divided by that of one unit. Filled points were measured in short runs; hollow points "
        "are inferred from them and from the library of fully measured applications. Whiskers "
        "are 90 % intervals."
    ),
    "scale-out": (
        "Work per second of n servers, divided by n times that of one server. Filled points "
        "were measured in short runs, hollow points are inferred. Whiskers are 90 % intervals."
    ),
    "platform-speed": (
        "Work per second of one unit on each platform, divided by that on the highest-end "
        "platform. Filled marks were measured in short runs, hollow marks are inferred, "
        "diamonds were set by hand. Whiskers are 90 % intervals."
    ),
    "setting-speed": (
        "Work per second of the same tasks on the same units under each setting, divided by "
        "that under the default setting. Filled marks were measured in short runs, hollow marks "
        "are inferred, diamonds were set by hand. Whiskers are 90 % intervals."
    ),
    "interference": (
        "Tolerated: a microbenchmark raises the pressure on one resource; the score is the "
        "pressure at which the application has lost 5 % of its performance. Caused: the "
        "pressure that one unit puts on others, on the same scale. Filled marks were measured, "
        "hollow marks are inferred. Whiskers are 90 % intervals."
    ),
    "matrix": (
        "Rows are applications, columns are the quantities measured. Solid cells were measured "
        "(the weighted mean of all measurements), hatched cells are inferred by the estimator "
        "from the rest of their row and from the other rows, and diamonds were set by hand. "
        "Rates and speed-ups use a logarithmic colour scale; base rates are relative to the "
        "median of the applications of the same kind on the page."
    ),
    "singular-values": (
        "Singular values of the fully measured rows after subtracting the column means; rates "
        "and speed-ups are logarithms, scores are points. Each is the strength of one "
        "similarity concept (Paragon §2.1). Its share of the variance is its square divided by "
        "the sum of squares."
    ),
    "calibration": (
        "Five-fold cross-validation: in each fold, a fifth of the applications keep two random "
        "cells and the others are inferred. A point is the share of hidden cells inside the "
        "intervals of one level; well-calibrated intervals lie on the diagonal. Whiskers are 95 "
        "% intervals of the share (Wilson)."
    ),
    "revision-error": (
        "Each new revision is evaluated by five-fold cross-validation: in each fold, a fifth of "
        "the applications keep two random cells and the others are inferred. The lines are the "
        "average, median and 90th percentile over applications of the mean error of their "
        "hidden cells."
    ),
    "prediction-error": (
        "Each point compares the measured performance of a running job with the prediction of "
        "its profile for its units and neighbours. The band contains 90 % of the points if the "
        "error estimated by the profile is right. Drift is detected by a two-sided CUSUM test "
        "on the standardised errors."
    ),
}
METHOD_ALIASES: Final = {"quality": "guarantee"}


def method_text(name: str) -> str:
    """Return the explanation of a figure; "" if there is none."""
    return METHODS.get(METHOD_ALIASES.get(name, name), "")
