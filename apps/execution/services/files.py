"""Files of commands, for the agents that run them."""

from typing import Final

from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.database import fetch_rows
from apps.execution.models import ServerAgent
from apps.execution.services.agents import require_epoch
from apps.inventory.core.backends import AGENT

_OWN: Final = """
SELECT f.data FROM execution_launch l
JOIN scheduling_allocation a ON a.job_id = l.job_id AND a.released_seq IS NULL
JOIN workloads_job j ON j.id = l.job_id
JOIN workloads_archive f ON f.digest = j.files_id
WHERE l.id = %s AND l.backend = %s AND l.state <> 'ended' AND a.server_id = %s
  AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
"""


def archive_for(agent: ServerAgent, epoch: int, launch: int) -> bytes:
    """Return the archive of a launch that an agent has an order for.

    Raises
    ------
    NotFoundError : it has no order for such a launch, or the launch has no files.
    SupersededError : the agent has been fenced.
    """
    require_epoch(agent, epoch)
    found = fetch_rows(_OWN, [launch, AGENT, agent.server_id])
    if not found:
        raise NotFoundError(f"There are no files of a launch {launch} on {agent.name}.")
    return bytes(found[0][0])
