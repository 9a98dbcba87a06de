"""Alembic's environment and the migrations, inside the package so that they are installed with it."""
