"""Measures feeds of tables that are much larger than memory for pages."""
from data import AMS, columns, indexes
from harness import ROUNDS, ROWS, part
from events import in_turn, pick
from loads import LIVE
from server import Server

# A quarter of an index of 25 times the rows
SETTINGS = {'shared_buffers': '%dMB' % max(ROWS * 256 // 1_000_000, 16), 'max_wal_size': '8GB'}


@part
def part_large(b):
    """Feeds of a quarter as many rows into tables of 25 times as many as the other parts' (500,000
    into 50,000,000), with four indexes on random ints, each twice as large as shared_buffers (512
    MB): one behind a checkpoint, and the next one."""
    server = Server(b.args, 'large', SETTINGS)
    took = {'mtpower': [], LIVE: []}
    for am in AMS:
        b.table('large_' + am, am, n=0, server=server)
        server.sql('INSERT INTO large_{0} SELECT hashint4(g), hashint4(g + {1}), hashint4(g + 2 * '
                   '{1}), hashint4(g + 3 * {1}) FROM generate_series(1, {1}) g; {2}'
                   'VACUUM ANALYZE large_{0}'.format(
                       am, 25 * ROWS, indexes('large_' + am, am, columns('ints'))))
    feeds = [b.file(rows=ROWS // 4, seed=60 + i) for i in range(2 * ROUNDS)]

    def run(am, side):
        server.sql('CHECKPOINT')
        at = 2 * len(took[side])
        took[side].append(
            [server.timed(b.copy(feed, 'large_' + am)) for feed in feeds[at:at + 2]])

    try:
        in_turn(run)
        for am in AMS:
            b.note('(%s: table and indexes %s)' % (am, server.sql(
                "SELECT pg_size_pretty(pg_table_size('large_{0}')) || ' and ' || "
                "pg_size_pretty(pg_indexes_size('large_{0}'))".format(am)).strip()))
    finally:
        server.remove()
    for i, name in enumerate(('feed behind a checkpoint', 'next feed')):
        b.show(name, pick(took, lambda t: t[i]), targets={LIVE: 2.5})
