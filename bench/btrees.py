"""Measures loads of mtpower tables whose indexes are core's btrees, as mtpower.adopt() leaves them."""
from data import METHODS, TYPES, columns, indexes
from events import EVENTS, EVENTS_INDEXES, events_files
from harness import PAIRS, ROUNDS, ROWS, part
from instructions import COUNT, STEPS, TPCB, compare_cases, database, halves, key, row, tpcb
from loads import LIVE
from steady import PLAIN, pgbench_tables
from tables import LINEITEM, LINEITEM_INDEXES, lineitem_file


def sides(run):
    """Core's btrees on an mtpower table and on a heap table: run(side)."""
    return {'mtpower': lambda: run('adopted'), LIVE: lambda: run('heap')}


def table(b, side, definition, index_columns, name='t'):
    """A fresh table with btree indexes."""
    b.server.sql('DROP TABLE IF EXISTS {0};\nCREATE TABLE {0} ({1}) USING {2};\n{3}CHECKPOINT'.format(
        name, definition, METHODS[side][0], indexes(name, side, index_columns)))


@part
def part_btree(b):
    """COPY into tables whose btrees stay btrees: four random ints into an empty table, with B-link
    trees beside them, and into one with four times as many rows; a uuid primary key and three more;
    WAL of an entry and the size of an index; INSERT … SELECT."""
    ints, uuids = b.file(), b.file('uuid')

    def load(side):
        b.table('t', side)
        return b.server.timed(b.copy(ints))

    b.compare('4 indexes', dict(sides(load), mtpower_blink=lambda: load('mtpower')),
              targets={LIVE: 4.5})

    def load_more(side):
        table(b, side, TYPES['ints'], [])
        for seed in range(20, 24):
            b.server.sql(b.copy(b.file(seed=seed)))
        b.server.sql(indexes('t', side, columns('ints')) + 'VACUUM ANALYZE t; CHECKPOINT')
        return b.server.timed(b.copy(ints))

    b.compare('4 indexes, into four times as many rows', sides(load_more), targets={LIVE: 3})

    def load_uuids(side):
        table(b, side, 'a uuid PRIMARY KEY, b uuid, c uuid, d uuid, t text', ['b', 'c', 'd'])
        return b.server.timed(b.copy(uuids))

    b.compare('uuid primary key and 3', sides(load_uuids), targets={LIVE: 3.5})

    b.table('source', 'heap', n=0)
    b.server.sql(b.copy(ints, 'source'))

    def insert(side):
        b.table('t', side)
        return b.server.timed('INSERT INTO t SELECT * FROM source')

    b.compare('INSERT … SELECT, 4 indexes', sides(insert), targets={LIVE: 4})

    wal, sizes = {'mtpower': [], LIVE: []}, {'mtpower': [], LIVE: []}

    def logged(side, n):
        b.table('t', side, n=n)
        start = b.server.wal()
        b.server.sql(b.copy(ints))
        return b.server.wal() - start

    for _ in range(ROUNDS):
        for name, side in (('mtpower', 'adopted'), (LIVE, 'heap')):
            base = logged(side, 0)
            wal[name].append((logged(side, 4) - base) / (4 * ROWS))
            sizes[name].append(sum(b.sizes('t').values()) / 4)
    b.show('WAL of an index entry', wal, unit='B', targets={LIVE: 2})
    b.show('size of an index', sizes, unit='MB', targets={LIVE: 1 / 1.05})


@part
def part_btree_tables(b):
    """Tables of real life with their btrees as they are: the events of part events, with two feeds,
    and lineitem with its primary key and six indexes."""
    first, *feeds = events_files(b)
    took, sizes = {'mtpower': [], LIVE: []}, {'mtpower': [], LIVE: []}

    def run(name, side):
        table(b, side, EVENTS, EVENTS_INDEXES, 'events')
        times = [b.server.timed(b.copy(first, 'events'))]
        b.server.sql('VACUUM ANALYZE events; CHECKPOINT')
        times.append(sum(b.server.timed(b.copy(feed, 'events')) for feed in feeds))
        took[name].append(times)
        sizes[name].append(b.sizes('events'))

    for i in range(ROUNDS):
        for name, side in sorted((('mtpower', 'adopted'), (LIVE, 'heap')), reverse=i % 2 == 0):
            run(name, side)
    for i, (name, target) in enumerate((('events, first load', 3), ('events, two feeds', 2.5))):
        b.show(name, {side: [t[i] for t in rounds] for side, rounds in took.items()},
               targets={LIVE: target})
    b.show_sizes('events', sizes)

    path = lineitem_file(b)
    sizes = {'mtpower': [], LIVE: []}

    def load(side):
        table(b, side, LINEITEM + ', PRIMARY KEY (l_orderkey, l_linenumber)',
              LINEITEM_INDEXES[1:] + ['l_partkey, l_orderkey'], 'lineitem')
        took = b.server.timed("COPY lineitem FROM '%s' WITH (FORMAT csv, HEADER)" % path)
        sizes['mtpower' if side == 'adopted' else LIVE].append(b.sizes('lineitem'))
        return took

    b.compare('lineitem, primary key and 6', sides(load), targets={LIVE: 3})
    b.show_sizes('lineitem', sizes)


@part
def part_btree_wal(b):
    """WAL of an entry where each page's first change behind a checkpoint logs its full image: a tenth
    of the rows, into four btrees on random ints of the other ones."""
    wal = {'mtpower': [], LIVE: []}
    for i in range(ROUNDS):
        for name, side in (('mtpower', 'adopted'), (LIVE, 'heap')):
            b.table('t', side, n=0)
            b.server.sql(b.copy(b.file()) + ';\n' + indexes('t', side, columns('ints')) + 'CHECKPOINT')
            start = b.server.wal()
            b.server.sql(b.copy(b.file(rows=ROWS // 10, seed=30 + i)))
            wal[name].append((b.server.wal() - start) / (4 * ROWS // 10))
    b.show('an index entry, and a quarter of its row', wal, unit='B')


@part
def part_btree_sizes(b):
    """Sizes of four btrees on random ints in five sizes of table, each loaded at once from empty: the
    pages of a batch fill in step, so the size swings."""
    ratios = []
    for n in range(1, 6):
        rows = ROWS * n // 5
        path = b.file(rows=rows)
        sizes = {}
        for name, side in (('mtpower', 'adopted'), (LIVE, 'heap')):
            b.table('t', side)
            b.server.sql(b.copy(path))
            sizes[name] = [sum(b.sizes('t').values())]
        b.show('%d rows' % rows, sizes, unit='MB', targets={LIVE: 1 / 1.3})
        ratios.append(sizes['mtpower'][0] / sizes[LIVE][0])
    b.show('mean beside heap', {'mtpower': [sum(ratios) / len(ratios)], LIVE: [1]}, unit='×',
           targets={LIVE: 1 / 1.05})


@part
def part_btree_least(b):
    """What gains little must lose nothing: an ascending bigint primary key alone; DELETE and COPY of
    the same keys in one transaction; COPYs of hardly more rows than go in at once, into a table of a
    tenth of the rows; DELETEs of a row by its key; and INSERT … ON CONFLICT of half as many rows, a
    tenth of them conflicts, with a primary key and four more."""
    seq, ints = b.file('seq'), b.file()

    def load(side):
        table(b, side, 'a bigint PRIMARY KEY, b int, c int, d int, t text', [])
        return b.server.timed(b.copy(seq))

    b.compare('ascending primary key', sides(load), rounds=PAIRS, targets={LIVE: 1})

    half = b.file('seq', ROWS // 2)

    def again(side):
        table(b, side, 'a bigint PRIMARY KEY, b int, c int, d int, t text', [])
        b.server.sql(b.copy(half) + '; VACUUM ANALYZE t; CHECKPOINT')
        return b.server.timed(b.copy(half) + ';\nCOMMIT', 'BEGIN;\nDELETE FROM t')

    b.compare('DELETE and COPY of the same keys', sides(again), rounds=PAIRS, targets={LIVE: 0.97})

    for side in 'adopted', 'heap':
        b.table('few_' + side, side, extra=', id serial PRIMARY KEY')
        b.server.sql(b.copy(b.file(rows=ROWS // 10), 'few_' + side, ' (a, b, c, d, t)'))
    for rows in 300, 1000:
        files = [b.file(rows=rows, seed=50 + i) for i in range(20)]

        def few(side):
            b.server.sql('VACUUM few_%s; CHECKPOINT' % side)
            copies = [b.copy(f, 'few_' + side, ' (a, b, c, d, t)') for f in files]
            return b.server.timed(';\n'.join(copies * 5), 'SET synchronous_commit = off')

        b.compare('100 COPYs of %d rows' % rows, sides(few), rounds=PAIRS, targets={LIVE: 0.98})

    for side in 'adopted', 'heap':
        table(b, side, 'a bigint PRIMARY KEY, b int, c int, d int, t text', [], 'keys_' + side)
        b.server.sql(b.copy(seq, 'keys_' + side) + '; VACUUM ANALYZE keys_' + side)

    def delete(side):
        path = b.path('delete.sql')
        with open(path, 'w') as f:
            f.write('\\set a random(1, %d)\nDELETE FROM keys_%s WHERE a = :a;\n' % (ROWS, side))
        return b.server.pgbench('-t', str(ROWS // 200), '-f', path, 'postgres')

    b.server.setting('synchronous_commit', 'off')
    b.compare('DELETE of a row', sides(delete), rounds=3 * PAIRS, unit='ms',
              targets={LIVE: 0.98})
    b.server.setting('synchronous_commit', None)

    b.table('source', 'heap', n=0)
    b.server.sql(b.copy(ints, 'source'))
    b.server.sql('ALTER TABLE source ADD id bigserial; VACUUM ANALYZE source')

    def upsert(side):
        table(b, side, TYPES['ints'] + ', id bigint PRIMARY KEY', columns('ints'))
        b.server.sql('INSERT INTO t SELECT * FROM source WHERE id %% 10 = 0 AND id <= %d; CHECKPOINT'
                     % (ROWS // 2))
        return b.server.timed('INSERT INTO t SELECT * FROM source WHERE id <= %d ON CONFLICT (id) DO '
                              'UPDATE SET a = excluded.a' % (ROWS // 2))

    b.compare('upserts', sides(upsert), targets={LIVE: 2})


def prepare_small(b, server, am):
    """The table that is written, one to take rows from, and pgbench's, which are adopted."""
    db = database(server, am)
    copy = lambda table: b.copy(b.file(rows=COUNT), table, ' (a, b, c, d, t)')
    for table, method in ('written', am), ('source', 'heap'):
        b.table(table, method, extra=', id serial PRIMARY KEY', server=server, db=db)
        server.sql(copy(table) + '; VACUUM ANALYZE ' + table, db)
    pgbench_tables(server, db, 1, am)
    if am == 'adopted':
        for table in 'accounts', 'branches', 'tellers', 'history':
            server.sql("SELECT mtpower.adopt('pgbench_%s')" % table, db)
    server.sql('VACUUM ANALYZE', db)


# Every page of the tables is in memory then, and in frames if it may be: a case is about statements,
# not about what the first touch of a page takes.
WARM = [
    PLAIN, 'SET enable_seqscan = off', 'SELECT sum(d) FROM written WHERE id > 0',
    'SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0'
]


def small_cases(b, am):
    """As instructions.cases()"""
    some = lambda r: r.randint(1, COUNT)
    values = 'INSERT INTO written VALUES ($1, $2, $3, $4, $5'

    def case(name, prepared, make, steps=STEPS):
        setup = ['PREPARE p ' + prepared] if prepared else []
        return (name, 0.97, WARM + setup, *halves(make, steps))

    yield case('INSERT of a row', '(int, int, int, int, text) AS %s)' % values,
               lambda r: ['EXECUTE p (%s)' % row(r)])
    yield case('INSERT of a row that is there, or is not',
               '(int, int, int, int, text, int) AS %s, $6) ON CONFLICT (id) DO UPDATE SET '
               'a = excluded.a' % values,
               lambda r: ['EXECUTE p (%s, %d)' % (row(r), r.randint(1, 2 * COUNT))])
    yield case('MERGE of a row',
               '(int, int, int, int, text, int) AS MERGE INTO written w USING (SELECT $6 AS id) s '
               'ON w.id = s.id WHEN MATCHED THEN UPDATE SET a = $1 WHEN NOT MATCHED THEN INSERT '
               'VALUES ($1, $2, $3, $4, $5, $6)',
               lambda r: ['EXECUTE p (%s, %d)' % (row(r), r.randint(1, 2 * COUNT))])
    yield case('UPDATE of a key', '(int, int) AS UPDATE written SET a = $1 WHERE id = $2',
               lambda r: ['EXECUTE p (%d, %d)' % (key(r), some(r))])
    yield case('UPDATE of no key', "(int) AS UPDATE written SET t = 'x' WHERE id = $1",
               lambda r: ['EXECUTE p (%d)' % some(r)])
    yield case('DELETE of a row', '(int) AS DELETE FROM written WHERE id = $1',
               lambda r: ['EXECUTE p (%d)' % some(r)])
    yield case('SELECT of a row', '(int) AS SELECT d FROM written WHERE id = $1',
               lambda r: ['EXECUTE p (%d)' % some(r)])
    yield case('INSERT of 100 rows',
               '(int) AS INSERT INTO written (a, b, c, d, t) SELECT a, b, c, d, t FROM source '
               'WHERE id BETWEEN $1 AND $1 + 99', lambda r: ['EXECUTE p (%d)' % some(r)],
               STEPS // 20)
    files = [b.file(rows=100, seed=40 + i) for i in range(10)]
    yield case('COPY of 100 rows', None,
               lambda r: [b.copy(r.choice(files), 'written', ' (a, b, c, d, t)')], STEPS // 20)
    yield 'TPC-B as pgbench has it', 0.97, WARM + TPCB, *halves(tpcb)


@part
def part_btree_instructions(b):
    """Millions of instructions that small statements take on tables with core's btrees, whose
    entries are not batched; counted as in part instructions, so what a client and a disk add is not
    in them."""
    compare_cases(b, ('adopted', 'heap'), prepare_small, small_cases)
