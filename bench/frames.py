"""Measures probes that frames answer, and what must not become slower for the buffer."""
import shutil
import instructions, plot
from data import indexes
from harness import PAIRS, ROUNDS, ROWS, part
from server import Server
from steady import NESTED, PEER, PLAIN, both, check_plan, pgbench_tables

# Both sides have all that the probes read in memory: the buffer and shared_buffers have room.
SIZES = {'mtpower.buffer_size': '1GB', 'shared_buffers': '5GB', 'autovacuum': 'off'}
PROBES = ROWS // 4


def hits(server, kind):
    """Hits, and reads of shared buffers in their place."""
    h, m = server.sql(
        "SELECT hits, misses + torn FROM mtpower.stat_buffer WHERE kind = '%s'" % kind).split('|')
    return int(h), int(m)


def rates(server, run):
    """Shares of leaf visits, and of rows, that frames answer in a run."""
    before = [hits(server, kind) for kind in ('index', 'table')]
    run()
    for kind, (h0, m0) in zip(('index', 'table'), before):
        h, m = hits(server, kind)
        if h - h0 + m - m0 > PROBES / 10:
            yield kind, (h - h0) / (h - h0 + m - m0)


def tables(server, b, kind, ams, column='a'):
    for am in ams:
        b.table('f_' + am, am, kind=kind, n=0, server=server)
        server.sql('%s; %s VACUUM ANALYZE f_%s' %
                   (b.copy(b.file(kind), 'f_' + am), indexes('f_' + am, am, [column]), am))
    server.sql(
        'DROP TABLE IF EXISTS probes; CREATE TABLE probes AS SELECT a FROM f_%s ORDER BY '
        'md5(a::text) LIMIT %d; VACUUM ANALYZE probes'
        % (list(ams)[0], PROBES))


@part
def part_frames(b):
    """500,000 random probes (a quarter as many as rows) that frames answer, on ints, text (C), text
    (ICU) and by hash; buffer 1 GB, shared_buffers 5 GB; at least 90 % of the leaf visits and of the
    rows by frames."""
    server = Server(b.args, 'frames', SIZES)
    trees = {'mtpower': 'mtpower', 'heap': PEER}
    hashes = {'mtphash': 'mtpower', 'hash': 'heap+hash'}
    cases = (('index-only, ints', 'ints', trees, 'r.a', 'Index Only Scan using', 1.4),
             ('index scan, ints', 'ints', trees, 'r.d', 'Index Scan using', 1.3),
             ('hash, ints', 'ints', hashes, 'r.d', 'Index Scan using', 1.4),
             ('index scan, text (C)', 'text', trees, 'r.d', 'Index Scan using', 1.5),
             ('index scan, text (ICU)', 'icu', trees, 'r.d', 'Index Scan using', 1.0))
    last = None
    for name, kind, ams, column, node, target in cases:
        if (kind, list(ams)) != last:
            tables(server, b, kind, ams)
        last = (kind, list(ams))
        query = 'SELECT count(%s) FROM probes p JOIN f_{0} r ON r.a = p.a' % column
        settings = PLAIN + '; ' + NESTED + '; SET enable_seqscan = on' + (
            '' if 'Only' in node else '; SET enable_indexonlyscan = off')
        own = list(ams)[0]
        for am in ams:
            check_plan(server, query.format(am), settings, node)
            server.timed(query.format(am), settings)
        sides = {
            side: (lambda am=am: server.timed(query.format(am), settings))
            for am, side in ams.items()
        }
        for pages, rate in rates(server, lambda: server.timed(query.format(own), settings)):
            b.show('%s: by frames, %s pages' % (name, pages), {'mtpower': [100 * rate]},
                   unit='%',
                   least=90)
        b.compare(name,
                  sides,
                  rounds=PAIRS,
                  targets={
                      side: target
                      for am, side in ams.items() if am != own
                  })
    b.note('(buffer in use: %s)' % ', '.join(
        server.sql(
            "SELECT kind || ' ' || pg_size_pretty(bytes) FROM mtpower.stat_buffer WHERE kind <> "
            "'free'"
        ).split('\n')))
    server.remove()


@part
def part_clients(b):
    """Random probes by 1 to 16 clients at once, index scans of ints; microseconds for each that all
    of them together make; a plot."""
    server = Server(b.args, 'clients', SIZES)
    tables(server, b, 'ints', {'mtpower': '', 'heap': ''})
    for am in ('mtpower', 'heap'):
        with open(b.path(am + '_probes.sql'), 'w') as f:
            f.write(
                '\\set n random(0, %d)\nSELECT count(r.d) FROM (SELECT a FROM p WHERE n BETWEEN :n '
                'AND :n + 499) p JOIN f_%s r ON r.a = p.a;\n'
                % (PROBES - 500, am))
    server.sql(
        'DROP TABLE IF EXISTS p; CREATE TABLE p AS SELECT row_number() OVER () AS n, a FROM '
        'probes; CREATE INDEX ON p (n); VACUUM ANALYZE p'
    )
    for setting in ('enable_hashjoin', 'enable_mergejoin', 'enable_memoize', 'enable_bitmapscan',
                    'jit'):
        server.setting(setting, 'off')
    counts = [1, 2, 4, 8, 16]
    series = {'mtpower': [], PEER: []}
    seconds = '2' if ROUNDS == 1 else '4'
    for n in counts:
        run = lambda am: server.pgbench('-c', str(n), '-j', '1', '-T', seconds, '-f',
                                        b.path(am + '_probes.sql'), 'postgres') * 1000 / 500
        found = b.compare('%d clients' % n, both(run), rounds=ROUNDS, unit='us')
        for side in series:
            series[side].append([1000 / x for x in found[side]])
    plot.lines(b.path('clients.svg'), 'Random probes by index scans, all in memory', 'clients',
               'thousand probes a second', counts, series)
    server.remove()


@part
def part_queue(b):
    """A queue: 200,000 entries put in at the right (a tenth in small tests) and taken out at the
    left, one a transaction, no VACUUM; logged and unlogged; seconds."""
    n = max(ROWS // 10, 1000)
    server = Server(b.args, 'queue', dict(SIZES, synchronous_commit='off'))
    for kind in ('', 'UNLOGGED '):

        def run(am):
            server.sql(
                'DROP TABLE IF EXISTS q; CREATE %sTABLE q (id bigserial, v int) USING %s; '
                '%s CHECKPOINT'
                % (kind, am, indexes('q', am, ['id'])))
            server.sql('''CREATE OR REPLACE PROCEDURE run(n int) LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO q (v) SELECT g FROM generate_series(1, 100) g;
                FOR i IN 1 .. n LOOP
                    INSERT INTO q (v) VALUES (i);
                    DELETE FROM q WHERE id = (SELECT id FROM q ORDER BY id LIMIT 1);
                    COMMIT;
                END LOOP; END $$''')
            return server.timed('CALL run(%d)' % n,
                                'SET enable_seqscan = off; SET enable_bitmapscan = off')

        b.compare((kind or 'logged ').strip().lower(),
                  both(run),
                  rounds=PAIRS,
                  targets={PEER: 0.97})
    server.remove()


def bank(server, b, am, db='postgres'):
    """pgbench's tables, with the account found by a B-link, in a table of mtpower's, or by a
    btree."""
    pgbench_tables(server, db, max(ROWS // 200_000, 1), am)
    server.sql(
        'ALTER TABLE pgbench_accounts DROP CONSTRAINT pgbench_accounts_pkey; '
        'DROP INDEX pgbench_accounts_abalance_idx, pgbench_accounts_bid_idx; %s'
        % indexes('pgbench_accounts', am, ['aid']), db)
    if am == 'mtpower':
        server.sql("SELECT mtpower.adopt('pgbench_accounts'::regclass)", db)
    server.sql('VACUUM ANALYZE', db)
    check_plan(server, 'SELECT abalance FROM pgbench_accounts WHERE aid = 1', PLAIN,
               'Index Scan using', db)


def counted_bank(b):
    """Instructions of the same queries and transactions by a single-user backend, after all
    accounts have been looked up."""
    server = Server(b.args, 'counted', instructions.SIZES)
    try:
        for am, db in instructions.DATABASES.items():
            server.sql('CREATE DATABASE ' + db)
            if am == 'mtpower':
                server.sql('CREATE EXTENSION mtpower', db)
            bank(server, b, am, db)
    finally:
        server.stop('fast')
    accounts = 100_000 * max(ROWS // 200_000, 1)
    warm = [
        PLAIN, NESTED,
        'SELECT count(a.abalance) FROM generate_series(1, %d, 7) g JOIN pgbench_accounts a ON '
        'a.aid = g'
        % accounts
    ]
    for name, target, half in (('pgbench -S', 1.0,
                                lambda r: ['EXECUTE balance (%d)' % r.randint(1, accounts)]),
                               ('pgbench TPC-B', 0.97, instructions.tpcb)):
        case = (warm + instructions.TPCB, *instructions.halves(half))
        instructions.compare_counts(
            b, name + ', instructions', target, PEER,
            [(backend, case) for backend in instructions.backends(b, server)])
    shutil.rmtree(server.data)


@part
def part_beside(b):
    """What must not become slower: pgbench's queries and transactions with the account found by a
    B-link (btree on the other side, on a server that has the buffer's memory in shared_buffers, and
    no mtpower), two sessions, milliseconds, and millions of instructions of a single-user backend;
    COPY with four live indexes with the buffer and without it."""
    common = {'autovacuum': 'off', 'synchronous_commit': 'off'}
    servers = {
        'mtpower': Server(b.args, 'beside',
                          dict(common, **{
                              'mtpower.buffer_size': '1GB',
                              'shared_buffers': '4GB'
                          })),
        'heap': Server(b.args, 'peer',
                       dict(common, **{
                           'mtpower.buffer_size': '0',
                           'shared_buffers': '5GB'
                       }))
    }
    for am, server in servers.items():
        bank(server, b, am)
        if am == 'heap':
            server.without_library()
        server.pgbench('-S', '-t', str(ROWS // 40), 'postgres')
        b.note('(%s: shared_buffers %s, %s of tables and indexes)' %
               (am, server.sql('SHOW shared_buffers').strip(),
                server.sql("SELECT pg_size_pretty(pg_database_size('postgres'))").strip()))
    b.compare('pgbench -S',
              both(lambda am: servers[am].pgbench('-S', '-c', '2', '-j', '1', '-t',
                                                  str(max(ROWS // 80, 100)), 'postgres')),
              rounds=PAIRS,
              unit='ms',
              targets={PEER: 1.0})

    def tpcb(am):
        servers[am].sql('VACUUM')
        return servers[am].pgbench('-c', '2', '-j', '1', '-t', str(max(ROWS // 200, 100)),
                                   'postgres')

    b.compare('pgbench TPC-B', both(tpcb), rounds=PAIRS, unit='ms', targets={PEER: 0.97})
    for server in servers.values():
        server.remove()
    if shutil.which('valgrind'):
        counted_bank(b)
    else:
        b.note('valgrind is not installed: no instructions')
    sides = {
        'mtpower': Server(b.args, 'with', {
            'mtpower.buffer_size': '128MB',
            'shared_buffers': '3GB'
        }),
        'no buffer': Server(b.args, 'without', {
            'mtpower.buffer_size': '0',
            'shared_buffers': '3GB'
        })
    }
    b.compare('COPY, four live indexes', {
        name: (lambda s=s: b.load('mtpower', server=s))
        for name, s in sides.items()
    },
              rounds=PAIRS,
              targets={'no buffer': 0.97})
    for s in sides.values():
        s.remove()
