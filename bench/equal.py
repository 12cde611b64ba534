"""Measures indexes in which many entries have the same key: loads, sizes, reads."""
import os, random
from data import AMS, indexes
from events import in_turn
from frames import SIZES, hits
from harness import PAIRS, ROWS, part
from loads import LIVE, both
from server import Server
from steady import PEER, check_plan

VALUES = 5, 50, 300, 20_000
TEXT = 'https://shop.example.com/catalogue/item/%d'
INCREMENTS = 5


def values_file(b, kind, values, increment):
    """Rows whose first column has so many values, and whose second has all."""
    path = b.path('%s-%d-%d.csv' % (kind, values, increment))
    if not os.path.exists(path):
        r, each = random.Random(values + increment), ROWS // 10
        form = ('%d' if kind == 'int' else TEXT) + ',%d\n'
        with open(path, 'w') as f:
            f.writelines(form % (r.randrange(values), i)
                         for i in range(increment * each, (increment + 1) * each))
    return path


@part
def part_few_values(b):
    """Five COPYs of a tenth of the rows into an empty table of two columns with one index, on an
    int or a text (C) of 5 to 20,000 values: time of all, and the index's size. The same without an
    index is the bound."""
    for kind, column in ('int', 'v int'), ('text', 'v text COLLATE "C"'):
        for values in VALUES:
            files = [values_file(b, kind, values, i) for i in range(INCREMENTS)]
            sizes = {'mtpower': [], LIVE: []}

            def run(am, n=1):
                b.server.sql(
                    'DROP TABLE IF EXISTS few; CREATE TABLE few (%s, n int) USING %s; %sCHECKPOINT'
                    % (column, AMS[am][0], indexes('few', am, ['v'][:n])))
                took = b.server.timed(';\n'.join(b.copy(f, 'few') for f in files))
                if n:
                    sizes['mtpower' if am == 'mtpower' else LIVE].append(b.sizes('few'))
                return took

            case = '%d values of %s' % (values, kind)
            b.compare(case,
                      dict(both(run), **{'mtpower, no index': lambda: run('mtpower', 0)}),
                      targets={LIVE: 8})
            b.show_sizes(case, sizes, each=False)
            for path in files:
                os.remove(path)
    b.server.sql('DROP TABLE few')


ROWS_A_KEY = 1, 100, 10_000
# name, query, what is switched off, what its plan must have
READS = (('index scan', 'SELECT sum(d) FROM probes JOIN {t} ON a = k',
          ('bitmapscan', 'indexonlyscan'), 'Index Scan using'),
         ('bitmap scan', 'SELECT sum(d) FROM probes JOIN {t} ON a = k',
          ('indexscan', 'indexonlyscan'), 'Bitmap Index Scan'),
         ('index-only scan', 'SELECT sum(a) FROM probes JOIN {t} ON a = k', ('bitmapscan', ),
          'Index Only Scan using'), ('count(*)', 'SELECT count(*) FROM {t}', ('bitmapscan', ),
                                     'Index Only Scan using'))
PROBES = {1: 20_000, 100: 1_000, 10_000: 10}
TRANSACTIONS = 10
OTHER_JOINS = 'seqscan', 'hashjoin', 'mergejoin', 'material', 'memoize'


def equal_table(b, server, am, n):
    """n rows a key, each somewhere else in the table, that came in one load."""
    name = 'equal_%d_%s' % (n, am)
    server.sql('DROP TABLE IF EXISTS {0}; CREATE TABLE {0} (a int, d int, t text) USING {1};\n{2}'
               "INSERT INTO {0} SELECT g::bigint * 7919 % {3} % {4}, g, 'equal' "
               'FROM generate_series(1, {3}) g; VACUUM ANALYZE {0}; CHECKPOINT'.format(
                   name, AMS[am][0], indexes(name, am, ['a']), ROWS, max(ROWS // n, 1)))
    return name


def compare_reads(b, server, target, what, warm=False):
    for n in ROWS_A_KEY:
        tables = {am: equal_table(b, server, am, n) for am in AMS}
        if warm:
            server.sql("SELECT mtpower.warm('{0}'), mtpower.warm('{0}_a_idx')".format(
                tables['mtpower']))
        keys = max(ROWS // n, 1)
        server.sql('CREATE TABLE probes AS SELECT (hashint8(i) & 2147483647) %% %d AS k '
                   'FROM generate_series(1, %d) i; ANALYZE probes' % (keys, min(PROBES[n], keys)))
        for name, query, off, node in READS:
            off = ['enable_%s=off' % x for x in (*OTHER_JOINS, *off)] + [
                'max_parallel_workers_per_gather=0', 'jit=off'
            ]
            for am, table in tables.items():
                check_plan(server, query.format(t=table),
                           '; '.join('SET ' + x.replace('=', ' = ') for x in off), node)
                with open(b.path(am + '.sql'), 'w') as f:
                    f.write(query.format(t=table) + ';\n')
            database = "dbname=postgres options='%s'" % ' '.join('-c ' + x for x in off)
            run = lambda am: server.pgbench('-t', str(TRANSACTIONS), '-f',
                                            b.path(am + '.sql'), database)
            h0, m0 = hits(server, 'index')
            case = '%s, %s a key%s' % (name, 'a row' if n == 1 else '{:,} rows'.format(n), what)
            b.compare(case, both(run, PEER), rounds=PAIRS, unit='ms', targets={PEER: target})
            h, m = hits(server, 'index')
            if warm and h + m > h0 + m0:
                b.show(case + ': leaves by frames',
                       {'mtpower': [100 * (h - h0) / (h - h0 + m - m0)]},
                       unit='%')
        server.sql('DROP TABLE probes, ' + ', '.join(tables.values()))


@part
def part_equal_keys(b):
    """Reads of keys that 1, 100 or 10,000 rows have, anywhere in the table: index scans, bitmap
    scans and index-only scans of 20,000, 1,000 and 10 random keys, by a nested loop; and count(*) of
    it all by an index-only scan. Milliseconds for a statement; once with the buffer as it is by
    default, and once with all pages in frames (mtpower.warm; a buffer of 1 GB, shared_buffers 5
    GB)."""
    for what, settings, target in (('', {
            'autovacuum': 'off'
    }, 1.0), (', in frames', SIZES, 1.2)):
        server = Server(b.args, 'equal', settings)
        try:
            compare_reads(b, server, target, what, warm=what != '')
        finally:
            server.remove()


@part
def part_versions(b):
    """Sizes of four indexes after an UPDATE of an unindexed column of all rows: in one statement,
    and in 20 of a twentieth each with VACUUM between; random ints, and ints of few values."""
    for kind in 'ints', 'low':
        for how, n in ('at once', 1), ('in 20 steps', 20):
            sizes = {'mtpower': [], PEER: []}

            def run(am, side):
                b.table('versions', am, kind, extra=', id serial')
                b.server.sql(
                    b.copy(b.file(kind), 'versions', ' (a, b, c, d, t)') +
                    '; VACUUM ANALYZE versions; CHECKPOINT')
                for i in range(n):
                    b.server.sql("UPDATE versions SET t = 'changed' WHERE id %% %d = %d; "
                                 'VACUUM versions' % (n, i))
                sizes[side].append(b.sizes('versions'))

            in_turn(run, peer=PEER)
            b.show_sizes('%s, %s' % (kind, how), sizes, least=1.0)
    b.server.sql('DROP TABLE versions')
