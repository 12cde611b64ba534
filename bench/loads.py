"""Measures loads into tables with live indexes."""
import threading, time
from data import AMS, TYPES, columns, indexes
from harness import PAIRS, ROUNDS, ROWS, part
from server import Failed, Server, together

LIVE = 'heap+btree live'


def both(run, peer=LIVE):
    """The two sides of most cases: run(am)."""
    return {'mtpower': lambda: run('mtpower'), peer: lambda: run('heap')}


def after(b):
    """COPY without indexes, then four CREATE INDEX."""
    b.table('t', 'heap', n=0)
    return b.server.timed(b.copy(b.file()) + ';\n' + indexes('t', 'heap', columns('ints')))


@part
def part_copy(b):
    """One COPY, four indexes live: the main target, with btrees live, built afterwards, fed with
    rows that are sorted by the first index's column (the sorting not counted), and without any
    index."""
    sides = both(b.load)
    sides.update({
        LIVE + ', sorted rows': lambda: b.load('heap', path=b.file('sorted')),
        'heap, then CREATE INDEX': lambda: after(b),
        'heap, no index': lambda: b.load('heap', n=0)
    })
    b.compare('4 indexes',
              sides,
              targets={
                  LIVE: 4.8,
                  'heap, then CREATE INDEX': 1.0,
                  'heap, no index': 0.5
              })


@part
def part_after(b):
    """COPY with four B-link indexes live, and COPY followed by four CREATE INDEX: the harder peer,
    in more rounds."""
    b.compare('4 indexes', {
        'mtpower': lambda: b.load('mtpower'),
        'heap, then CREATE INDEX': lambda: after(b)
    },
              rounds=PAIRS,
              targets={'heap, then CREATE INDEX': 1.0})


@part
def part_workers(b):
    """The main load with 0 to 3 workers, and the percentage of its index entries that workers put
    in at the default setting."""
    def run(workers):
        b.server.setting('mtpower.workers', workers)
        return b.load('mtpower')

    def share():
        b.server.sql("SELECT mtpower.stat_reset('batches')")
        b.load('mtpower')
        return b.server.number(
            'SELECT 100.0 * sum(entries_workers) / sum(entries) FROM mtpower.stat_batches WHERE '
            'entries > 0'
        )

    b.compare('4 indexes', {'%d workers' % w: lambda w=w: run(str(w))
                            for w in range(4)},
              own='1 workers',
              targets={'0 workers': 1.4})
    b.server.setting('mtpower.workers', None)
    b.compare('entries applied by workers', {'mtpower': share}, unit='%', least=30)


@part
def part_indexes(b):
    """0 to 4 and 8 indexes, and the percentage of the COPY's time that goes to them (figure 2 of
    the MTPower paper)."""
    base = {}
    for n in (0, 1, 2, 3, 4, 8):
        name = '%d index%s' % (n, '' if n == 1 else 'es')
        sides = both(lambda am: b.load(am, n=n))
        if n in (1, 4):
            sides[LIVE + ', sorted rows'] = lambda: b.load('heap', n=n, path=b.file('sorted'))
        took = b.compare(name, sides)
        if n == 0:
            base = took
        elif n <= 4:
            b.show(name + ', share of the time', {
                side: [100 * (t - t0) / t for t, t0 in zip(took[side], base[side])]
                for side in base
            },
                   unit='%',
                   ratios=False)


@part
def part_keys(b):
    """Four indexes on other kinds of keys, and their size: text in the C collation, uuid, (int,
    timestamp), text in an ICU collation, sequential ints, ints of few distinct values."""
    for kind, target in (('text', 3), ('uuid', 3), ('intts', 3), ('icu', 1.5), ('seq', None),
                         ('low', None)):
        sizes = {'mtpower': [], LIVE: []}

        def run(am):
            took = b.load(am, kind)
            sizes['mtpower' if am == 'mtpower' else LIVE].append(b.sizes('t'))
            return took

        b.compare(kind, both(run), targets={LIVE: target} if target else {})
        b.show_sizes(kind, sizes, each=kind == 'low')  # there each column has other values


@part
def part_pk(b):
    """A primary key (core's btree on both sides) and four more indexes."""
    for name, extra in (('bigint', ', id bigserial PRIMARY KEY'),
                        ('uuid', ', id uuid DEFAULT gen_random_uuid() PRIMARY KEY')):
        b.compare(name + ' primary key + 4',
                  both(lambda am: b.load(am, extra=extra, cols=' (a, b, c, d, t)')))


@part
def part_locked(b):
    """COPYs whose table no worker can lock."""
    ddl = lambda am: 'CREATE TABLE n (%s) USING %s;\n%s' % (TYPES['ints'], AMS[am][0],
                                                            indexes('n', am, columns('ints')))

    def truncated(am):
        b.table('t', am)
        return b.server.timed(b.copy(b.file()) + ';\nCOMMIT', 'BEGIN;\nTRUNCATE t')

    def created(am):
        b.server.sql('DROP TABLE IF EXISTS n')
        return b.server.timed(b.copy(b.file(), 'n') + ';\nCOMMIT', 'BEGIN;\n' + ddl(am))

    def locked(am):
        b.table('t', am)
        return b.server.timed(b.copy(b.file()) + ';\nCOMMIT', 'BEGIN;\nLOCK TABLE t')

    for name, run in (('after TRUNCATE', truncated), ('created in the transaction', created),
                      ('under LOCK TABLE', locked)):
        b.compare(name, both(run), targets={LIVE: 3})


@part
def part_two(b):
    """Two COPYs at once: into two tables, into one; and in two databases, one of them ten times
    larger and under way when the other begins. Does either starve? The ratio of a load alone is the
    share of its speed that it keeps beside the other."""
    def pair(am, tables, took):
        for table in set(tables):
            b.table(table, am)
        files = b.file(), b.file(seed=8)
        took.append(
            sorted(
                together(*(lambda t=t, f=f: b.server.timed(b.copy(f, t))
                           for t, f in zip(tables, files)))))
        return took[-1][1]

    for name, tables, target in (('into two tables', ('t', 'u'), 3), ('into one table', ('t', 't'),
                                                                      2.5)):
        took = {'mtpower': [], 'heap': []}
        b.compare(name + ', the slower',
                  both(lambda am: pair(am, tables, took[am])),
                  targets={LIVE: target})
        b.show(name + ', the faster', {
            'mtpower': [t[0] for t in took['mtpower']],
            LIVE: [t[0] for t in took['heap']]
        },
               targets={LIVE: target})

    b.server.sql('DROP DATABASE IF EXISTS other; CREATE DATABASE other')
    b.server.sql('CREATE EXTENSION mtpower', 'other')
    large, small = b.file(), b.file(rows=ROWS // 10)

    def fresh(am):
        b.table('t', am)
        b.table('t', am, db='other')

    def alone(am, path, db):
        fresh(am)
        return b.server.timed(b.copy(path), db=db)

    took = {key: [] for key in ('mtpower', 'mtpower, alone', LIVE, LIVE + ', alone')}
    others = {key: [] for key in took}
    for _ in range(ROUNDS):
        for am, side in (('mtpower', 'mtpower'), ('heap', LIVE)):
            others[side + ', alone'].append(alone(am, large, 'postgres'))
            took[side + ', alone'].append(alone(am, small, 'other'))
            wait = others[side + ', alone'][-1] / 4
            fresh(am)

            def later():
                time.sleep(wait)
                return b.server.timed(b.copy(small), db='other')

            times = together(lambda: b.server.timed(b.copy(large)), later)
            others[side].append(times[0])
            took[side].append(times[1])
    for name, times in (('the smaller of two databases', took), ('the larger of two databases',
                                                                 others)):
        b.show(name, times, targets={'mtpower, alone': 1 / 3})


@part
def part_memory(b):
    """8 MB of batch memory, and shared buffers of half an index's size."""
    for name, extra in (('8 MB of batch memory', {
            'mtpower.batch_memory': '8MB'
    }), ('shared_buffers of half an index', {
            'shared_buffers': '%dkB' % max(2048, ROWS * 11 // 1024)
    })):
        server = Server(b.args, 'memory', extra)
        try:
            b.compare(name, both(lambda am: b.load(am, server=server)))
        finally:
            server.remove()


@part
def part_long(b):
    """25 times the rows of the other loads (50,000,000) in one COPY, one int column and one index,
    with 8 MB and with 64 MB of batch memory: time, what the processes and the engine used at most,
    what is still held at the end. Then verify_index."""
    rows = 25 * ROWS
    awk = ('BEGIN { srand(7); for (i = 0; i < %d; i++) '
           'printf "%%d\\n", (rand() - 0.5) * 4294967295 }')
    query = "COPY t FROM PROGRAM 'awk ''%s'''" % (awk % rows)

    def run(memory):
        server = Server(b.args, 'long', {'mtpower.batch_memory': memory})
        try:
            server.sql(
                'CREATE TABLE t (a int) USING mtpower; CREATE INDEX t_a ON t USING mtpower_blink '
                '(a); CHECKPOINT'
            )
            with Watch(server) as watch:
                took = server.timed(query)
            if server.number('SELECT count(*) FROM t') != rows:
                raise Failed('rows are missing')
            held = server.number('SELECT held_bytes FROM mtpower.stat_memory')
            verified = server.timed("SELECT mtpower.verify_index('t_a', true)")
            return took, held, verified, watch
        finally:
            server.remove()

    figures = {memory: run(memory) for memory in ('8MB', '64MB')}
    side = 'mtpower, {} of memory'.format
    took, held, verified, watch = figures['8MB']
    b.show('the COPY', {side(memory): [f[0]] for memory, f in figures.items()}, own=side('8MB'))
    for what, figure, most, unit in (('memory held at the end', held, 0,
                                      'B'), ('memory held at most', watch.held / 2 ** 20, 8,
                                             'MB'), ('backend\'s own memory, at most',
                                                     watch.backend / 2 ** 20, None, 'MB'),
                                     ('workers\' own memory, at most', watch.worker / 2 ** 20, None,
                                      'MB'), ('verify_index(…, true)', verified, None, 's')):
        b.show(what, {side('8MB'): [figure]}, own=side('8MB'), unit=unit, most=most)


class Watch:
    """The most memory that backends, workers and the engine's shared memory were seen to use."""
    def __init__(self, server):
        self.server, self.backend, self.worker, self.held = server, 0, 0, 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def look(self):
        while not self.over.wait(0.5):
            self.held = max(self.held,
                            self.server.number('SELECT held_bytes FROM mtpower.stat_memory'))
            for title, size in self.server.private_memory().items():
                if 'mtpower worker' in title:
                    self.worker = max(self.worker, size)
                elif title.endswith('COPY'):
                    self.backend = max(self.backend, size)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *why):
        self.over.set()
        self.thread.join()


@part
def part_wal(b):
    """Bytes of WAL per index entry, the table's share taken off, and the size of an index after the
    load."""
    wal, sizes = {'mtpower': [], LIVE: []}, {'mtpower': [], LIVE: []}

    def load(am, n):
        b.table('t', am, n=n)
        start = b.server.wal()
        b.server.sql(b.copy(b.file()))
        return b.server.wal() - start

    for _ in range(ROUNDS):
        for side, am in (('mtpower', 'mtpower'), (LIVE, 'heap')):
            base = load(am, 0)
            wal[side].append((load(am, 4) - base) / (4 * ROWS))
            sizes[side].append(sum(b.sizes('t').values()) / 4)
    b.show('WAL of an index entry', wal, unit='B', most=40)
    b.show('size of an index', sizes, unit='MB', targets={LIVE: 1 / 1.1})


@part
def part_subscription(b):
    """A subscription into a table with four indexes, from a heap table without any: its initial
    copy, then until it has applied a COPY of a twentieth as many rows."""
    b.table('p', 'heap', n=0)
    b.server.sql('DROP PUBLICATION IF EXISTS pub; DROP TABLE IF EXISTS done; '
                 'CREATE TABLE done (); CREATE PUBLICATION pub FOR TABLE p, done')
    other = Server(b.args, 'subscriber', {'wal_retrieve_retry_interval': '100ms'})
    feed = b.file(rows=ROWS // 20, seed=8)

    def until(query):
        while other.number(query) == 0:
            time.sleep(0.05)

    def subscribe(am):
        b.server.sql('TRUNCATE p, done; ' + b.copy(b.file(), 'p'))
        b.table('p', am, server=other)
        other.sql('DROP TABLE IF EXISTS done; CREATE TABLE done ()')
        start = time.time()
        other.psql(
            "CREATE SUBSCRIPTION sub CONNECTION 'host=%s port=%s user=postgres dbname=postgres' "
            "PUBLICATION pub;"
            % (b.args.dir, b.server.port))
        until("SELECT (count(*) = 0)::int FROM pg_subscription_rel WHERE srsubstate <> 'r'")
        copied = time.time()
        b.server.sql(b.copy(feed, 'p') + '; INSERT INTO done DEFAULT VALUES')
        until('SELECT count(*) FROM done')
        applied = time.time()
        other.psql('DROP SUBSCRIPTION sub;')
        return copied - start, applied - copied

    took = {'mtpower': [], LIVE: []}
    try:
        for i in range(ROUNDS):
            for am, side in sorted((('mtpower', 'mtpower'), ('heap', LIVE)), reverse=i % 2 == 0):
                took[side].append(subscribe(am))
    finally:
        other.remove()
    for i, case in enumerate(('initial sync, 4 indexes', 'apply, 4 indexes')):
        b.show(case, {side: [t[i] for t in rounds] for side, rounds in took.items()})
