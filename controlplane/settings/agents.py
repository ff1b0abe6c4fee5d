"""Settings of the scheduling agents. See docs/operations.md."""

from controlplane.settings.values import number, whole

# Wall seconds between two reads of the change log, 0 = before every batch; and the share of the
# interval by which it varies at random, so that agents do not read at the same time.
AGENT_INTERVAL_S = number("BERTH_AGENT_INTERVAL_S", 0, high=500)
AGENT_JITTER = number("BERTH_AGENT_JITTER", 0.3, high=0.9)
# Decisions on a job after a lost commit, before it waits.
AGENT_RETRIES = whole("BERTH_AGENT_RETRIES", 3, high=100)
# Max jobs that one agent decides at the same time; the others wait in the queue.
AGENT_PATH_LIMIT = whole("BERTH_AGENT_PATH_LIMIT", 512, low=1, high=4096)
