"""One migration, applied or reversed in the transaction of a test."""

from django.db import connection
from django.db.migrations.loader import MigrationLoader


def migrate(app: str, name: str, *, back: bool) -> None:
    """Apply or reverse a migration alone."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # an ALTER TABLE refuses pending checks
    loader = MigrationLoader(connection)
    migration = loader.get_migration(app, name)
    before = [parent for parent in migration.dependencies if parent[0] == app]
    with connection.schema_editor(atomic=False) as editor:
        change = migration.unapply if back else migration.apply
        change(loader.project_state(before), editor)
