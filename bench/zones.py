"""Measures zone indexes on a table in the order of its rows, beside btree and BRIN."""
import shutil
import time

from data import AMS
from events import EVENTS, events_file
from harness import PAIRS, ROUNDS, ROWS, part
from instructions import COUNT as COUNTED, SIZES, backends, check_valgrind, compare_counts, database
from loads import LIVE
from restarts import restart
from server import Failed, Server
from steady import PLAIN
from tables import LINEITEM, flights_file, flights_sql, lineitem_file

# side -> what is behind CREATE INDEX ... ON z_SIDE USING
INDEXES = {
    'mtpower': 'mtpower_zone (id)',
    'btree': 'btree (id)',
    'brin': 'brin (id)',
    'brin_2': 'brin (id) WITH (pages_per_range = 2)'
}
COUNT = 5 * ROWS
# Of BRIN's look-ups one of so many is made.
PART = {'brin': 200, 'brin_2': 40}
ROW = ("SELECT g AS id, (g * 1000003::bigint %% 1000000)::int AS a, repeat('x', 25) AS pad "
       "FROM generate_series(1::bigint, %d) g")
NESTED = (PLAIN + '; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = '
          'off; SET enable_memoize = off')


def create(b, side, name):
    """Seconds of CREATE INDEX on the table of this name"""
    b.server.sql('DROP INDEX IF EXISTS %s_i; CHECKPOINT' % name)
    return b.server.timed('CREATE INDEX %s_i ON %s USING %s' % (name, name, INDEXES[side]))


def tables(b):
    path = b.path('zone.csv')
    b.server.sql("COPY (%s) TO '%s'" % (ROW % COUNT, path))
    for side in INDEXES:
        b.server.sql('DROP TABLE IF EXISTS z_{0}; CREATE TABLE z_{0} (id bigint, a int, pad text) '
                     'USING {1}; COPY z_{0} FROM \'{2}\'; VACUUM ANALYZE z_{0}'.format(
                         side, 'mtpower' if side == 'mtpower' else 'heap', path))
    b.server.sql('CREATE TABLE z_probes AS SELECT (random() * %d)::bigint + 1 AS id FROM '
                 'generate_series(1, 20000); VACUUM ANALYZE z_probes' % (COUNT - 1))
    return path


def load(b, path, indexed):
    """Seconds of one COPY into an empty table"""
    b.server.sql('DROP TABLE IF EXISTS z; CREATE TABLE z (id bigint, a int, pad text) USING mtpower')
    if indexed:
        b.server.sql('CREATE INDEX ON z USING mtpower_zone (id)')
    b.server.sql('CHECKPOINT')
    return b.server.timed("COPY z FROM '%s'" % path)


def look_up(b, side, rows, part=None, off='enable_seqscan'):
    """Seconds of probes in a nested loop: each reads so many rows; measured of one in `part`."""
    part = part or PART.get(side, 1)
    query = ('SELECT count(z.a) FROM z_probes p, LATERAL (SELECT a FROM z_%s WHERE id BETWEEN p.id '
             'AND p.id + %d OFFSET 0) z' % (side, rows - 1))
    if rows == 1:
        query = 'SELECT count(z.a) FROM z_probes p JOIN z_%s z USING (id)' % side
    if part > 1:
        query = query.replace('z_probes p',
                              '(SELECT * FROM z_probes LIMIT %d) p' % (20000 // part))
    settings = '; SET %s = off' % off if side != 'btree' else ''
    seconds = b.server.timed(query, NESTED + settings)
    return seconds * part


def cold(b, side):
    """Seconds of look-ups after a restart, with nothing of the tables in memory"""
    restart(b.server, False)
    return look_up(b, side, 1, 10)


def make_directories(b):
    """Look-ups ask for the directories of the pages that they read, until all have theirs."""
    b.server.sql("SELECT mtpower.set_directory('z_mtpower', 'id')")
    query = 'EXPLAIN (ANALYZE) SELECT count(z.a) FROM z_probes p JOIN z_mtpower z USING (id)'
    for _ in range(60):
        plan = b.server.sql('%s; SET enable_bitmapscan = off; %s' % (NESTED, query))
        if ' 0 scanned' in plan:
            return
        time.sleep(1)
    raise Failed('not all pages have directories\n%s' % plan)


@part
def part_zones(b):
    """Five times as many rows as elsewhere, in the order of their ids: a zone index beside a btree
    and BRIN with 128 pages a range and with 2.  Look-ups are nested loops over 20,000 random ids,
    cached, or a tenth of them cold: after a restart, with nothing in the operating system's memory;
    and with the directories of the pages in the buffer. Of BRIN's look-ups a part is measured."""
    path = tables(b)
    b.compare('COPY', {
        'mtpower': lambda: load(b, path, True),
        'no_index': lambda: load(b, path, False)
    }, rounds=PAIRS, targets={'no_index': 0.926})
    b.compare('CREATE INDEX', {side: lambda side=side: create(b, side, 'z_' + side)
                               for side in INDEXES}, targets={'btree': 2.5})
    b.show('size', {side: [b.sizes('z_' + side)['z_%s_i' % side]] * ROUNDS for side in INDEXES},
           unit='MB', targets={'btree': 150})
    b.compare('look-ups', {side: lambda side=side: look_up(b, side, 1) for side in INDEXES},
              targets={'btree': 0.4, 'brin': 20, 'brin_2': 3})
    b.compare('ranges of 1000 rows', {side: lambda side=side: look_up(b, side, 1000)
                                      for side in ('mtpower', 'btree', 'brin_2')},
              targets={'btree': 0.8})
    b.compare('look-ups, cold', {side: lambda side=side: cold(b, side)
                                 for side in ('mtpower', 'btree')}, targets={'btree': 1.3})
    make_directories(b)
    b.compare('look-ups, with directories', {
        side: lambda side=side: look_up(b, side, 1, off='enable_bitmapscan')
        for side in ('mtpower', 'btree')
    }, targets={'btree': 0.8})
    b.server.sql('DROP TABLE z, z_mtpower, z_btree, z_brin, z_brin_2, z_probes')


def real(b, name, ddl, column, copy, most):
    """A table of real life with one index, on a column that grows with the rows: COPY, the size,
    and counts of the rows of a value, or up to `most` behind it, in a nested loop."""
    sizes = {'mtpower': [], LIVE: []}

    def load_real(am, indexed=True):
        b.server.sql('DROP TABLE IF EXISTS {0}; {1}'.format(name, ddl(AMS[am][0])))
        index = 'mtpower_zone' if am == 'mtpower' else 'btree'
        if indexed:
            b.server.sql('CREATE INDEX %s_i ON %s USING %s (%s)' % (name, name, index, column))
        b.server.sql('CHECKPOINT')
        took = b.server.timed(copy)
        if indexed:
            sizes['mtpower' if am == 'mtpower' else LIVE].append(b.sizes(name)[name + '_i'])
        return took

    b.compare(name + ', COPY', {
        'mtpower': lambda: load_real('mtpower'),
        LIVE: lambda: load_real('heap'),
        'no_index': lambda: load_real('mtpower', False)
    })
    b.show(name + ', size', sizes, unit='MB')
    for side, am in (('mtpower', 'mtpower'), (LIVE, 'heap')):
        load_real(am)
        b.server.sql('ALTER TABLE {0} RENAME TO {0}_{1}; ALTER INDEX {0}_i RENAME TO {0}_{1}_i; '
                     'VACUUM ANALYZE {0}_{1}'.format(name, am))
    b.server.sql('CREATE TABLE r_probes AS SELECT %s AS v FROM %s_heap ORDER BY random() LIMIT '
                 '2000; VACUUM ANALYZE r_probes' % (column, name))
    query = ('SELECT count(c) FROM r_probes p, LATERAL (SELECT count(*) AS c FROM {0}_%s WHERE {1} '
             'BETWEEN p.v AND p.v + {2} OFFSET 0) z').format(name, column, most)
    b.compare(name + ', counts', {
        side: lambda am=am, off=off: b.server.timed(query % am, NESTED + off)
        for side, am, off in (('mtpower', 'mtpower', '; SET enable_seqscan = off'),
                              (LIVE, 'heap', ''))
    })
    b.server.sql('DROP TABLE {0}_mtpower, {0}_heap, r_probes'.format(name))


@part
def part_zones_real(b):
    """A zone index on the times of events, the hours of the flights and the orders of lineitem, in
    the order of the files, beside a live btree: COPY, also without an index, sizes, and counts of
    the rows of five minutes, an hour, and ten order numbers."""
    real(b, 'events', lambda am: 'CREATE TABLE events (%s) USING %s' %
         (EVENTS.replace(' PRIMARY KEY', ''), am), 'at',
         b.copy(events_file(b, 0, ROWS // 2), 'events'), "interval '5 minutes'")
    real(b, 'flights', lambda am: 'DROP TABLE IF EXISTS airlines, airports, planes, weather; ' +
         flights_sql(b, 'tables.sql', am=am), 'time_hour',
         "COPY flights FROM '%s' (FORMAT csv, HEADER)" % flights_file(b), "interval '0'")
    real(b, 'lineitem', lambda am: 'CREATE TABLE lineitem (%s) USING %s' % (LINEITEM, am),
         'l_orderkey', "COPY lineitem FROM '%s' WITH (FORMAT csv, HEADER)" % lineitem_file(b), '10')


@part
def part_zones_instructions(b):
    """Millions of instructions of a COPY of a twentieth of the rows, in the order of their ids,
    with a zone index and without, counted as in part instructions."""
    check_valgrind()
    server = Server(b.args, 'counted', SIZES)
    files = [b.path('zone-%d.csv' % rows) for rows in (100, COUNTED)]
    try:
        db = database(server, 'mtpower')
        for side in 'mtpower', 'no_index':
            server.sql('CREATE TABLE z_%s (id bigint, a int, pad text) USING mtpower' % side, db)
        server.sql('CREATE INDEX ON z_mtpower USING mtpower_zone (id)', db)
        for path, rows in zip(files, (100, COUNTED)):
            server.sql("COPY (%s) TO '%s'" % (ROW % rows, path), db)
    finally:
        server.stop('fast')
    backend = backends(b, server, ['mtpower'])[0]
    compare_counts(
        b, 'COPY', 0.926, 'no_index',
        [(backend._replace(name=side), ([], *(["COPY z_%s FROM '%s'" % (side, path)]
                                              for path in files)))
         for side in ('mtpower', 'no_index')])
    shutil.rmtree(server.data)
