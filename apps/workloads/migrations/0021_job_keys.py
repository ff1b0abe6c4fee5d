"""Set the keys of a request in a trigger instead of in generated columns.

PostgreSQL 18 reads the text of a generated column's expression again for each row of an UPDATE that
does not change it: 19,000 characters, which took five sixths of the time of an update.
"""

from uuid import UUID

from django.db import migrations, models

# 0.05 and 10.0: `core.shapes.AGE_SHARE` and `MIN_AGE_S`
_KEYS = {
    "shape_key": """md5(
        NEW.project_id::text || ' ' || NEW.application_id::text || ' ' || NEW.priority::text
        || ' ' || NEW.gang::text || ' ' || NEW.target::text || ' ' || NEW.constraints::text
        || ' ' || NEW.input_bytes::text || ' ' || NEW.tasks_total::text
        || ' ' || coalesce(NEW.units_requested::text, '-')
        || ' ' || coalesce(NEW.duration_s::text, '-') || ' ' || NEW.unit_memory_bytes::text
        || ' ' || NEW.unit_network_bps::text || ' ' || NEW.unit_storage_bytes::text
        || ' ' || NEW.policy || ' ' || coalesce(NEW.sample_size::text, '-')
        || ' ' || coalesce(NEW.guarantee::text, '-')
        || ' ' || CASE WHEN NEW.target_kind = 'completion_time' AND NEW.units_requested IS NULL
                       THEN floor(NEW.submitted_s / greatest(
                            0.05 * (NEW.target->>'seconds')::float8, 10.0))::text
                       ELSE '-' END
    )::uuid""",
    "flow_key": """md5(
        NEW.application_id::text || ' ' || NEW.gang::text || ' ' || NEW.constraints::text
        || ' ' || coalesce(NEW.units_requested::text, '-') || ' ' || NEW.unit_memory_bytes::text
        || ' ' || NEW.unit_network_bps::text || ' ' || NEW.unit_storage_bytes::text
    )::uuid""",
}
_FUNCTION = f"""
CREATE FUNCTION workloads_set_job_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.shape_key := {_KEYS["shape_key"]};
    NEW.flow_key := {_KEYS["flow_key"]};
    RETURN NEW;
END $$
"""
_TRIGGERS = """
CREATE TRIGGER job_keys_inserted BEFORE INSERT ON workloads_job
    FOR EACH ROW EXECUTE FUNCTION workloads_set_job_keys();
CREATE TRIGGER job_keys_updated BEFORE UPDATE OF
    project_id, application_id, priority, gang, target, target_kind, constraints, input_bytes,
    tasks_total, units_requested, duration_s, unit_memory_bytes, unit_network_bps,
    unit_storage_bytes, policy, sample_size, guarantee, submitted_s, shape_key, flow_key
    ON workloads_job FOR EACH ROW EXECUTE FUNCTION workloads_set_job_keys();
"""
_NO_TRIGGERS = """
DROP TRIGGER job_keys_inserted ON workloads_job;
DROP TRIGGER job_keys_updated ON workloads_job;
"""
_FLOW_INDEX = """
CREATE INDEX job_by_flow ON workloads_job
    (project_id, created_by_id, flow_key, priority DESC, created_at, id)
    WHERE (CASE WHEN state IN ('submitted', 'queued') AND NOT held AND shape_id IS NULL
           THEN flow_key IS NOT NULL ELSE false END)
"""  # dropped with its column by the reverse


def _generated(name: str) -> str:
    """Replace a plain column by a generated one, which rewrites the table."""
    expression = _KEYS[name].replace("NEW.", "")
    return (
        f"ALTER TABLE workloads_job DROP COLUMN {name},"
        f" ADD COLUMN {name} uuid GENERATED ALWAYS AS ({expression}) STORED"
    )


def _plain(name: str) -> migrations.SeparateDatabaseAndState:
    """Keep the values of a generated column, which anything may now write."""
    field = models.UUIDField(db_default=UUID(int=0), editable=False)
    return migrations.SeparateDatabaseAndState(
        database_operations=[
            migrations.RunSQL(
                f"ALTER TABLE workloads_job ALTER COLUMN {name} DROP EXPRESSION,"
                f" ALTER COLUMN {name} SET DEFAULT '{UUID(int=0)}', ALTER COLUMN {name} SET NOT NULL",
                _generated(name),
            )
        ],
        state_operations=[
            migrations.RemoveField("job", name),
            migrations.AddField("job", name, field),
        ],
    )


class Migration(migrations.Migration):
    dependencies = [("workloads", "0020_count_updates_together")]

    operations = [
        migrations.RunSQL(migrations.RunSQL.noop, _FLOW_INDEX),
        _plain("shape_key"),
        _plain("flow_key"),
        migrations.RunSQL(_FUNCTION, "DROP FUNCTION workloads_set_job_keys()"),
        migrations.RunSQL(_TRIGGERS, _NO_TRIGGERS),
    ]
