"""Statements that write reference data; parameters in `services.reference`.

Every value of a row follows from its number and the seed, so the same parameters give the same
rows. The statements run in this order.
"""

from typing import Final

# A number in [0, 1) from a row's number and a salt.
DRAW: Final = """
CREATE OR REPLACE FUNCTION pg_temp.draw(row_number bigint, salt bigint) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT (hashint8extended(row_number, salt) & 1048575) / 1048576.0::float8 $$
"""
# A UUID of version 7: milliseconds, then digits of a hash.
KEY: Final = """
CREATE OR REPLACE FUNCTION pg_temp.key(at timestamptz, salt text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0')
           || '7' || substr(md5(salt), 1, 3) || '8' || substr(md5(salt), 5, 15))::uuid $$
"""

APPLICATIONS: Final = """
INSERT INTO workloads_application
    (id, name, kind, description, labels, generation, created_at, updated_at)
SELECT pg_temp.key(%(begin)s, 'application' || a), 'reference-' || kind || '-' || a, kind, '',
       '{}', 1, %(begin)s, %(begin)s
FROM generate_series(1, %(applications)s) AS a,
     LATERAL (SELECT (ARRAY['analytics', 'latency_critical', 'single_node', 'batch'])[1 + a %% 4])
         AS kinds(kind)
"""
PROJECTS: Final = """
INSERT INTO accounts_project (id, name, description, key_optional, labels, created_at)
SELECT pg_temp.key(%(begin)s, 'project' || p), 'reference-' || p, '', false, '{}', %(begin)s
FROM generate_series(1, %(projects)s) AS p
"""
BATCHES: Final = """
INSERT INTO workloads_batch
    (id, project_id, created_by_id, created_at, mode, total, accepted, items)
SELECT pg_temp.key(at, 'batch' || b), pg_temp.key(%(begin)s, 'project' || 1 + b %% %(projects)s),
       %(user)s, at, 'independent', 10, 10,
       (SELECT jsonb_agg(jsonb_build_object('status', 201, 'id', md5(b || '.' || n)))
        FROM generate_series(1, 10) AS n)
FROM generate_series(1, %(jobs)s / 20) AS b,
     LATERAL (SELECT %(begin)s + (%(end)s - %(begin)s) * (b * 20.0 / %(jobs)s)) AS times(at)
"""
# The newest jobs wait, those before them run, all others have ended.
PLAN: Final = """
CREATE TEMPORARY TABLE reference_job ON COMMIT DROP AS
SELECT i, pg_temp.key(at, 'job' || i) AS id, at, state, kind, application, wait_s, run_s,
       least(at + make_interval(secs => wait_s + run_s), %(end)s) AS ended_at,
       extract(epoch FROM at - %(begin)s) + %(begin_s)s AS submitted_s,
       0.6 + 0.8 * pg_temp.draw(i, 5) AS attainment
FROM generate_series(1, %(jobs)s) AS i,
     LATERAL (SELECT %(begin)s + (%(end)s - %(begin)s) * ((i - 0.5) / %(jobs)s), 1
                + floor(%(applications)s * pg_temp.draw(i, 1) ^ 2)::int,
              2 + 60 * pg_temp.draw(i, 2) ^ 3, 30 - 600 * ln(1 - 0.999 * pg_temp.draw(i, 3)),
              pg_temp.draw(i, 4)) AS drawn(at, application, wait_s, run_s, fate),
     LATERAL (SELECT CASE
         WHEN i > %(jobs)s - %(waiting)s THEN 'queued'
         WHEN i > %(jobs)s - %(waiting)s - %(running)s THEN 'running'
         WHEN fate < 0.93 THEN 'succeeded' WHEN fate < 0.96 THEN 'failed' ELSE 'cancelled' END,
       (ARRAY['completion_time', 'throughput_latency', 'ips', 'best_effort'])[1 + application %% 4]
     ) AS chosen(state, kind)
"""
JOBS: Final = """
INSERT INTO workloads_job
    (id, name, project_id, application_id, created_by_id, batch_id, correlation_id, target,
     target_kind, input_bytes, tasks_total, unit_memory_bytes, unit_network_bps,
     unit_storage_bytes, priority, gang, constraints, labels, annotations, generation, state, held,
     reason_code, reason_message, reason_also, units, attempts, tries, progress, performance,
     attainment, predicted, cancel_requested, created_at, updated_at, submitted_s, queued_s,
     placed_s, started_s, finished_s, placed_at, finished_at, claimed_by)
SELECT id, 'ref-' || (ARRAY['sort', 'index', 'train', 'serve', 'report'])[1 + i %% 5] || '-' || i,
       pg_temp.key(%(begin)s, 'project' || 1 + application %% %(projects)s),
       pg_temp.key(%(begin)s, 'application' || application), %(user)s,
       CASE WHEN i %% 20 < 10 AND i / 20 BETWEEN 1 AND %(jobs)s / 20 THEN
            pg_temp.key(%(begin)s + (%(end)s - %(begin)s) * (i / 20 * 20.0 / %(jobs)s),
                        'batch' || i / 20) END,
       'reference', jsonb_build_object('kind', kind, 'seconds', 600, 'qps', 100,
                                       'latency_seconds', 0.1, 'ips', 1e9),
       kind, 1000000000, 1 + i %% 8, 0, 0, 0, (i %% 100 = 0)::int, true, '{}',
       jsonb_build_object('team', 'team-' || i %% 40), '{}', 3, state, i %% 1000 = 999 AND waits,
       CASE state WHEN 'queued' THEN (ARRAY['CapacityShort', 'LocalityShort', 'NoMatchingServer'])
                                     [1 + i %% 3]
                  WHEN 'failed' THEN 'JobFailed' WHEN 'cancelled' THEN 'Cancelled'
                  WHEN 'succeeded' THEN 'Succeeded' ELSE 'MeetsTarget' END, '', '[]',
       CASE WHEN waits THEN NULL ELSE 1 END, (NOT waits)::int, 0,
       CASE state WHEN 'succeeded' THEN 1 WHEN 'queued' THEN 0 ELSE 0.5 END,
       CASE WHEN NOT waits THEN run_s END,
       CASE WHEN NOT waits AND kind <> 'best_effort' THEN attainment END,
       jsonb_build_object('value', run_s, 'low', run_s * 0.9, 'high', run_s * 1.1), false, at,
       ended_at, submitted_s, submitted_s, CASE WHEN NOT waits THEN submitted_s + wait_s END,
       CASE WHEN NOT waits THEN submitted_s + wait_s + 1 END,
       CASE WHEN ended THEN submitted_s + wait_s + run_s END,
       CASE WHEN NOT waits THEN at + make_interval(secs => wait_s) END,
       CASE WHEN ended THEN ended_at END, ''
FROM reference_job,
     LATERAL (SELECT state = 'queued', state NOT IN ('queued', 'running')) AS parts(waits, ended)
ORDER BY i
"""
# Packed as `scheduling.core.records.candidate_layout`: 8 records of kind QUALITY (2), version 1.
CANDIDATES: Final = """
CREATE TEMPORARY TABLE reference_candidates ON COMMIT DROP AS
SELECT p, '\\x01020008'::bytea || string_agg(
           substr(int8send(s.id), 5) || int2send((c %% s.cores)::int2)
           || substr(int2send((c <> 1)::int::int2), 2)
           || (SELECT string_agg(int2send((1000 * pg_temp.draw(p * 8 + c, h))::int2), '')
               FROM generate_series(1, 10) AS h)
           || int4send((1e6 * pg_temp.draw(c, p))::int)
           || int4send((1e6 * pg_temp.draw(p, c))::int) || int4send(700000), ''
           ORDER BY c) AS candidates
FROM generate_series(0, 499) AS p, generate_series(1, 8) AS c,
     LATERAL (SELECT id, cores FROM reference_server
              WHERE place = 1 + (p * 8 + c) %% (SELECT count(*) FROM reference_server)) AS s
GROUP BY p
"""
# One decision in six is a refusal, before the job was placed.
DECISIONS: Final = """
INSERT INTO scheduling_decision
    (id, job_id, at, cluster_s, agent, policy, policy_version, code_version, seed, snapshot,
     profile_id, outcome, reason_code, units, units_won, sample_size, examined, eligible,
     servers_total, dropped, candidates, rank_threshold, probability, rank, predicted,
     commit_retries, elapsed_s, waited_s)
SELECT pg_temp.key(decided_at, 'decision' || i || '.' || try), id, decided_at,
       extract(epoch FROM decided_at - %(begin)s) + %(begin_s)s, 'agent-' || 1 + i %% 2, 'tarcil',
       1, '0.1.0', i, i, NULL, CASE WHEN is_placed THEN 'placed' ELSE 'refused' END,
       CASE WHEN is_placed THEN 'PlacedBestOfSample' ELSE 'CapacityShort' END, 1, is_placed::int,
       8, 8, 100, 600, '{"capacity": 12}', CASE WHEN is_placed THEN candidates ELSE '' END, 0.8,
       0.167, CASE WHEN i %% 20 = 0 AND is_placed THEN pg_temp.draw(i, 6) ^ 0.125 END,
       jsonb_build_object('value', run_s), (i %% 500 = 0)::int, 0.00005 + 0.0003
       * pg_temp.draw(i, 7) ^ 4, CASE WHEN is_placed THEN wait_s END
FROM reference_job JOIN reference_candidates ON p = i %% 500,
     LATERAL (SELECT try, try = 2 AND state <> 'queued',
                     at + make_interval(secs => CASE try WHEN 1 THEN 1 ELSE wait_s END)
              FROM generate_series(1, 2) AS try
              WHERE (try = 1 AND (i %% 5 = 0 OR state = 'queued'))
                 OR (try = 2 AND state <> 'queued')) AS tries(try, is_placed, decided_at)
ORDER BY i, try
"""
ALLOCATIONS: Final = """
INSERT INTO scheduling_allocation
    (id, job_id, decision_id, server_id, unit_ids, cores, memory_bytes, network_bps,
     storage_bytes, caused, tolerated, acquired_seq, released_seq, acquired_at, released_at,
     acquired_s, released_s)
SELECT nextval('common_allocations_seq'), j.id,
       pg_temp.key(at + make_interval(secs => wait_s), 'decision' || i || '.2'),
       coalesce(u.server_id, s.id), ARRAY[coalesce(u.unit_id, s.first_unit)], 1, 0, 0, 0,
       ARRAY[5, 10, 15, 20, 5, 10, 15, 20, 5, 10]::float8[],
       ARRAY[95, 90, 85, 80, 95, 90, 85, 80, 95, 90]::float8[], 2 * i - 2 * %(jobs)s - 1,
       CASE WHEN ended THEN 2 * i - 2 * %(jobs)s END, at + make_interval(secs => wait_s),
       CASE WHEN ended THEN ended_at END, submitted_s + wait_s,
       CASE WHEN ended THEN submitted_s + wait_s + run_s END
FROM reference_job j
     JOIN reference_server s ON s.place = 1 + i %% (SELECT count(*) FROM reference_server)
     LEFT JOIN reference_unit u
          ON j.state = 'running' AND u.place = %(jobs)s - %(waiting)s - i + 1,
     LATERAL (SELECT state <> 'running') AS parts(ended)
WHERE state <> 'queued'
ORDER BY i
"""
SERVERS: Final = """
CREATE TEMPORARY TABLE reference_server ON COMMIT DROP AS
SELECT s.id, s.cores, (SELECT min(u.id) FROM inventory_resourceunit u WHERE u.server_id = s.id)
           AS first_unit, row_number() OVER (ORDER BY s.id) AS place
FROM inventory_server s
"""
UNITS: Final = """
CREATE TEMPORARY TABLE reference_unit ON COMMIT DROP AS
SELECT u.id AS unit_id, u.server_id, row_number() OVER (ORDER BY u.core, u.id) AS place
FROM inventory_resourceunit u WHERE u.allocation_id IS NULL
"""
HOLD_UNITS: Final = """
UPDATE inventory_resourceunit u SET allocation_id = a.id, version = u.version + 1
FROM scheduling_allocation a JOIN reference_job j ON j.id = a.job_id AND j.state = 'running'
WHERE u.id = a.unit_ids[1] AND a.released_seq IS NULL
"""
HOLD_SERVERS: Final = """
UPDATE inventory_server s SET used_cores = used.n
FROM (SELECT server_id, count(*) AS n FROM inventory_resourceunit
      WHERE allocation_id IS NOT NULL GROUP BY server_id) AS used
WHERE s.id = used.server_id
"""
LAUNCHES: Final = """
INSERT INTO execution_launch
    (job_id, attempt, backend, state, "order", cancel_requested, claimed_by, created_at, started_s,
     ended_s, outcome, message)
SELECT id, 1, 'reference', CASE state WHEN 'running' THEN 'running' ELSE 'ended' END,
       jsonb_build_object('parts', jsonb_build_array(jsonb_build_object(
           'server', 'srv-0001', 'units', 1, 'cores', jsonb_build_array(0))),
           'application', application, 'seed', i, 'tasks', 1 + i %% 8),
       false, '', at, submitted_s + wait_s + 1,
       CASE WHEN state <> 'running' THEN submitted_s + wait_s + run_s END,
       CASE state WHEN 'running' THEN '' ELSE state END, ''
FROM reference_job WHERE state <> 'queued' ORDER BY i
"""
# Four means for each ended job, and the raw reports of the last hour of each running one.
SAMPLES: Final = """
INSERT INTO execution_jobsample
    (job_id, cluster_s, progress, performance, attainment, cpu_share, memory_rate, network_wait,
     disk_wait, traffic_bps)
SELECT id, at_s, least(1, n / 5.0), 100 * attainment,
       CASE WHEN kind <> 'best_effort' THEN attainment * (0.9 + 0.2 * pg_temp.draw(i, n)) END,
       0.8, 1e6, 0.01, 0.01, 1e6
FROM reference_job,
     LATERAL (SELECT n, submitted_s + wait_s + run_s * n / 5 FROM generate_series(1, 4) AS n
              WHERE state NOT IN ('queued', 'running')
              UNION ALL
              SELECT n, %(end_s)s - 5 * n FROM generate_series(720, 1, -1) AS n
              WHERE state = 'running') AS readings(n, at_s)
WHERE state <> 'queued' ORDER BY i, n
"""
MIGRATIONS: Final = """
INSERT INTO execution_migration
    (job_id, launch_id, source_allocation_id, target_allocation_id, from_server_id, to_server_id,
     units, predicted_s, state, cancel_requested, claimed_by, created_at, requested_s, started_s,
     ended_s, reason_code, message)
SELECT j.id, l.id, a.id, -a.id, a.server_id, a.server_id, 1, 20, 'done', false, '', j.at,
       a.acquired_s + 5, a.acquired_s + 5, a.acquired_s + 25, 'reference', ''
FROM reference_job j JOIN execution_launch l ON l.job_id = j.id
     JOIN scheduling_allocation a ON a.job_id = j.id
WHERE i %% 50 = 0 AND j.state IN ('succeeded', 'failed')
"""
EVENTS: Final = """
INSERT INTO operations_event (at, topic, kind, subject, project_id, request_id, data)
SELECT at + n * interval '1 second', 'jobs', kinds[n], id::text,
       pg_temp.key(%(begin)s, 'project' || 1 + application %% %(projects)s), 'reference',
       jsonb_build_object('name', 'ref-' || i, 'state', state)
FROM reference_job, generate_series(1, 5) AS n,
     LATERAL (SELECT ARRAY['job.submitted', 'job.waiting', 'job.placed', 'job.started',
                           'job.ended']) AS names(kinds)
WHERE at > %(end)s - interval '7 days' ORDER BY i, n
"""
CHANGES: Final = """
INSERT INTO inventory_change
    (seq, kind, at, cluster_s, server_id, allocation_id, unit_ids, vector, caused,
     tolerated)
SELECT seq, entry, a.acquired_at, a.acquired_s, a.server_id, a.id, a.unit_ids,
       ARRAY[0, 0, 0]::float8[], a.caused, a.tolerated
FROM scheduling_allocation a JOIN reference_job j ON j.id = a.job_id,
     LATERAL (VALUES ('claim', a.acquired_seq), ('release', a.released_seq)) AS parts(entry, seq)
WHERE j.at > %(end)s - interval '7 days' AND seq IS NOT NULL
"""
OPERATIONS: Final = """
INSERT INTO operations_operation
    (id, kind, status, progress, total, message, arguments, result, cancel_requested, generation,
     request_id, created_by_id, project_id, created_at, updated_at, finished_at)
SELECT pg_temp.key(at, 'operation' || n), 'batch.submit',
       CASE n %% 50 WHEN 0 THEN 'failed' ELSE 'succeeded' END, 100, 100, 'reference', '{}', '{}',
       false, 2, 'reference', %(user)s,
       pg_temp.key(%(begin)s, 'project' || 1 + n %% %(projects)s), at, at, at
FROM generate_series(1, %(jobs)s / 10) AS n,
     LATERAL (SELECT %(begin)s + (%(end)s - %(begin)s) * (n * 10.0 / %(jobs)s)) AS times(at)
"""
KEYS: Final = """
INSERT INTO operations_idempotencykey
    (id, principal_id, route, key, body_digest, status, location, response, created_at)
SELECT pg_temp.key(at, 'key' || i), %(user)s, 'jobs', 'reference-' || i, sha256(i::text::bytea),
       201, '', '{}', at
FROM reference_job WHERE at > %(end)s - interval '1 day'
"""
FRAMES: Final = """
INSERT INTO inventory_clusterframe
    (at, cluster_s, server_cpu, server_allocated, servers, units, units_allocated, cpu_share,
     memory_share, watts, servers_on, facts)
SELECT %(end)s - make_interval(secs => 60 * n), floor(%(end_s)s / 60) * 60 - 60 * n, shares,
       shares, size, units, units / 2, 0.4 + 0.2 * pg_temp.draw(n, 8), 0.3, 80.0 * size, size,
       jsonb_build_object('jobs', jsonb_build_object('running', %(running)s, 'queued', n %% 300),
                          'targets', jsonb_build_object('met', 90, 'measured', 100),
                          'waiting', jsonb_build_object('CapacityShort', n %% 300))
FROM generate_series(%(frames)s, 1, -1) AS n,
     (SELECT count(*) AS size, sum(cores) AS units FROM inventory_server) AS servers,
     LATERAL (SELECT decode(repeat(lpad(to_hex(60 + n %% 80), 2, '0'), size::int), 'hex'))
         AS packed(shares)
ON CONFLICT DO NOTHING
"""
READINGS: Final = """
INSERT INTO inventory_serverreading
    (server_id, at, cluster_s, cpu_share, memory_share, network_share, storage_share, watts,
     backend)
SELECT id, %(end)s, %(end_s)s, 0.5, 0.3, 0.1, 0.1, 120, 'reference' FROM inventory_server
ON CONFLICT DO NOTHING
"""
RUNS: Final = """
INSERT INTO profiling_profilingrun
    (id, application_id, state, reason, plan, seed, created_at, requested_s, started_s,
     finished_s, claimed_by, attempts, message, project_id)
SELECT pg_temp.key(%(begin)s, 'run' || a), pg_temp.key(%(begin)s, 'application' || a),
       CASE a %% 200 WHEN 0 THEN 'failed' ELSE 'done' END, '', '{"runs": []}', a, %(begin)s,
       %(begin_s)s, %(begin_s)s, %(begin_s)s + 60, '', 1, '',
       pg_temp.key(%(begin)s, 'project' || 1 + a %% %(projects)s)
FROM generate_series(1, %(applications)s) AS a
"""
# As many as retention keeps for each application.
ERRORS: Final = """
INSERT INTO classification_predictionerror
    (application_id, job_id, profile_id, number, cluster_s, predicted, measured, deviation, beyond)
SELECT pg_temp.key(%(begin)s, 'application' || application), id,
       pg_temp.key(%(begin)s, 'profile' || application), 1, submitted_s + wait_s, 1,
       attainment, 0.1, 0
FROM (SELECT *, row_number() OVER (PARTITION BY application ORDER BY i DESC) AS place
      FROM reference_job WHERE state <> 'queued') AS newest
WHERE place <= 500 ORDER BY i
"""
PROFILES: Final = """
INSERT INTO classification_profile
    (id, application_id, number, revision, estimator, is_current, cells, flags, created_at)
SELECT pg_temp.key(%(begin)s, 'profile' || a), pg_temp.key(%(begin)s, 'application' || a), 1,
       %(revision)s, 'reference', true, %(cells)s::jsonb, '{}', %(begin)s
FROM generate_series(1, %(applications)s) AS a
"""

STATEMENTS: Final = {
    "draw": DRAW,
    "key": KEY,
    "applications": APPLICATIONS,
    "projects": PROJECTS,
    "batches": BATCHES,
    "plan of jobs": PLAN,
    "jobs": JOBS,
    "servers": SERVERS,
    "units": UNITS,
    "candidates": CANDIDATES,
    "decisions": DECISIONS,
    "allocations": ALLOCATIONS,
    "units held": HOLD_UNITS,
    "servers in use": HOLD_SERVERS,
    "launches": LAUNCHES,
    "samples": SAMPLES,
    "migrations": MIGRATIONS,
    "events": EVENTS,
    "changes": CHANGES,
    "operations": OPERATIONS,
    "idempotency keys": KEYS,
    "frames": FRAMES,
    "readings": READINGS,
    "profiling runs": RUNS,
    "profiles": PROFILES,
    "prediction errors": ERRORS,
}
