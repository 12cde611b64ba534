"""Measures loads into partitioned tables."""
import datetime
from data import AMS, indexes
from harness import ROWS, part
from loads import LIVE
from server import Server, together
from tables import LINEITEM, LINEITEM_INDEXES, flights_file, flights_sql, lineitem_file

UNBATCHED = 'batching off'


@part
def part_partitions(b):
    """1,500 and 4,000 partitions with a B-link and a hash index each, by INSERT … SELECT and by
    COPY, by one session and by four: rows that come in the order of the partitions (clustered), or
    each for another one (scattered). The flights by day and lineitem by month, with six B-links
    each. The peer is mtpower.batching = off on the same table; of flights and lineitem, heap with
    btrees too. The same partitions without indexes are the bound: what no index could be faster
    than."""
    server = Server(b.args, 'partitions', {'max_locks_per_transaction': '2000'})
    try:
        for n in (1500, 4000):
            for table in 'parts', 'bare':
                server.sql(
                    'SET default_table_access_method = mtpower; DROP TABLE IF EXISTS %s; '
                    'CREATE TABLE %s (p int, a int, b int) PARTITION BY LIST (p)'
                    % (table, table))
                server.sql(
                    ';'.join('CREATE TABLE %s_%d PARTITION OF %s FOR VALUES IN (%d) USING mtpower' %
                             (table, p, table, p) for p in range(n)))
            server.sql(
                'CREATE INDEX ON parts USING mtpower_blink (a); CREATE INDEX ON parts USING '
                'mtpower_hash (b)'
            )
            for order, expression in (('clustered', '(g - 1)::bigint * %d / %d'),
                                      ('scattered', 'g::bigint * 7919 %% %d')):
                for loaders in (1, 4):
                    compare_partitions(b, server, n, order, expression, loaders)
        compare_flights(b, server)
        compare_lineitem(b, server)
    finally:
        server.remove()


def compare_partitions(b, server, n, order, expression, loaders):
    rows = ROWS // loaders
    partition = expression % ((n, rows) if order == 'clustered' else n)
    select = [
        'SELECT %s, hashint4(g + %d), hashint4(g - %d) FROM generate_series(1, %d) g' %
        (partition, i * ROWS, i * ROWS + 7, rows) for i in range(loaders)
    ]
    files = [b.path('parts-%d.csv' % i) for i in range(loaders)]
    server.sql(';'.join("COPY (%s) TO '%s' (FORMAT csv)" % pair for pair in zip(select, files)))

    for how, commands in (('INSERT', ['INSERT INTO {table} ' + s for s in select]), ('COPY', [
            "COPY {table} FROM '%s' (FORMAT csv)" % f for f in files
    ])):
        b.compare('%d partitions, %s, %s, %d session%s' %
                  (n, order, how, loaders, '' if loaders == 1 else 's'), {
                      'mtpower': lambda: fill(server, 'parts', commands),
                      UNBATCHED: lambda: fill(server, 'parts', commands, 'off'),
                      'no index': lambda: fill(server, 'bare', commands)
                  },
                  targets={UNBATCHED: 2 if order == 'clustered' else 0.95})


def fill(server, table, commands, batching='on'):
    """Seconds that the commands take side by side, each in a session of its own, to fill the table
    that is emptied before."""
    server.sql('TRUNCATE %s; CHECKPOINT' % table)
    return max(
        together(
            *(lambda c=c: server.timed(c.format(table=table), 'SET mtpower.batching = ' + batching)
              for c in commands)))


def make_partitions(server, name, partitions, make, index):
    """The partitioned table in three schemas: power, with B-links, plain, with btrees on heap, and
    bare, without indexes."""
    for schema, am in (('power', 'mtpower'), ('plain', 'heap'), ('bare', 'mtpower')):
        begin = 'CREATE SCHEMA IF NOT EXISTS %s; SET search_path = %s, public; ' \
            'SET default_table_access_method = %s;\n' % (
            schema, schema, AMS[am][0])
        server.sql(begin + ';'.join([make] + [
            'CREATE TABLE %s_%d PARTITION OF %s FOR VALUES FROM (%s) TO (%s)' %
            (name, i, name, *bounds) for i, bounds in enumerate(partitions)
        ]))
        if schema != 'bare':
            server.sql(begin + index(am))


def compare_schemas(b, server, case, name, command, order):
    """One command on the three schemas of make_partitions, and on the first of them without
    batches."""
    b.compare('%s, %s, %s' % (case, order, command.split()[0]), {
        'mtpower': lambda: fill(server, 'power.' + name, [command]),
        UNBATCHED: lambda: fill(server, 'power.' + name, [command], 'off'),
        LIVE: lambda: fill(server, 'plain.' + name, [command]),
        'no index': lambda: fill(server, 'bare.' + name, [command])
    },
              targets=dict.fromkeys((UNBATCHED, LIVE), 2 if order == 'clustered' else 0.95))


def compare_flights(b, server):
    """The flights of 2013 by day: in the order of their file, which is the days', and in the order
    of the airplanes."""
    copy = "COPY {table} FROM '%s' (FORMAT csv, HEADER)" % flights_file(b)
    server.sql(flights_sql(b, 'tables.sql', am='heap'))
    server.sql(copy.format(table='flights'))
    days = [datetime.date(2013, 1, 1) + datetime.timedelta(i) for i in range(365)]
    make_partitions(server, 'flights',
                    [('%d, %d' % (d.month, d.day), '%d, %d' % (d.month, d.day + 1)) for d in days],
                    'CREATE TABLE flights (LIKE public.flights) PARTITION BY RANGE (month, day)',
                    lambda am: flights_sql(b, 'indexes.sql', index_am=AMS[am][1]))
    compare_schemas(b, server, 'flights by day', 'flights', copy, 'clustered')
    compare_schemas(b, server, 'flights by day', 'flights',
                    'INSERT INTO {table} SELECT * FROM public.flights ORDER BY tailnum',
                    'scattered')


def compare_lineitem(b, server):
    """lineitem by month of the ship date: in the order of its file, in which each row is for
    another month."""
    months = ["'%d-%02d-01'" % (1992 + i // 12, 1 + i % 12) for i in range(7 * 12 + 1)]
    make_partitions(server, 'lineitem', list(zip(months, months[1:])),
                    'CREATE TABLE lineitem (%s) PARTITION BY RANGE (l_shipdate)' % LINEITEM,
                    lambda am: indexes('lineitem', am, LINEITEM_INDEXES))
    compare_schemas(b, server, 'lineitem by month', 'lineitem',
                    "COPY {table} FROM '%s' (FORMAT csv, HEADER)" % lineitem_file(b), 'scattered')
