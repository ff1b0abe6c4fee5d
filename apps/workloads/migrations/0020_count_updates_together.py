"""Count the jobs of an update together: one row for each key whose number changes."""

from django.db import migrations

_KEY = "project_id, application_id, target_kind, state"
TOGETHER = f"""
CREATE OR REPLACE FUNCTION workloads_count_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_jobcountchange ({_KEY}, change)
    SELECT {_KEY}, sum(jobs) FROM (
        SELECT {_KEY}, -1 AS jobs FROM before UNION ALL SELECT {_KEY}, 1 FROM after) changes
    GROUP BY {_KEY} HAVING sum(jobs) <> 0;
    RETURN NULL;
END $$;
DROP TRIGGER job_counted_updated ON workloads_job;
CREATE TRIGGER job_counted_updated AFTER UPDATE ON workloads_job
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT
    EXECUTE FUNCTION workloads_count_updated();
"""
EACH = f"""
CREATE OR REPLACE FUNCTION workloads_count_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_jobcountchange ({_KEY}, change)
    VALUES (OLD.project_id, OLD.application_id, OLD.target_kind, OLD.state, -1),
           (NEW.project_id, NEW.application_id, NEW.target_kind, NEW.state, 1);
    RETURN NULL;
END $$;
DROP TRIGGER job_counted_updated ON workloads_job;
CREATE TRIGGER job_counted_updated AFTER UPDATE OF {_KEY} ON workloads_job
    FOR EACH ROW WHEN (
        (OLD.project_id, OLD.application_id, OLD.target_kind, OLD.state)
        IS DISTINCT FROM (NEW.project_id, NEW.application_id, NEW.target_kind, NEW.state))
    EXECUTE FUNCTION workloads_count_updated();
"""


class Migration(migrations.Migration):
    dependencies = [("workloads", "0019_new_jobs")]

    operations = [migrations.RunSQL(TOGETHER, EACH)]
