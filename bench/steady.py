"""Measures reads and changes once the rows are there."""
from data import AMS, TYPES, indexes
from harness import PAIRS, ROWS, part
from server import Failed

PEER = 'heap+btree'

# name, query, settings, what its plan must have; {t} is the table, with an index on a
NESTED = ('SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; '
          'SET enable_bitmapscan = off')
ORDERED = 'SET enable_seqscan = off; SET enable_bitmapscan = off'
READS = (('random probes, index scan', 'SELECT count(r.d) FROM probes p JOIN {t} r ON r.a = p.a',
          NESTED + '; SET enable_indexonlyscan = off', 'Index Scan using'),
         ('random probes, index-only', 'SELECT count(r.a) FROM probes p JOIN {t} r ON r.a = p.a',
          NESTED, 'Index Only Scan using'),
         ('index-only scan of it all', 'SELECT count(a) FROM {t}', ORDERED,
          'Index Only Scan using'), ('index scan of a tenth',
                                     'SELECT sum(d) FROM {t} WHERE a BETWEEN 0 AND 429496729',
                                     ORDERED, 'Index Scan using'))
PLAIN = 'SET max_parallel_workers_per_gather = 0; SET jit = off'


def check_plan(server, query, settings, node, db='postgres'):
    """Raises unless the plan is the one that is to be measured."""
    plan = server.sql('%s; EXPLAIN (COSTS OFF) %s' % (settings, query), db)
    if node not in plan:
        raise Failed('no %s in the plan of %s\n%s' % (node, query, plan))


def both(run, peer=PEER):
    return {'mtpower': lambda: run('mtpower'), peer: lambda: run('heap')}


def pairs(b, case, run, target, peer=PEER, **show):
    b.compare(case, both(run, peer), rounds=PAIRS, targets={peer: target}, **show)


@part
def part_plain(b):
    """Without indexes the table AM must cost nothing."""
    pairs(b, 'COPY', lambda am: b.load(am, n=0), 0.97, peer='heap')
    for am in AMS:
        b.table('s_' + am, am, n=0)
        b.server.sql('{0}; VACUUM ANALYZE s_{1}'.format(b.copy(b.file(), 's_' + am), am))
    pairs(b,
          'sequential scan',
          lambda am: b.server.timed('SELECT count(*), sum(d) FROM s_%s' % am, PLAIN),
          0.97,
          peer='heap')


@part
def part_read(b):
    """Random probes of one index on a random int, a quarter as many as rows; index and index-only
    scans in order."""
    for am in AMS:
        b.table('r_' + am, am, n=1)
        b.server.sql('{0}; VACUUM ANALYZE r_{1}'.format(b.copy(b.file(), 'r_' + am), am))
    b.server.sql(
        'DROP TABLE IF EXISTS probes; CREATE TABLE probes AS SELECT a FROM r_heap ORDER BY '
        'hashint4(b) LIMIT %d; VACUUM ANALYZE probes'
        % (ROWS // 4))
    for name, query, settings, node in READS:
        settings = PLAIN + '; ' + settings
        for am in AMS:
            check_plan(b.server, query.format(t='r_' + am), settings, node)
        pairs(b, name, lambda am: b.server.timed(query.format(t='r_' + am), settings), 1.0)


@part
def part_write(b):
    """Single-row INSERTs and UPDATEs with four indexes and a primary key, one session; pgbench's
    TPC-B, two sessions, with two secondary indexes on pgbench_accounts. Milliseconds per
    transaction, synchronous_commit off; VACUUM before each run in place of autovacuum, which would
    come in the middle of one side's runs."""
    rows, transactions = max(ROWS // 10, 1000), str(max(ROWS // 100, 100))
    b.server.setting('synchronous_commit', 'off')
    b.server.setting('autovacuum', 'off')
    for name, script in (
        ('single-row INSERTs',
         '\\set a random(-2000000000, 2000000000)\nINSERT INTO w_%s VALUES (:a, :a / 2, :a / 3, :a '
         '/ 5, md5(:a::text));\n'
         ),
        ('single-row UPDATEs', '\\set i random(1, ' + str(rows) +
         ')\n\\set a random(-2000000000, 2000000000)\nUPDATE w_%s SET a = :a WHERE id = :i;\n')):
        for am in AMS:
            b.table('w_' + am, am, extra=', id serial PRIMARY KEY')
            b.server.sql(
                'INSERT INTO w_{0} SELECT (random() * 1e9)::int, i, i * 7 % 1000003, i / 3, '
                'md5(i::text) FROM generate_series(1, {1}) i; VACUUM ANALYZE w_{0}'
                .format(am, rows))
            with open(b.path(am + '.sql'), 'w') as f:
                f.write(script % am)

        def single(am):
            b.server.sql('VACUUM w_' + am)
            return b.server.pgbench('-t', transactions, '-f', b.path(am + '.sql'), 'postgres')

        pairs(b, name, single, 0.95, unit='ms')
    for am in AMS:
        db = 'b_' + am
        b.server.sql('DROP DATABASE IF EXISTS %s; CREATE DATABASE %s' % (db, db))
        b.server.sql('CREATE EXTENSION mtpower', db)
        pgbench_tables(b.server, db, max(ROWS // 200_000, 1), am)

    def tpcb(am):
        b.server.sql('VACUUM', 'b_' + am)
        return b.server.pgbench('-c', '2', '-j', '1', '-t', str(max(ROWS // 200, 100)), 'b_' + am)

    pairs(b, 'pgbench TPC-B', tpcb, 0.95, unit='ms')
    b.server.setting('synchronous_commit', None)
    b.server.setting('autovacuum', None)


def pgbench_tables(server, db, scale, am):
    server.run('pgbench', '-h', server.dir, '-p', server.port, '-U', 'postgres', '-i', '-q', '-s',
               str(scale), db)
    server.sql(indexes('pgbench_accounts', am, ['abalance', 'bid']), db)


@part
def part_updates(b):
    """Sizes after as many updates of one indexed column as there are rows, two sessions, autovacuum
    at its defaults; once."""
    sizes = {}
    b.server.setting('synchronous_commit', 'off')
    for side, am in (('mtpower', 'mtpower'), (PEER, 'heap')):
        b.table('u', am, extra=', id serial PRIMARY KEY')
        b.server.sql(b.copy(b.file(), 'u', ' (a, b, c, d, t)') + '; VACUUM ANALYZE u')
        with open(b.path('u.sql'), 'w') as f:
            f.write(
                '\\set i random(1, %d)\n\\set a random(-2000000000, 2000000000)\nUPDATE u SET a = '
                ':a WHERE id = :i;\n'
                % ROWS)
        b.server.pgbench('-c', '2', '-t', str(ROWS // 2), '-f', b.path('u.sql'), 'postgres')
        sizes[side] = b.sizes('u')
        vacuums, hot = b.server.sql(
            "SELECT autovacuum_count, n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = "
            "'u'::regclass"
        ).split('|')
        b.note('(%s: %s autovacuums, %d of the updates HOT)' % (side, vacuums, int(hot)))
    b.server.setting('synchronous_commit', None)
    for name in sizes[PEER]:
        more = {'u_a_idx': ', on the changed column', 'u_pkey': ', core\'s on both sides'}
        changed = more.get(name, '')
        b.show(name + changed, {
            side: [s[name]]
            for side, s in sizes.items()
        },
               unit='MB',
               targets={PEER: 1 / 1.5})
    b.show('all of them', {
        side: [sum(s.values())]
        for side, s in sizes.items()
    },
           unit='MB',
           targets={PEER: 1 / 1.5})
