"""Move what jobs are searched by to a table of its own.

A change of a job's state adds an entry to every index of its table, and these three took a third of
its time. The triggers come first: they wait for all writers of jobs, and none can begin before the
terms of all jobs are copied.
"""

import django.contrib.postgres.indexes
import django.db.models.deletion
from django.db import migrations, models

import apps.workloads.infrastructure.name_search

_TRIGGERS = """
CREATE FUNCTION workloads_add_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workloads_searchterms (job_id, name, labels, correlation_id)
    SELECT id, name, labels, correlation_id FROM added;
    RETURN NULL;
END $$;
CREATE FUNCTION workloads_change_terms() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE workloads_searchterms
    SET name = NEW.name, labels = NEW.labels, correlation_id = NEW.correlation_id
    WHERE job_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER job_terms_added AFTER INSERT ON workloads_job
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION workloads_add_terms();
CREATE TRIGGER job_terms_changed AFTER UPDATE OF name, labels, correlation_id ON workloads_job
    FOR EACH ROW WHEN ((OLD.name, OLD.labels, OLD.correlation_id)
                       IS DISTINCT FROM (NEW.name, NEW.labels, NEW.correlation_id))
    EXECUTE FUNCTION workloads_change_terms();
"""
_NO_TRIGGERS = """
DROP TRIGGER job_terms_added ON workloads_job;
DROP TRIGGER job_terms_changed ON workloads_job;
DROP FUNCTION workloads_add_terms();
DROP FUNCTION workloads_change_terms();
"""
_COPY = """
INSERT INTO workloads_searchterms (job_id, name, labels, correlation_id)
SELECT id, name, labels, correlation_id FROM workloads_job
"""


class Migration(migrations.Migration):
    dependencies = [("workloads", "0024_jobs_without_user_index")]

    operations = [
        migrations.CreateModel(
            name="SearchTerms",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="terms",
                        serialize=False,
                        to="workloads.job",
                    ),
                ),
                ("name", models.CharField(max_length=127)),
                ("labels", models.JSONField()),
                ("correlation_id", models.CharField(max_length=64)),
            ],
        ),
        migrations.RunSQL(_TRIGGERS, _NO_TRIGGERS),
        migrations.RunSQL(_COPY, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="searchterms",
            index=django.contrib.postgres.indexes.HashIndex(
                fields=["correlation_id"], name="terms_by_request"
            ),
        ),
        migrations.AddIndex(
            model_name="searchterms",
            index=django.contrib.postgres.indexes.GinIndex(
                fields=["labels"], name="terms_by_label", opclasses=["jsonb_path_ops"]
            ),
        ),
        migrations.AddIndex(
            model_name="searchterms",
            index=django.contrib.postgres.indexes.GinIndex(
                apps.workloads.infrastructure.name_search.Words("name"), name="terms_by_word"
            ),
        ),
        migrations.RemoveIndex(model_name="job", name="job_by_request"),
        migrations.RemoveIndex(model_name="job", name="job_by_label"),
        migrations.RemoveIndex(model_name="job", name="job_by_word"),
    ]
