"""Tables as classes: what a class says is what its table has."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import JSON, BigInteger, ForeignKey, Index, MetaData, create_engine, insert, select
from sqlalchemy.types import TypeEngine
from tesched_db.checked import CheckedJson, CheckedValue
from tesched_db.declared import Stored, TableBase, stored
from tesched_db.rows import row_by_key, row_of, rows_of
from tesched_db.user_text import UserText


class Base(TableBase):
    """A base of tables, which is none itself."""

    metadata = MetaData()


class Owner(Base):
    """A table."""

    __tablename__ = "owners"
    __options__ = {"comment": "people"}  # noqa: RUF012 - as its base has it
    __indexes__ = (Index("by_both", "name", "key"),)

    key: Stored[int] = stored(primary_key=True, autoincrement=False)
    name: Stored[str] = stored("owner_name")
    count: Stored[int | None]
    tags: Stored[list[str]]
    #: no column
    other: int


class Pet(Base):
    """A table that refers to another."""

    __tablename__ = "pets"

    key: Stored[int] = stored(primary_key=True, autoincrement=False)
    owner: Stored[int | None] = stored(ForeignKey("owners.key"))


def _unchecked(kind: TypeEngine[Any]) -> TypeEngine[Any]:
    assert isinstance(kind, (CheckedJson, CheckedValue))
    return kind.of


def test_a_column_has_the_type_the_name_and_the_nullability_that_are_annotated() -> None:
    table = Owner.__table__
    assert {column.key: (column.name, column.nullable) for column in table.columns} == {
        "key": ("key", False),
        "name": ("owner_name", False),
        "count": ("count", True),
        "tags": ("tags", False),
    }
    kinds: dict[str, type[Any]] = {column.key: type(_unchecked(column.type)) for column in table.columns}
    assert kinds == {"key": BigInteger, "name": UserText, "count": BigInteger, "tags": JSON}
    assert ([one.name for one in table.indexes], table.comment) == (["by_both"], "people")


def test_a_reference_has_the_type_of_a_key() -> None:
    assert (type(_unchecked(Pet.owner.type)), Pet.owner.nullable) == (BigInteger, True)


def test_rows_have_the_attributes_of_their_class_also_where_the_database_has_other_names() -> None:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        rows = [{"key": key, "name": name, "count": None, "tags": [name]} for key, name in enumerate(("ada", "bob"))]
        connection.execute(insert(Owner), rows)
        found = rows_of(connection, select(Owner).order_by(Owner.name.desc()))
        assert [(row.key, row.name, row.count, row.tags) for row in found] == [
            (1, "bob", None, ["bob"]),
            (0, "ada", None, ["ada"]),
        ]
        first = row_of(connection, select(Owner).where(Owner.name == "ada"))
        assert first is not None
        assert first.tags == ["ada"]
        assert row_of(connection, select(Owner).where(Owner.name == "eve")) is None
        by_key = row_by_key(connection, Owner, 1)
        assert by_key is not None
        assert by_key.name == "bob"
        assert row_by_key(connection, Owner, 7) is None


def test_a_type_that_no_column_has_is_an_error() -> None:
    with pytest.raises(KeyError, match="bytes"):

        class Wrong(Base):
            __tablename__ = "wrong"
            key: Stored[bytes]
