"""Measures hash indexes beside core's."""
from data import HASH_AMS, METHODS, TYPES, columns, indexes
from harness import PAIRS, ROUNDS, ROWS, part
import plot
from steady import NESTED, PLAIN, check_plan

PEER = 'heap+hash live'
CREATED = 'heap, then CREATE INDEX hash'


def both(run, peer=PEER):
    """The two sides of most cases: run(am)."""
    return {'mtpower': lambda: run('mtphash'), peer: lambda: run('hash')}


def figure(b, name, title, xlabel, xs, series):
    plot.lines(b.path('hash_%s.svg' % name), title, xlabel, 'seconds', xs, series)


def created(b, kind='ints', n=4):
    """COPY without indexes, then CREATE INDEX for each of them."""
    b.table('t', 'heap', kind, n=0)
    return b.server.timed(
        b.copy(b.file(kind)) + ';\n' + indexes('t', 'hash', columns(kind, n)),
        'SET max_parallel_maintenance_workers = 0')


@part
def part_hash(b):
    """One COPY, four hash indexes live: the main target, with core's hash indexes live, built
    afterwards, with B-link indexes in place of hash, and without any index."""
    sides = both(b.load)
    sides.update({
        CREATED: lambda: created(b),
        'mtpower, B-link': lambda: b.load('mtpower'),
        'heap, no index': lambda: b.load('heap', n=0)
    })
    b.compare('4 indexes', sides, targets={PEER: 6.1, CREATED: 3})


@part
def part_hashes(b):
    """1, 2, 4 and 8 hash indexes, text keys, 0 to 2 workers, batches of several sizes, and COPYs
    into a table that has four times as many rows to begin with, and more from round to round."""
    counts = (1, 2, 4, 8)
    took = [
        b.compare('%d index%s' % (n, '' if n == 1 else 'es'), both(lambda am: b.load(am, n=n)))
        for n in counts
    ]
    figure(b, 'indexes', 'COPY of {:,} rows, hash indexes live'.format(ROWS), 'indexes', counts,
           {side: [t[side] for t in took]
            for side in took[0]})
    b.compare('text', both(lambda am: b.load(am, 'text')))

    def with_setting(name, value):
        b.server.setting(name, value)
        return b.load('mtphash')

    for name, values in (('mtpower.workers', ('0', '1', '2')),
                         ('mtpower.batch_size', ("'256kB'", "'1MB'", "'4MB'"))):
        sides = {
            value.strip("'"): lambda value=value: with_setting(name, value)
            for value in values
        }
        took = b.compare('4 indexes, ' + name, sides, own=values[1].strip("'"))
        figure(b,
               name.split('.')[1], 'COPY of {:,} rows, 4 hash indexes live'.format(ROWS), name,
               list(took), {'mtpower': list(took.values())})
        b.server.setting(name, None)

    large = b.file(rows=4 * ROWS)
    for am in HASH_AMS:
        b.server.sql(
            'DROP TABLE IF EXISTS g_{0}; CREATE TABLE g_{0} ({1}) USING {2};\n{3};\n{4}CHECKPOINT'.
            format(am, TYPES['ints'], METHODS[am][0], b.copy(large, 'g_' + am),
                   indexes('g_' + am, am, columns('ints'))))

    def more(am):
        b.server.sql('CHECKPOINT')
        return b.server.timed(b.copy(b.file(), 'g_' + am))

    b.compare('four times as many rows in it already', both(more))
    b.server.sql('DROP TABLE g_mtphash, g_hash')


@part
def part_hashbuild(b):
    """CREATE INDEX without core's parallel workers: ints, text, ints of which three tenths are one,
    and with 4 MB of maintenance_work_mem."""
    for kind, memory in (('ints', None), ('text', None), ('skew', None), ('ints', '4MB')):
        b.server.sql('DROP TABLE IF EXISTS b; CREATE TABLE b (%s)' % TYPES.get(kind, TYPES['ints']))
        b.server.sql(b.copy(b.file(kind), 'b') + '; VACUUM ANALYZE b')

        def build(am):
            b.server.sql('DROP INDEX IF EXISTS b_a; CHECKPOINT')
            return b.server.timed(
                'CREATE INDEX b_a ON b USING %s (a)' % METHODS[am][1],
                'SET max_parallel_maintenance_workers = 0' +
                ("; SET maintenance_work_mem = '%s'" % memory if memory else ''))

        b.compare('CREATE INDEX on %s%s' % (kind, ', in ' + memory if memory else ''),
                  both(build, 'hash'),
                  targets={'hash': 3})


@part
def part_hashread(b):
    """Random probes of one index on a random int, a quarter as many as rows, that find their row,
    and as many that find none; beside core's hash and, to choose between them, B-link."""
    sides = dict(HASH_AMS, mtpower=METHODS['mtpower'])
    for am in sides:
        b.table('h_' + am, am, n=0)
        b.server.sql('{0}; {1} VACUUM ANALYZE h_{2}'.format(b.copy(b.file(), 'h_' + am),
                                                            indexes('h_' + am, am, ['a']), am))
    b.server.sql('''DROP TABLE IF EXISTS probes, misses;
        CREATE TABLE probes AS SELECT a FROM h_hash ORDER BY hashint4(b) LIMIT {0};
        CREATE TABLE misses AS
            SELECT a FROM (SELECT hashint4(g) AS a FROM generate_series(1, {1}) g) x
            WHERE NOT EXISTS (SELECT FROM h_hash h WHERE h.a = x.a) LIMIT {0};
        VACUUM ANALYZE probes; VACUUM ANALYZE misses'''.format(ROWS // 4, ROWS // 2))
    settings = PLAIN + '; ' + NESTED + '; SET enable_indexonlyscan = off; SET enable_seqscan = off'
    for name, table, target in (('random probes', 'probes', 1.2), ('probes that find nothing',
                                                                   'misses', 1.5)):
        query = 'SELECT count(r.d) FROM %s p JOIN h_{0} r ON r.a = p.a' % table
        for am in sides:
            check_plan(b.server, query.format(am), settings, 'Index Scan using')
        run = lambda am: b.server.timed(query.format(am), settings)
        b.compare(name,
                  dict(both(run, 'heap+hash'), **{'mtpower, B-link': lambda: run('mtpower')}),
                  rounds=PAIRS,
                  targets={'heap+hash': target})


@part
def part_hashwrite(b):
    """Single-row INSERTs with four hash indexes, one session; milliseconds per transaction,
    synchronous_commit off; VACUUM before each run in place of autovacuum."""
    rows, transactions = max(ROWS // 10, 1000), str(max(ROWS // 100, 100))
    b.server.setting('synchronous_commit', 'off')
    b.server.setting('autovacuum', 'off')
    for am in HASH_AMS:
        b.table('w_' + am, am)
        b.server.sql(
            'INSERT INTO w_{0} SELECT (random() * 1e9)::int, i, i * 7 % 1000003, i / 3, '
            'md5(i::text) FROM generate_series(1, {1}) i; VACUUM ANALYZE w_{0}'
            .format(am, rows))
        with open(b.path(am + '.sql'), 'w') as f:
            f.write(
                '\\set a random(-2000000000, 2000000000)\nINSERT INTO w_%s VALUES (:a, :a / 2, :a '
                '/ 3, :a / 5, md5(:a::text));\n'
                % am)

    def single(am):
        b.server.sql('VACUUM w_' + am)
        return b.server.pgbench('-t', transactions, '-f', b.path(am + '.sql'), 'postgres')

    b.compare('single-row INSERTs',
              both(single, 'heap+hash'),
              rounds=PAIRS,
              unit='ms',
              targets={'heap+hash': 0.95})
    b.server.setting('synchronous_commit', None)
    b.server.setting('autovacuum', None)


@part
def part_hashwal(b):
    """Bytes of WAL per hash index entry, the table's share taken off, and the size of an index
    after the load."""
    wal, sizes = {'mtpower': [], PEER: []}, {'mtpower': [], PEER: []}

    def load(am, n):
        b.table('t', am, n=n)
        start = b.server.wal()
        b.server.sql(b.copy(b.file()))
        return b.server.wal() - start

    for _ in range(ROUNDS):
        for side, am in (('mtpower', 'mtphash'), (PEER, 'hash')):
            base = load(am, 0)
            wal[side].append((load(am, 4) - base) / (4 * ROWS))
            sizes[side].append(sum(b.sizes('t').values()) / 4)
    b.show('WAL of an index entry', wal, unit='B', most=30)
    b.show('size of an index', sizes, unit='MB', targets={PEER: 1.0})


@part
def part_hashskew(b):
    """Three tenths of the rows on one key, and 1,000 keys in all: what an entry costs, beside the
    uniform case (the COPY's time without any index taken off), and the COPY beside core's, once,
    since that is quadratic there."""
    nanoseconds = lambda took, base: [1e9 * (t - t0) / (4 * ROWS) for t, t0 in zip(took, base)]
    for kind, name in (('skew', '30 % on one key'), ('thousand', '1,000 keys')):
        took = b.compare(name, {
            name: lambda: b.load('mtphash', kind),
            'uniform': lambda: b.load('mtphash'),
            'no index': lambda: b.load('mtphash', n=0)
        },
                         own=name)
        b.show(name + ', an entry',
               {side: nanoseconds(took[side], took['no index'])
                for side in (name, 'uniform')},
               unit='ns',
               own=name,
               targets={'uniform': 0.5})
        b.compare(name + ', the COPY',
                  both(lambda am: b.load(am, kind)),
                  rounds=1,
                  targets={PEER: 1.0})
