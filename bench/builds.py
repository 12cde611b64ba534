"""Measures how long indexes of rows that are there take: CREATE INDEX, REINDEX, VACUUM."""
from data import AMS, TYPES
from harness import part
from steady import pairs

# name, columns, what CREATE INDEX must reach; of TYPES['mixed']
KEYS = (('int', 'a', 1.3), ('int, timestamp', 'a, at', 1.3), ('text', 'url', 1.0),
        ('md5', 'md5', 1.0), ('few values of int', 'country', 1.3), ('few values of text', 'kind',
                                                                     1.0))


def one_process(b):
    """On tables of heap, without parallel workers."""
    for kind in ('ints', 'text'):
        b.server.sql('DROP TABLE IF EXISTS b; CREATE TABLE b (%s)' % TYPES[kind])
        b.server.sql(b.copy(b.file(kind), 'b') + '; VACUUM ANALYZE b')

        def build(am):
            b.server.sql('DROP INDEX IF EXISTS b_a; CHECKPOINT')
            return b.server.timed('CREATE INDEX b_a ON b USING %s (a)' % AMS[am][1],
                                  'SET max_parallel_maintenance_workers = 0')

        pairs(b, 'CREATE INDEX on ' + kind, build, 1.0)


def with_workers(b):
    """On mtpower's tables and on heap's, with as many parallel workers as either asks for."""
    for am in AMS:
        b.table('b_' + am, am, 'mixed', n=0)
        b.server.sql('{}; VACUUM ANALYZE b_{}'.format(b.copy(b.file('mixed'), 'b_' + am), am))
    create = 'CREATE INDEX {} b_%s_i ON b_%s USING %s (%s)'
    for name, columns, target in KEYS:

        def build(am, how=''):
            b.server.sql('DROP INDEX IF EXISTS b_%s_i; CHECKPOINT' % am)
            return b.server.timed(create.format(how) % (am, am, AMS[am][1], columns))

        def again(am, how=''):
            b.server.sql('CHECKPOINT')
            return b.server.timed('REINDEX INDEX %s b_%s_i' % (how, am))

        pairs(b, 'parallel, CREATE INDEX on ' + name, build, target)
        if name in ('int', 'text'):
            pairs(b, 'parallel, REINDEX on ' + name, again, target)
            pairs(b, 'parallel, REINDEX CONCURRENTLY on ' + name,
                  lambda am: again(am, 'CONCURRENTLY'), target)
            pairs(b, 'parallel, CREATE INDEX CONCURRENTLY on ' + name,
                  lambda am: build(am, 'CONCURRENTLY'), target)
    b.server.sql('DROP TABLE b_mtpower, b_heap')


@part
def part_build(b):
    """CREATE INDEX on heap's tables without core's parallel workers; on tables of both sides with
    as many as there are by default, REINDEX and CONCURRENTLY too; and VACUUM of four indexes after
    deleting a fifth of the rows."""
    one_process(b)
    with_workers(b)

    def vacuum(am):
        b.table('v', am)
        b.server.sql(b.copy(b.file(), 'v') + '; DELETE FROM v WHERE d % 5 = 0; CHECKPOINT')
        return b.server.timed('VACUUM v')

    pairs(b, 'VACUUM after deleting 20 %', vacuum, 0.9)
