# test/clients/sqlalchemy.py: SQLAlchemy's insertmanyvalues, with and without RETURNING, in pages of
# the default and of a larger size; upserts by ON CONFLICT DO UPDATE; the ORM's unit of work.
#
# Python: sqlalchemy~=2.0 psycopg[binary]~=3.2
# Batched: 100000
import os
import sys

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects import postgresql

TREE, HASH = os.environ["TREE"], os.environ["HASH"]
ROWS = 30000


class Base(orm.DeclarativeBase):
    pass


class Place(Base):
    __tablename__ = "place"
    id = orm.mapped_column(sa.Integer, primary_key=True)
    name = orm.mapped_column(sa.String, nullable=False)
    readings = orm.relationship("Reading", back_populates="place")


class Reading(Base):
    __tablename__ = "reading"
    id = orm.mapped_column(sa.BigInteger, primary_key=True)
    key = orm.mapped_column(sa.String, unique=True, nullable=False)
    device = orm.mapped_column(sa.Integer)
    value = orm.mapped_column(sa.Float)
    place_id = orm.mapped_column(sa.ForeignKey("place.id"))
    place = orm.relationship("Place", back_populates="readings")
    __table_args__ = (
        sa.Index("reading_device", "device", "value", postgresql_using=TREE),
        sa.Index("reading_value", "value", postgresql_using=TREE),
        sa.Index("reading_place", "place_id", postgresql_using=HASH))


def rows(first, last):
    return [{"key": f"key {i * 7919 % 1000003}", "device": i * 31 % 997, "value": i / 7,
             "place_id": i % 50 + 1} for i in range(first, last)]


def insert(session, first, last, page_size=None):
    """An INSERT of many rows, whose identities are asked for in the order of the rows."""
    options = {"insertmanyvalues_page_size": page_size} if page_size else {}
    ids = session.scalars(
        sa.insert(Reading).returning(Reading.id, sort_by_parameter_order=True),
        rows(first, last), execution_options=options).all()
    assert ids == sorted(ids) and len(ids) == last - first


def upsert(session, first, last):
    """Rows of which half are there already."""
    statement = postgresql.insert(Reading)
    statement = statement.on_conflict_do_update(
        index_elements=[Reading.key],
        set_={"value": statement.excluded.value + 1000, "device": Reading.device + 1})
    for begin in range(first, last, 2000):
        session.execute(statement.values(rows(begin, begin + 2000)))


def unit_of_work(session):
    """Objects that the ORM writes; one transaction that is rolled back, in part and as a whole."""
    place = Place(name="new", readings=[Reading(key=f"object {i}", device=i) for i in range(3000)])
    session.add(place)
    session.flush()
    with session.begin_nested() as nested:
        session.add_all(Reading(key=f"gone {i}", device=i) for i in range(2000))
        session.flush()
        nested.rollback()
    for reading in session.scalars(sa.select(Reading).where(Reading.device == 17)):
        reading.value = -1
    session.commit()
    session.execute(sa.delete(Reading).where(Reading.device < 100))
    session.rollback()


def main():
    with open("version", "w", encoding="ascii") as file:
        print(sa.__version__, file=file)
    engine = sa.create_engine("postgresql+psycopg://", max_identifier_length=63)
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.execute(sa.insert(Place), [{"name": f"place {i}"} for i in range(50)])
        insert(session, 0, ROWS)
        session.commit()
        insert(session, ROWS, 2 * ROWS, page_size=5000)
        session.commit()
        upsert(session, ROWS * 3 // 2, ROWS * 5 // 2)
        session.commit()
        unit_of_work(session)
        count = session.scalar(sa.select(sa.func.count()).where(Reading.device == 500))
        assert count >= ROWS * 5 // 2 // 997, count
    engine.dispose()


assert sys.argv[1] == "load"
main()
