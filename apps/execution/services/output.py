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
-- one chunk of a launch at a time: an answer may be late, and its request come again
FOR NO KEY UPDATE OF l
"""
# by output_once
_LAST: Final = """
SELECT id, start + length(data), length(data) FROM execution_outputchunk
WHERE launch_id = %s AND stream = %s ORDER BY start DESC LIMIT 1
"""
# small chunks are joined up to this size, so that the rows of a stream are bounded as its bytes
JOINED_BYTES: Final = 1 << 12


def append_output(
    agent: ServerAgent, epoch: int, *, launch: int, stream: str, start: int, data: bytes
) -> None:
    """Append a chunk to a stream; what is known of it, or behind its end, is ignored.

    So is a chunk of another server's launch.

    Raises
    ------
    SupersededError : the agent has been fenced.
    """
    require_epoch(agent, epoch)
    with transaction.atomic(), connection.cursor() as cursor:
        own = fetch_rows(_OWN, [launch, AGENT, agent.server_id])
        if not own:
            return
        last = fetch_rows(_LAST, [launch, stream])
        row, end, size = last[0] if last else (None, start, 0)
        data, start = data[max(0, end - start) :], max(start, end)
        if not data:
            return
        if row is not None and start == end and size + len(data) <= JOINED_BYTES:
            cursor.execute(
                "UPDATE execution_outputchunk SET data = data || %s WHERE id = %s", [data, row]
            )
        else:
            OutputChunk.objects.create(
                job_id=own[0][0], launch_id=launch, stream=stream, start=start, data=data
            )
        cursor.execute(
            """DELETE FROM execution_outputchunk
               WHERE launch_id = %s AND stream = %s AND start + length(data) < %s""",
            [launch, stream, start + len(data) - KEPT_BYTES],
        )
