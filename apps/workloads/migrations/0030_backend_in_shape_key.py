"""Jobs of different backends share no waiting shape.

A backend runs commands only on some platforms. The key of a job without one stays as it was. That
of a stored job with one changes with the next change of its request: until then it stays in the
shape in which it waits, and of an ended job nobody reads it.
"""

from importlib import import_module

from django.db import migrations

_FUNCTION: str = import_module("apps.workloads.migrations.0021_job_keys")._FUNCTION.replace(
    "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"
)
_LAST = "ELSE '-' END\n    )::uuid"  # of the shape key
_WITH_BACKEND = (
    "ELSE '-' END\n        || CASE WHEN NEW.backend = '' THEN '' ELSE ' ' || NEW.backend END"
    "\n    )::uuid"
)
_TRIGGER = """
CREATE OR REPLACE TRIGGER job_keys_updated BEFORE UPDATE OF
    project_id, application_id, priority, gang, target, target_kind, constraints, input_bytes,
    tasks_total, units_requested, duration_s, unit_memory_bytes, unit_network_bps,
    unit_storage_bytes, policy, sample_size, guarantee, submitted_s, {backend}shape_key, flow_key
    ON workloads_job FOR EACH ROW EXECUTE FUNCTION workloads_set_job_keys();
"""


class Migration(migrations.Migration):
    dependencies = [("workloads", "0029_place_in_queue")]

    operations = [
        migrations.RunSQL(_FUNCTION.replace(_LAST, _WITH_BACKEND), _FUNCTION),
        migrations.RunSQL(_TRIGGER.format(backend="backend, "), _TRIGGER.format(backend="")),
    ]
