"""What is remembered: SQLAlchemy tables, Alembic migrations, the journal."""
