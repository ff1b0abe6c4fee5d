"""Launches whose jobs were given more units while they run."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from apps.common.infrastructure.database import fetch_rows, without_index
from apps.execution.backends.emulated.port import GrownLaunch
from apps.execution.services.locks import lock_launches
from apps.workloads import services as workloads

# A migration changes the parts of a launch when it ends: until then they are not compared.
_GROWN: Final = f"""
SELECT l.id, jsonb_agg(jsonb_build_array(a.server_id, a.units) ORDER BY a.server_id)
FROM workloads_job j
JOIN execution_launch l ON l.job_id = j.id AND l.backend = %s AND l.state = 'running',
LATERAL (
    SELECT a.server_id, sum(a.cores) AS units FROM scheduling_allocation a
    WHERE a.job_id = j.id AND {without_index("a.released_seq IS NULL")} GROUP BY a.server_id) a
WHERE j.units_pending > 0 AND j.state = 'running'
  AND NOT EXISTS (SELECT FROM execution_migration m
                  WHERE m.job_id = j.id AND m.state IN ('requested', 'running'))
GROUP BY l.id ORDER BY l.id
"""  # noqa: S608 - a constant
_UPDATE_PARTS: Final = f"""
UPDATE execution_launch l SET "order" = jsonb_set(l."order", '{{parts}}', d.parts::jsonb)
FROM unnest(%s::bigint[], %s::text[]) AS d(id, parts)
WHERE l.id = d.id AND {without_index("l.state = 'running'")}
RETURNING l.id, l.job_id
"""  # noqa: S608 - a constant


def grown_launches(backend: str) -> list[GrownLaunch]:
    """Read the running launches of a backend with units that it does not run yet."""
    return [
        GrownLaunch(launch, tuple((int(server), int(units)) for server, units in json.loads(text)))
        for launch, text in fetch_rows(_GROWN, [backend])
    ]


def record_grown(at_s: float, grown: Mapping[int, Sequence[tuple[int, int]]]) -> None:
    """Store the parts that launches run on, so that a restarted backend resumes them there."""
    ids = sorted(grown)
    lock_launches(ids)
    changed = fetch_rows(_UPDATE_PARTS, [ids, [json.dumps(list(grown[key])) for key in ids]])
    running = {job: sum(units for _, units in grown[launch]) for launch, job in changed}
    workloads.record_grown(running, at_s=at_s)
