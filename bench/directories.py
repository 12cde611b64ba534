"""Measures scans that select a thousandth of the rows, without any index."""
import time
from harness import PAIRS, ROUNDS, ROWS, part
from server import Failed, Server

# A thousandth of the rows: of the order in which they were loaded, and anywhere
CASES = (('clustered', 'seq', 'SELECT count(*), sum(d) FROM {t} WHERE a BETWEEN %d AND %d' %
          (ROWS // 2, ROWS // 2 + ROWS // 1000 - 1)),
         ('random', 'ints',
          'SELECT count(*), sum(d) FROM {t} WHERE a BETWEEN 0 AND %d' % (2 ** 32 // 1000)))
SERIAL = 'SET max_parallel_workers_per_gather = 0; SET jit = off'
NODE = 'Custom Scan (directory scan)'


def have(server, table):
    """Pairs that have directories."""
    return int(
        server.sql(
            "SELECT count(*) FROM mtpower.stat_get_content() WHERE kind = 'directory' AND relation "
            "= '%s'::regclass"
            % table))


def pairs_of(server, table):
    """Pairs with rows: PostgreSQL 17 adds many blocks at once to a table, and the last may be
    empty."""
    blocks = int(
        server.sql("SELECT pg_relation_size('%s') / current_setting('block_size')::int" % table))
    last = server.sql("SELECT max(ctid) FROM %s WHERE ctid >= '(%d,0)'" %
                      (table, max(blocks - 256, 0)))
    return int(last.strip('()').split(',')[0]) // 2 + 1


def wait(server, table, most=60.0):
    """Seconds until all pairs have directories; raises if they don't."""
    start = time.time()
    every = pairs_of(server, table)
    while True:
        some = have(server, table)
        now = time.time() - start
        if some == every:
            return now
        if now > most:
            raise Failed(
                '%d of %d pairs of %s have directories after %d s' % (some, every, table, most))
        time.sleep(0.005)


def load(server, b, am, kind, column='a'):
    b.table('t_' + am, am, n=0, server=server)
    if am == 'mtpower' and column:
        server.sql("SELECT mtpower.set_directory('t_mtpower', '%s')" % column)
    return server.timed(b.copy(b.file(kind), 't_' + am))


def check(server, query, settings):
    plan = server.sql('%s; EXPLAIN (COSTS OFF) %s' % (settings, query))
    if NODE not in plan:
        raise Failed('no directory scan in the plan of %s\n%s' % (query, plan))


def fresh(server, b, name, kind, query, workers):
    """Loads both tables anew in each round, waits for the directories, and scans; and scans again
    after VACUUM."""
    sides = {
        phase: {
            'mtpower': [],
            'heap': []
        }
        for phase in ('after COPY', 'the same, parallel', 'after VACUUM')
    }
    share = []
    for i in range(ROUNDS):
        for am in sorted(('mtpower', 'heap'), reverse=i % 2 == 1):
            seconds = load(server, b, am, kind)
            text = query.format(t='t_' + am)
            if am == 'mtpower':
                share.append(wait(server, 't_mtpower') / seconds)
                server.sql('ANALYZE t_mtpower')
                check(server, text, SERIAL)
            else:
                server.sql('ANALYZE t_heap')
            sides['after COPY'][am].append(server.timed(text, SERIAL))
            sides['the same, parallel'][am].append(server.timed(text, 'SET jit = off'))
            server.sql('VACUUM t_' + am)
            sides['after VACUUM'][am].append(server.timed(text, SERIAL))
    for phase, results in sides.items():
        b.show('%s, %s, %s' % (name, workers, phase),
               results,
               targets={} if 'parallel' in phase else {'heap': 10})
    b.show('%s, %s: waited, of the COPY' % (name, workers), {'mtpower': share}, unit='', most=0.25)


def later(server, b, name, prepare):
    """The first and the fifth scan of a table that had no directories when there came to be
    room."""
    first, fifth = [], []
    query = CASES[0][2].format(t='t_mtpower')
    for _ in range(ROUNDS):
        prepare()
        times = []
        for _ in range(5):
            times.append(server.timed(query, SERIAL))
            time.sleep(1)
        first.append(times[0])
        fifth.append(times[4])
    b.show('%s: fifth scan, beside the first' % name, {
        'mtpower': fifth,
        'first': first
    },
           targets={'first': 5})


@part
def part_directory(b):
    """Scans that select a thousandth of the rows, beside heap's sequential scan, without any index:
    directly after COPY, and after VACUUM, with one worker and with none; with a buffer of 128 MB;
    by a learnt column; of tables whose pages have got no directories when they were loaded; and a
    scan that gains nothing."""
    for workers in (1, 0):
        server = Server(b.args, 'dirs%d' % workers, {
            'mtpower.buffer_size': '256MB',
            'mtpower.workers': str(workers),
            'autovacuum': 'off'
        })
        for name, kind, query in CASES:
            fresh(server, b, name, kind, query, '%d workers' % workers)
        if workers == 1:
            load(server, b, 'heap', 'seq')
            load(server, b, 'mtpower', 'seq', None)
            server.sql('VACUUM ANALYZE t_heap; VACUUM ANALYZE t_mtpower')
            every = 'SELECT count(*), sum(d) FROM t_{0} WHERE b + 0 > 0 AND c >= 0'
            b.compare('a scan that gains nothing', {
                am: (lambda am=am: server.timed(every.format(am), SERIAL))
                for am in ('mtpower', 'heap')
            },
                      rounds=PAIRS,
                      targets={'heap': 1 / 1.1})
            learnt = CASES[0][2]
            for _ in range(5):
                server.timed(learnt.format(t='t_mtpower'), SERIAL)
                time.sleep(1)
            b.compare('clustered, learnt column', {
                am: (lambda am=am: server.timed(learnt.format(t='t_' + am), SERIAL))
                for am in ('mtpower', 'heap')
            },
                      targets={'heap': 10})

            def adopted():
                load(server, b, 'heap', 'seq')
                server.sql(
                    "DROP TABLE t_mtpower; ALTER TABLE t_heap RENAME TO t_mtpower; "
                    "SELECT mtpower.adopt('t_mtpower'), mtpower.set_directory('t_mtpower', 'a'); "
                    "ANALYZE t_mtpower"
                )

            later(server, b, 'adopted', adopted)
        server.remove()
    server = Server(b.args, 'dirs128', {'mtpower.buffer_size': '128MB', 'autovacuum': 'off'})
    fresh(server, b, 'random, buffer of 128 MB', 'ints', CASES[1][2], 'default workers')
    server.remove()
    server = Server(b.args, 'dirsfull', {'mtpower.buffer_size': '32MB', 'autovacuum': 'off'})

    def full():
        """All frames are another table's, and warm, when this one is loaded; it is gone when this
        one is scanned."""
        b.table('other', 'mtpower', n=0, server=server)
        server.sql("SELECT mtpower.set_directory('other', 'a')")
        server.sql(b.copy(b.file('ints'), 'other'))
        server.sql(b.copy(b.file('ints'), 'other'))
        time.sleep(1)
        for _ in range(5):
            server.sql('%s; SELECT count(*) FROM other WHERE a = 1' % SERIAL)
        fit, pairs = have(server, 'other'), pairs_of(server, 'other')
        if fit == pairs:
            raise Failed(
                'the buffer is not full: all %d pairs of the other table have directories' % pairs)
        load(server, b, 'mtpower', 'seq')
        server.sql('DROP TABLE other; ANALYZE t_mtpower')

    later(server, b, 'loaded while the buffer was full', full)
    server.remove()
