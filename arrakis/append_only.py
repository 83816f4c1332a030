"""Rows that are written once: a trigger refuses UPDATE, DELETE and TRUNCATE, whoever asks."""

from __future__ import annotations

from django.db import migrations

_FUNCTION = """
CREATE OR REPLACE FUNCTION arrakis_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or deleted', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
"""


def append_only(table: str) -> migrations.RunSQL:
    """A migration operation that makes `table` append-only."""
    return migrations.RunSQL(
        sql=_FUNCTION
        + f"""
CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION arrakis_append_only();
CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION arrakis_append_only();
""",
        reverse_sql=f"DROP TRIGGER {table}_append_only ON {table}; DROP TRIGGER {table}_no_truncate ON {table};",
    )
