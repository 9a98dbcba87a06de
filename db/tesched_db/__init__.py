"""The state store: SQLAlchemy tables, Alembic migrations, the journal."""
