# test/clients/psycopg.py: psycopg 3's COPY, as text, binary and from several tables at once; a COPY
# that fails in a savepoint; executemany; and what COPY TO gives back.
#
# Python: psycopg[binary]~=3.2
# Batched: 500000
import datetime
import os
import sys

import psycopg

TREE, HASH, ZONE = (os.environ[name] for name in ("TREE", "HASH", "ZONE"))
ROWS = 60000
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)


def row(i):
    """The i-th row, always the same."""
    return (i, START + datetime.timedelta(seconds=i * 7919 % 86400), i * 104729 % 1009,
            f"kind {i % 37}", None if i % 11 == 0 else i / 3, bytes([i % 256, i // 256 % 256]))


def make(connection, table):
    """A table with a primary key and five more indexes."""
    connection.execute(f"""
        CREATE TABLE {table} (id bigint PRIMARY KEY, at timestamptz, device int, kind text,
            value float8, payload bytea);
        CREATE INDEX ON {table} USING {TREE} (at);
        CREATE INDEX ON {table} USING {TREE} (device, at DESC);
        CREATE INDEX ON {table} USING {TREE} (kind) INCLUDE (value) WHERE value IS NOT NULL;
        CREATE INDEX ON {table} USING {HASH} (payload);
        CREATE INDEX ON {table} USING {ZONE} (id)""")


def text_copy(connection):
    """Rows as Python has them, formatted as text."""
    with connection.cursor().copy("COPY events FROM STDIN") as copy:
        for i in range(ROWS):
            copy.write_row(row(i))


def binary_copy(connection):
    """The same as binary, behind the others, from a generator of types that the server has."""
    with connection.cursor().copy("COPY events FROM STDIN (FORMAT BINARY)") as copy:
        copy.set_types(["int8", "timestamptz", "int4", "text", "float8", "bytea"])
        for i in range(ROWS, 2 * ROWS):
            copy.write_row(row(i))


def failing_copy(connection):
    """A row that is there already, in a savepoint: nothing of this COPY stays."""
    try:
        with connection.transaction():
            with connection.cursor().copy("COPY events FROM STDIN") as copy:
                for i in range(2 * ROWS, 2 * ROWS + 5000):
                    copy.write_row(row(i))
                copy.write_row(row(17))
    except psycopg.errors.UniqueViolation:
        return
    raise AssertionError("a duplicate was accepted")


def copy_across(connection):
    """What comes out of one table goes into another, over two connections."""
    with psycopg.connect() as second:
        make(second, "copies")
        with connection.cursor().copy("COPY (TABLE events) TO STDOUT (FORMAT BINARY)") as source, \
                second.cursor().copy("COPY copies FROM STDIN (FORMAT BINARY)") as target:
            for block in source:
                target.write(block)


def main():
    with open("version", "w", encoding="ascii") as file:
        print(psycopg.__version__, file=file)
    with psycopg.connect() as connection:
        make(connection, "events")
        text_copy(connection)
        failing_copy(connection)
        connection.commit()
        binary_copy(connection)
        connection.commit()
        copy_across(connection)
        cursor = connection.cursor()
        cursor.executemany("UPDATE events SET value = %s, kind = 'changed' WHERE id = %s",
                           [(i, i * 13) for i in range(3000)])
        cursor.executemany("INSERT INTO events VALUES (%s, %s, %s, %s, %s, %s) RETURNING id",
                           [row(i) for i in range(3 * ROWS, 3 * ROWS + 3000)], returning=True)
        count, = cursor.execute("SELECT count(*) FROM events WHERE device < 10 "
                                "AND at >= '2024-01-01 12:00Z'").fetchone()
        found = sum(1 for i in [*range(2 * ROWS), *range(3 * ROWS, 3 * ROWS + 3000)]
                    if row(i)[2] < 10 and row(i)[1].hour >= 12)
        assert count == found, (count, found)


assert sys.argv[1] == "load"
main()
