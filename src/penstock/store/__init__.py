"""Penstock's own database: tables, migrations, repositories."""
