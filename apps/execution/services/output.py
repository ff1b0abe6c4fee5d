"""Output of commands: appended in chunks by agents; the oldest are deleted."""

from typing import Final

from django.db import connection, transaction

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.agent.wire import KEPT_BYTES
from apps.execution.models import OutputChunk, ServerAgent
from apps.execution.services.agents import require_epoch
from apps.inventory.core.backends import AGENT

# a launch may have ended by then, and its units be released: its order still names the server
_OWN: Final = """
SELECT l.job_id FROM execution_launch l WHERE l.id = %s AND l.backend = %s AND EXISTS (
    SELECT FROM jsonb_array_elements(l."order"->'parts') part
    WHERE (part->>0)::bigint = %s)
"""


def append_output(
    agent: ServerAgent, epoch: int, *, launch: int, stream: str, start: int, data: bytes
) -> None:
    """Store a chunk of output; one that is known, or of another server's launch, is ignored.

    Raises
    ------
    SupersededError : the agent has been fenced.
    """
    require_epoch(agent, epoch)
    with transaction.atomic(), connection.cursor() as cursor:
        own = fetch_rows(_OWN, [launch, AGENT, agent.server_id])
        if not own:
            return
        chunk = OutputChunk(
            job_id=own[0][0], launch_id=launch, stream=stream, start=start, data=data
        )
        OutputChunk.objects.bulk_create([chunk], ignore_conflicts=True)
        cursor.execute(
            """DELETE FROM execution_outputchunk
               WHERE launch_id = %s AND stream = %s AND start + length(data) < %s""",
            [launch, stream, start + len(data) - KEPT_BYTES],
        )
