"""Why a running job misses its target: dips, pressure, suspects and remedies.

T reports, N = 10 sources of interference, K suspects. Times are cluster seconds. The speed of a
job is its rate of work; its logarithm is compared, as causes multiply. `docs/diagnosis.md` has the
model and how often the first suspect is the cause.
"""
