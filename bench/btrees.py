"""Measures loads of mtpower tables whose indexes are core's btrees, as mtpower.adopt() leaves them."""
from data import METHODS, TYPES, columns, indexes
from harness import PAIRS, ROUNDS, ROWS, part
from loads import LIVE
from tables import EVENTS, EVENTS_INDEXES, LINEITEM, LINEITEM_INDEXES, events_files, lineitem_file


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
    the same keys in one transaction; and INSERT … ON CONFLICT of half as many rows, a tenth of them
    conflicts, with a primary key and four more."""
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
