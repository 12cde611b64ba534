"""Counts instructions instead of seconds, where a target is nearer to one than a machine's noise.

A server makes the data and is shut down.  A case is a list of statements that a single-user backend
runs on a copy of that data, under valgrind's cachegrind, which counts what the process executes
without the kernel.  The first half warms up caches, the second half is the case: the count of a run
of the first half alone is taken off.  The process ends by SIGABRT, so no shutdown checkpoint is
counted.  mtpower's tables lie in one database, and the library is loaded; the peer's lie in
another, and PostgreSQL runs without the library.
"""
import os, random, re, resource, shutil, subprocess
from collections import namedtuple
from data import AMS, HASH_AMS
from harness import ROUNDS, ROWS, part
from server import Failed, Server, together
from steady import PEER, PLAIN, READS, check_plan, pgbench_tables

COUNT = max(ROWS // 20, 1000)  # rows of a table
STEPS = max(ROWS // 1000, 100)  # single-row statements, transactions
RUNS = min(ROUNDS, 2)  # the second one shows how repeatable a count is
DATABASES = {'mtpower': 'own', 'adopted': 'own', 'heap': 'peer'}
# Those of `read`, and one of `frames`
QUERIES = [(name, query.format(t='read'), settings, node) for name, query, settings, node in READS]
QUERIES.append(('index scan, text (ICU)',
                'SELECT count(r.d) FROM icu_probes p JOIN icu r ON r.a = p.a', *READS[0][2:]))
HASHES = dict(zip(AMS, HASH_AMS))  # what the two sides' hash indexes are
# Where data are made.
SIZES = {
    'shared_buffers': '256MB',
    'autovacuum': 'off',
    'wal_level': 'replica',
    'max_wal_size': '64MB',
    'min_wal_size': '32MB'
}

# A single-user backend of these programs, on copies of these data, with these options
Backend = namedtuple('Backend', 'name bindir data db options')


def database(server, am):
    """Makes a side's database, and returns its name."""
    db = DATABASES[am]
    server.sql('CREATE DATABASE ' + db)
    if db == 'own':
        server.sql('CREATE EXTENSION mtpower', db)
    return db


def prepare(b, server, am):
    """All tables, under the same names on both sides."""
    db = database(server, am)

    def table(name, n=0, kind='ints', extra='', rows=COUNT):
        b.table(name, am, kind, n, extra, server, db)
        if rows:
            server.sql(
                b.copy(b.file(kind, rows), name, ' (a, b, c, d, t)') + '; VACUUM ANALYZE ' + name,
                db)

    for name in 'first_loaded', 'loaded':
        table(name, rows=0)
    for name, rows in ('first_ints', 100), ('ints', COUNT):
        table(name, rows=rows)
    for name, rows in ('first_texts', 100), ('texts', COUNT):
        table(name, kind='text', rows=rows)
    for name, rows in ('first_vacuumed', 100), ('vacuumed', COUNT):
        table(name, n=4, rows=rows)
        server.sql('DELETE FROM %s WHERE d %% 5 = 0' % name, db)
    table('written', n=4, extra=', id serial PRIMARY KEY')
    b.table('hashed', HASHES[am], server=server, db=db)
    server.sql(b.copy(b.file(rows=COUNT), 'hashed') + '; VACUUM ANALYZE hashed', db)
    table('read', n=1)
    table('icu', n=1, kind='icu')
    for probes, of in ('probes', 'read'), ('icu_probes', 'icu'):
        server.sql(
            'CREATE TABLE %s AS SELECT a FROM %s ORDER BY md5(a::text) LIMIT %d; VACUUM ANALYZE %s'
            % (probes, of, COUNT // 4, probes), db)
    for _, query, settings, node in QUERIES:
        check_plan(server, query, '%s; %s' % (PLAIN, settings), node, db)
    pgbench_tables(server, db, 1, am)


def halves(make, steps=STEPS, seed=11):
    """A tenth as many steps to warm up as are counted."""
    r = random.Random(seed)
    lines = lambda steps: [line for _ in range(steps) for line in make(r)]
    return lines(steps // 10), lines(steps)


def key(r):
    return r.randrange(-2 ** 31, 2 ** 31)


def row(r):
    """Four ints and a text, as SQL"""
    return "%d, %d, %d, %d, '%032x'" % (key(r), key(r), key(r), key(r), r.getrandbits(128))


def tpcb(r):
    a, t, d = r.randint(1, 100_000), r.randint(1, 10), r.randint(-5000, 5000)
    return [
        'BEGIN',
        'EXECUTE accounts (%d, %d)' % (d, a),
        'EXECUTE balance (%d)' % a,
        'EXECUTE tellers (%d, %d)' % (d, t),
        'EXECUTE branches (%d, 1)' % d,
        'EXECUTE history (%d, 1, %d, %d)' % (t, a, d), 'END'
    ]


TPCB = [
    'PREPARE accounts (int, int) AS UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid '
    '= $2',
    'PREPARE balance (int) AS SELECT abalance FROM pgbench_accounts WHERE aid = $1',
    'PREPARE tellers (int, int) AS UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = '
    '$2',
    'PREPARE branches (int, int) AS UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid '
    '= $2',
    'PREPARE history (int, int, int, int) AS INSERT INTO pgbench_history (tid, bid, aid, delta, '
    'mtime) VALUES ($1, $2, $3, $4, now())'
]


def cases(b, am):
    """name, target, settings and the like, first half, second half"""
    alike = lambda text, names: [[text % name] for name in names]
    index = 'CREATE INDEX ON %s USING {} (a)'.format(AMS[am][1])
    insert = 'PREPARE ins (int, int, int, int, text) AS INSERT INTO {} VALUES ($1, $2, $3, $4, $5)'
    insert_row = lambda r: ['EXECUTE ins (%s)' % row(r)]
    yield 'COPY without index', 0.97, [], [b.copy(
        b.file(rows=100), 'first_loaded')], [b.copy(b.file(rows=COUNT), 'loaded')]
    yield 'sequential scan', 0.97, [PLAIN], *alike('SELECT count(*), sum(d) FROM %s',
                                                   ('ints', 'ints'))
    yield 'single-row INSERTs', 0.95, [insert.format('written')], *halves(insert_row)
    yield 'single-row INSERTs, hash indexes', 0.95, [insert.format('hashed')], *halves(insert_row)
    yield ('single-row UPDATEs', 0.95, [
        'PREPARE upd (int, int) AS UPDATE written SET a = $1 WHERE id = $2'
    ], *halves(lambda r: ['EXECUTE upd (%d, %d)' % (key(r), r.randint(1, COUNT))]))
    yield 'TPC-B as pgbench has it', 0.95, TPCB, *halves(tpcb)
    for name, query, settings, _ in QUERIES:
        yield name, 1.0, [PLAIN, settings], [query], [query]
    yield 'CREATE INDEX on ints', 1.0, [], *alike(index, ('first_ints', 'ints'))
    yield 'CREATE INDEX on text', 1.0, [], *alike(index, ('first_texts', 'texts'))
    yield 'VACUUM after deleting 20 %', 0.9, [], *alike('VACUUM %s', ('first_vacuumed', 'vacuumed'))


def count(b, backend, statements):
    """Millions of instructions of a process that runs these statements on a copy of the data."""
    copy, log = b.path('count-' + backend.name), b.path('count-%s.log' % backend.name)
    subprocess.run(['cp', '-a', '--reflink=auto', backend.data, copy], check=True)
    try:
        lines = [piece.strip() for s in statements
                 for piece in s.split(';')] + ["COPY (SELECT 1) TO PROGRAM 'kill -ABRT $PPID'"]
        done = subprocess.run([
            'valgrind', '--tool=cachegrind', '--cache-sim=no', '--cachegrind-out-file=/dev/null',
            '--log-file=' + log,
            os.path.join(backend.bindir,
                         'postgres'), '--single', '-D', copy, '-F', *backend.options, backend.db
        ],
                              input='\n'.join(lines) + '\n',
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              text=True,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        with open(log) as f:
            counted = re.search(r'I\s+refs:\s+([0-9,]+)', f.read())
        if done.returncode != -6 or not counted or 'ERROR:' in done.stdout:
            raise Failed(
                'a single-user backend ended with %d: %s' % (done.returncode, done.stdout[-1000:]))
        return int(counted.group(1).replace(',', '')) / 1e6
    finally:
        shutil.rmtree(copy)


def counts(b, backend, setup, first, second):
    """Of the second half alone, once for each run."""
    base = count(b, backend, setup + first)
    return [count(b, backend, setup + first + second) - base for _ in range(RUNS)]


def compare_counts(b, name, target, peer, sides, **show):
    """sides: two pairs of a backend and its (setup, first half, second half), mtpower's and the
    peer's."""
    mine, theirs = together(*(lambda backend=backend, case=case: counts(b, backend, *case)
                              for backend, case in sides))
    b.show(name, {'mtpower': mine, peer: theirs}, unit='M', targets={peer: target}, **show)


def check_valgrind():
    if shutil.which('valgrind') is None:
        raise Failed('valgrind is not installed')


def backends(b, server, sides=AMS):
    """Of each side, after the server has been stopped: the library is loaded for mtpower alone."""
    return [
        Backend(am, b.args.bindir, server.data, DATABASES[am],
                [] if DATABASES[am] == 'own' else ['-c', 'shared_preload_libraries='])
        for am in sides
    ]


def compare_cases(b, sides, prepare, cases):
    """sides: the access methods of mtpower's tables, and of its peer's, which runs without the
    library; prepare and cases: as those of part instructions."""
    check_valgrind()
    server = Server(b.args, 'counted', SIZES)
    try:
        for am in sides:
            prepare(b, server, am)
    finally:
        server.stop('fast')
    own, peers = ({name: (target, case) for name, target, *case in cases(b, am)} for am in sides)
    for name, (target, case) in own.items():
        compare_counts(b, name, target, PEER,
                       zip(backends(b, server, sides), (case, peers[name][1])))
    shutil.rmtree(server.data)


@part
def part_instructions(b):
    """Millions of instructions that a single-user backend executes, on a twentieth of the rows,
    counted by cachegrind; PostgreSQL without mtpower loaded is the peer."""
    compare_cases(b, AMS, prepare, cases)
