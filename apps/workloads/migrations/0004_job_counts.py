"""Counters of jobs, maintained by triggers in the transactions that change jobs."""

from typing import Any

from django.db import migrations, models

_KEY = "project_id, application_id, target_kind, state"
TRIGGERS = f"""
CREATE FUNCTION workloads_count_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_jobcountchange ({_KEY}, change)
    SELECT {_KEY}, count(*) FROM inserted GROUP BY {_KEY};
    RETURN NULL;
END $$;
CREATE FUNCTION workloads_count_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_jobcountchange ({_KEY}, change)
    SELECT {_KEY}, -count(*) FROM deleted GROUP BY {_KEY};
    RETURN NULL;
END $$;
CREATE FUNCTION workloads_count_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_jobcountchange ({_KEY}, change)
    VALUES (OLD.project_id, OLD.application_id, OLD.target_kind, OLD.state, -1),
           (NEW.project_id, NEW.application_id, NEW.target_kind, NEW.state, 1);
    RETURN NULL;
END $$;
CREATE TRIGGER job_counted_inserted AFTER INSERT ON workloads_job
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT
    EXECUTE FUNCTION workloads_count_inserted();
CREATE TRIGGER job_counted_deleted AFTER DELETE ON workloads_job
    REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT
    EXECUTE FUNCTION workloads_count_deleted();
CREATE TRIGGER job_counted_updated AFTER UPDATE OF {_KEY} ON workloads_job
    FOR EACH ROW WHEN (
        (OLD.project_id, OLD.application_id, OLD.target_kind, OLD.state)
        IS DISTINCT FROM (NEW.project_id, NEW.application_id, NEW.target_kind, NEW.state))
    EXECUTE FUNCTION workloads_count_updated();
INSERT INTO workloads_jobcount ({_KEY}, jobs)
    SELECT {_KEY}, count(*) FROM workloads_job GROUP BY {_KEY};
"""
NO_TRIGGERS = """
DROP TRIGGER job_counted_inserted ON workloads_job;
DROP TRIGGER job_counted_deleted ON workloads_job;
DROP TRIGGER job_counted_updated ON workloads_job;
DROP FUNCTION workloads_count_inserted();
DROP FUNCTION workloads_count_deleted();
DROP FUNCTION workloads_count_updated();
"""


def _key_fields() -> list[tuple[str, Any]]:
    return [
        (
            "id",
            models.BigAutoField(
                auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
            ),
        ),
        ("project_id", models.UUIDField()),
        ("application_id", models.UUIDField()),
        ("target_kind", models.CharField(max_length=20)),
        ("state", models.CharField(max_length=10)),
    ]


class Migration(migrations.Migration):
    dependencies = [("workloads", "0003_waiting_shapes")]

    operations = [
        migrations.CreateModel(
            name="JobCountChange",
            fields=[*_key_fields(), ("change", models.BigIntegerField())],
        ),
        migrations.CreateModel(
            name="JobCount",
            fields=[*_key_fields(), ("jobs", models.BigIntegerField())],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("application_id", "project_id", "target_kind", "state"),
                        name="job_count_once",
                    )
                ]
            },
        ),
        migrations.AddIndex(
            model_name="jobcountchange",
            index=models.Index(fields=["application_id"], name="job_count_change_by_app"),
        ),
        migrations.RunSQL(TRIGGERS, NO_TRIGGERS),
    ]
