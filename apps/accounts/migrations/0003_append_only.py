"""The database refuses to change, delete or truncate the audit log.

Sessions from before the list of sessions end: their users could not see or revoke them.
"""

from django.db import migrations

REFUSE = """
CREATE FUNCTION accounts_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is append-only: % refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;
CREATE TRIGGER accounts_audit_append_only BEFORE UPDATE OR DELETE ON accounts_auditentry
    FOR EACH ROW EXECUTE FUNCTION accounts_refuse_audit_change();
CREATE TRIGGER accounts_audit_no_truncate BEFORE TRUNCATE ON accounts_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION accounts_refuse_audit_change();
"""
ALLOW = """
DROP TRIGGER accounts_audit_no_truncate ON accounts_auditentry;
DROP TRIGGER accounts_audit_append_only ON accounts_auditentry;
DROP FUNCTION accounts_refuse_audit_change();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_audit_and_sign_in"),
        ("sessions", "0001_initial"),
    ]
    operations = [
        migrations.RunSQL(REFUSE, ALLOW),
        migrations.RunSQL("DELETE FROM django_session", migrations.RunSQL.noop),
    ]
