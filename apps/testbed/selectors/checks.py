"""Consistency checks of the database after a replay, as SQL queries that find violations.

Each query returns one row of text per violation. The checks read only PostgreSQL, and compare both
records of facts that are stored twice.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ConsistencyCheck:
    """One consistency check.

    Attributes
    ----------
    name : short, for the report
    sql : query for violations; parameter ``grace_s``: seconds that an expired lease may remain
    """

    name: str
    sql: str


# Every interval in which an allocation held a unit, compared with all earlier ones of that unit.
_HELD_TWICE: Final = """
    WITH held AS (
        SELECT unnest(unit_ids) AS unit, id, acquired_seq,
               coalesce(released_seq, 9223372036854775807) AS released_seq
        FROM scheduling_allocation
    ), earlier AS (
        SELECT unit, id, acquired_seq,
               max(released_seq) OVER (
                   PARTITION BY unit ORDER BY acquired_seq, id
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS busy_until
        FROM held
    )
    SELECT 'unit ' || unit || ' was given to allocation ' || id || ' at ' || acquired_seq
           || ' while another held it'
    FROM earlier WHERE busy_until > acquired_seq
"""

# The change log says the same independently: claims and releases of one unit take turns.
_CLAIMED_TWICE: Final = """
    WITH steps AS (
        SELECT unit, kind, seq, lag(kind) OVER (PARTITION BY unit ORDER BY seq) AS before
        FROM inventory_change, unnest(unit_ids) AS unit
        WHERE kind IN ('claim', 'release')
    )
    SELECT 'unit ' || unit || ': two entries "' || kind || '" in a row, the second at ' || seq
    FROM steps WHERE kind = before
"""

_COLUMN_AGAINST_ALLOCATIONS: Final = """
    WITH live AS (
        SELECT unnest(unit_ids) AS unit, id FROM scheduling_allocation WHERE released_seq IS NULL
    )
    SELECT 'unit ' || coalesce(live.unit, held.id) || ' is held by '
           || coalesce(held.allocation_id::text, 'none') || ', the allocations say '
           || coalesce(live.id::text, 'none')
    FROM live FULL JOIN
         (SELECT id, allocation_id FROM inventory_resourceunit
          WHERE allocation_id IS NOT NULL) AS held ON held.id = live.unit
    WHERE held.allocation_id IS DISTINCT FROM live.id
"""

_SERVER_SUMS: Final = """
    SELECT 'server ' || s.name || ' counts ' || s.used_cores || ' cores in use, its units say '
           || count(u.allocation_id)
    FROM inventory_server s JOIN inventory_resourceunit u ON u.server_id = s.id
    GROUP BY s.id HAVING s.used_cores <> count(u.allocation_id)
"""

_HELD_BY_ENDED: Final = """
    SELECT 'job ' || j.name || ' (' || j.state || ') still holds allocation ' || a.id
    FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id
    WHERE a.released_seq IS NULL AND j.state NOT IN ('starting', 'running')
"""

_ACTIVE_WITHOUT_UNITS: Final = """
    SELECT 'job ' || name || ' is ' || state || ' but holds no units'
    FROM workloads_job j
    WHERE state IN ('starting', 'running') AND NOT EXISTS (
        SELECT FROM scheduling_allocation a WHERE a.job_id = j.id AND a.released_seq IS NULL)
"""

# A job that was just placed is launched when its backend polls next.
_ACTIVE_WITHOUT_LAUNCH: Final = """
    SELECT 'job ' || name || ' is ' || state || ' but nothing runs it'
    FROM workloads_job j
    WHERE (state = 'running' OR state = 'starting' AND coalesce(
               placed_at < now() - make_interval(secs => %(grace_s)s), true))
      AND NOT EXISTS (
        SELECT FROM execution_launch l
        WHERE l.job_id = j.id AND l.state IN ('requested', 'running'))
"""

_LAUNCH_OF_ENDED: Final = """
    SELECT 'launch ' || l.id || ' is ' || l.state || ', its job ' || j.name || ' is ' || j.state
    FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
    WHERE l.state IN ('requested', 'running') AND j.state NOT IN ('starting', 'running')
"""

_PROFILING_WITHOUT_RUN: Final = """
    SELECT 'job ' || j.name || ' waits for a profile without a profiling run or a request'
    FROM workloads_job j
    WHERE j.state = 'profiling' AND NOT EXISTS (
        SELECT FROM profiling_profilingrun r
        WHERE r.application_id = j.application_id AND r.state IN ('queued', 'running'))
      AND NOT EXISTS (
        SELECT FROM classification_pendingfold f WHERE f.application_id = j.application_id)
"""

# Both are written in one transaction. The other way round, a run goes on for a while after its
# operation was cancelled: until its backend has stopped the copies.
_OPERATION_OF_ENDED_RUN: Final = """
    SELECT 'operation ' || o.id || ' is ' || o.status || ', its profiling run '
           || coalesce(r.id || ' is ' || r.state, 'is gone')
    FROM operations_operation o LEFT JOIN profiling_profilingrun r ON r.operation_id = o.id
    WHERE o.kind = 'profiling' AND o.status IN ('pending', 'running')
      AND coalesce(r.state, '') NOT IN ('queued', 'running')
"""

_EXPIRED: Final = """
    SELECT what || ': its lease ran out ' || round(extract(epoch FROM now() - until)) || ' s ago'
    FROM (
        SELECT 'job ' || name AS what, claimed_until AS until FROM workloads_job
        WHERE state IN ('submitted', 'queued') AND claimed_by <> '' AND NOT held
        UNION ALL
        SELECT 'migration ' || id, claimed_until FROM execution_migration WHERE state = 'running'
        UNION ALL
        SELECT 'profiling run ' || id, claimed_until FROM profiling_profilingrun
        WHERE state = 'running'
    ) AS leased
    WHERE until < now() - make_interval(secs => %(grace_s)s)
"""

_WITHOUT_OWNER: Final = """
    SELECT 'launch ' || l.id || ' of job ' || j.name || ' is running, but no process has said so '
           || coalesce('for ' || round(extract(epoch FROM now() - l.claimed_until)) || ' s', 'yet')
    FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
    WHERE l.state = 'running'
      AND coalesce(l.claimed_until < now() - make_interval(secs => %(grace_s)s), true)
"""

_ENDED_TWICE: Final = """
    SELECT 'job ' || subject || ' ended ' || count(*) || ' times'
    FROM operations_event WHERE kind IN ('job.succeeded', 'job.failed', 'job.cancelled')
    GROUP BY subject HAVING count(*) > 1
"""

# Only where the log still reaches back to the job's submission.
_STATE_AGAINST_EVENTS: Final = """
    WITH recorded AS (
        SELECT subject,
               bool_or(kind = 'job.submitted') AS from_the_start,
               max(substr(kind, 5)) FILTER (
                   WHERE kind IN ('job.succeeded', 'job.failed', 'job.cancelled')) AS ended
        FROM operations_event WHERE kind LIKE 'job.%%' GROUP BY subject
    )
    SELECT 'job ' || j.name || ' is ' || j.state || ', its events say '
           || coalesce(recorded.ended, 'not ended')
    FROM workloads_job j JOIN recorded ON recorded.subject = j.id::text
    WHERE recorded.from_the_start AND coalesce(recorded.ended, '') <>
          CASE WHEN j.state IN ('succeeded', 'failed', 'cancelled') THEN j.state ELSE '' END
"""

_SUBMITTED_TWICE: Final = """
    SELECT 'job ' || (annotations->>'replay_key') || ' of replay '
           || (annotations->>'replay') || ' is there ' || count(*) || ' times'
    FROM workloads_job WHERE annotations ? 'replay_key'
    GROUP BY annotations->>'replay', annotations->>'replay_key' HAVING count(*) > 1
"""

# What a job was moved to since belongs to the decision too, which won as much only once.
_DECISIONS_AGAINST_ALLOCATIONS: Final = """
    SELECT 'decision ' || d.id || ' won ' || d.units_won || ' units, its allocations hold '
           || coalesce(sum(cardinality(a.unit_ids)), 0)
    FROM scheduling_decision d
    LEFT JOIN scheduling_allocation a ON a.decision_id = d.id AND a.moved_from IS NULL
    GROUP BY d.id HAVING d.units_won <> coalesce(sum(cardinality(a.unit_ids)), 0)
"""

_MOVED_OTHERWISE: Final = """
    SELECT 'allocation ' || t.id || ' takes over from ' || t.moved_from
           || ', which is not as large, or of another job or decision, or held on'
    FROM scheduling_allocation t LEFT JOIN scheduling_allocation s ON s.id = t.moved_from
    WHERE t.moved_from IS NOT NULL
      AND (s.id IS NULL OR s.job_id <> t.job_id OR s.decision_id <> t.decision_id
           OR cardinality(s.unit_ids) <> cardinality(t.unit_ids)
           OR (t.moved_s IS NOT NULL AND s.released_seq IS NULL))
"""

_RESERVED_FOR_NOTHING: Final = """
    SELECT 'allocation ' || a.id || ' is reserved, but has no active migration'
    FROM scheduling_allocation a
    WHERE a.released_seq IS NULL AND a.moved_from IS NOT NULL AND a.moved_s IS NULL
      AND NOT EXISTS (
        SELECT FROM execution_migration m
        WHERE m.target_allocation_id = a.id AND m.state IN ('requested', 'running'))
"""

_MIGRATION_WITHOUT_SIDES: Final = """
    SELECT 'migration ' || m.id || ' is ' || m.state || ', but its '
           || CASE WHEN l.state <> 'running' THEN 'launch is ' || l.state
                   ELSE 'job does not hold both sides' END
    FROM execution_migration m JOIN execution_launch l ON l.id = m.launch_id
    WHERE m.state IN ('requested', 'running') AND (l.state <> 'running' OR 2 > (
        SELECT count(*) FROM scheduling_allocation a
        WHERE a.id IN (m.source_allocation_id, m.target_allocation_id)
          AND a.job_id = m.job_id AND a.released_seq IS NULL))
"""

# A restarted backend reads the launch, all other processes the allocations. A running job may have
# been given units that its backend does not use yet.
_LAUNCH_ELSEWHERE: Final = """
    WITH recorded AS (
        SELECT l.id, (part->>0)::bigint AS server, (part->>1)::bigint AS units
        FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id AND j.units_pending = 0,
             jsonb_array_elements(l."order"->'parts') AS part
        WHERE l.state IN ('requested', 'running')
    ), held AS (
        SELECT l.id, a.server_id AS server, sum(a.cores) AS units
        FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id AND j.units_pending = 0
        JOIN scheduling_allocation a ON a.job_id = l.job_id
        WHERE l.state IN ('requested', 'running') AND l."order" ? 'parts'
          AND a.released_seq IS NULL AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
        GROUP BY l.id, a.server_id
    )
    SELECT 'launch ' || id || ' has ' || coalesce(recorded.units, 0) || ' units on server '
           || server || ', its job holds ' || coalesce(held.units, 0)
    FROM recorded FULL JOIN held USING (id, server)
    WHERE recorded.units IS DISTINCT FROM held.units
"""

CHECKS: Final = (
    ConsistencyCheck("no unit was held twice at once (allocations)", _HELD_TWICE),
    ConsistencyCheck("no unit was claimed twice in a row (change log)", _CLAIMED_TWICE),
    ConsistencyCheck("units and allocations name the same holders", _COLUMN_AGAINST_ALLOCATIONS),
    ConsistencyCheck("servers count the cores their units show", _SERVER_SUMS),
    ConsistencyCheck("no job that does not run holds units", _HELD_BY_ENDED),
    ConsistencyCheck("every running job holds units", _ACTIVE_WITHOUT_UNITS),
    ConsistencyCheck("every running job has a launch", _ACTIVE_WITHOUT_LAUNCH),
    ConsistencyCheck("no launch outlives its job", _LAUNCH_OF_ENDED),
    ConsistencyCheck(
        "every job that waits for a profile has a run or a fold", _PROFILING_WITHOUT_RUN
    ),
    ConsistencyCheck("no operation outlives its profiling run", _OPERATION_OF_ENDED_RUN),
    ConsistencyCheck("no expired lease remains", _EXPIRED),
    ConsistencyCheck("every running launch has an owner", _WITHOUT_OWNER),
    ConsistencyCheck("no job ended twice", _ENDED_TWICE),
    ConsistencyCheck("states of jobs and their events agree", _STATE_AGAINST_EVENTS),
    ConsistencyCheck("no replayed job was submitted twice", _SUBMITTED_TWICE),
    ConsistencyCheck(
        "decisions and allocations count the same units", _DECISIONS_AGAINST_ALLOCATIONS
    ),
    ConsistencyCheck("migrated allocations match their source", _MOVED_OTHERWISE),
    ConsistencyCheck("every reservation belongs to a migration", _RESERVED_FOR_NOTHING),
    ConsistencyCheck("every migration under way holds both sides", _MIGRATION_WITHOUT_SIDES),
    ConsistencyCheck("launches name the units their jobs hold", _LAUNCH_ELSEWHERE),
)
