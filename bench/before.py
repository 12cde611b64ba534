"""Counts what a buffer that is switched off costs, beside the source without one."""
import argparse, shutil
from harness import part
from instructions import COUNT, SIZES, Backend, cases, check_valgrind, compare_counts
from instructions import halves, prepare
from server import Server
from steady import NESTED, PLAIN, check_plan

HASH_PROBES = 'SELECT count(r.d) FROM probes p JOIN hashed r ON r.a = p.a'
TEXT_PROBES = 'SELECT count(r.d) FROM text_probes p JOIN read_texts r ON r.a = p.a'
BITMAP = 'SELECT sum(d) FROM read WHERE a BETWEEN 0 AND 429496729'
BITMAP_ONLY = 'SET enable_seqscan = off; SET enable_indexscan = off'
ONE = 'EXECUTE one (%d)'


def more_tables(b, server, db):
    for name in 'first_indexed', 'indexed':
        b.table(name, 'mtpower', server=server, db=db)
    for name in 'first_hash_indexed', 'hash_indexed':
        b.table(name, 'mtphash', server=server, db=db)
    b.table('read_texts', 'mtpower', 'text', 1, server=server, db=db)
    server.sql(
        b.copy(b.file('text', COUNT), 'read_texts') + '; VACUUM ANALYZE read_texts; ' +
        'CREATE TABLE text_probes AS SELECT a FROM read_texts ORDER BY b LIMIT %d; '
        'VACUUM ANALYZE text_probes'
        % (COUNT // 4), db)
    for query, settings, node in (HASH_PROBES, NESTED,
                                  'Index Scan using'), (TEXT_PROBES, NESTED,
                                                        'Index Scan using'), (BITMAP, BITMAP_ONLY,
                                                                              'Bitmap Index Scan'):
        check_plan(server, query, '%s; %s' % (PLAIN, settings), node, db)


def more_cases(b):
    """As cases(), without targets"""
    for what, name in ('B-link', 'indexed'), ('hash', 'hash_indexed'):
        yield 'COPY, four %s indexes' % what, [], [b.copy(
            b.file(rows=100), 'first_' + name)], [b.copy(b.file(rows=COUNT), name)]
    for what, query, settings in ('random probes, hash', HASH_PROBES,
                                  NESTED), ('random probes, text', TEXT_PROBES,
                                            NESTED), ('bitmap scan of a tenth', BITMAP,
                                                      BITMAP_ONLY):
        yield what, [PLAIN, settings], [query], [query]
    yield ('queries of one row', [
        'PREPARE one (int) AS SELECT d FROM read WHERE a = $1',
        'SET plan_cache_mode = force_generic_plan',
        'SET enable_seqscan = off; SET enable_bitmapscan = off'
    ], *halves(lambda r: [ONE % r.randrange(-2 ** 31, 2 ** 31)]))
    yield ('single-row DELETEs', ['PREPARE del (int) AS DELETE FROM written WHERE id = $1'],
           *halves(lambda r: ['EXECUTE del (%d)' % r.randint(1, COUNT)]))


@part
def part_before(b):
    """Millions of instructions that a single-user backend executes with mtpower.buffer_size = 0, on
    a twentieth of the rows, counted by cachegrind; the peer is the library as it was before the
    buffer came (BENCH_BEFORE: another commit, or a directory with a source)."""
    if not b.args.before:
        b.note('skipped: there is no source of before the buffer; BENCH_BEFORE names one')
        return
    check_valgrind()
    backends, servers = [], []
    for name, bindir, settings in ('now', b.args.bindir, {
            'mtpower.buffer_size': '0'
    }), ('before', b.args.before, {}):
        server = Server(argparse.Namespace(**dict(vars(b.args), bindir=bindir)), 'counted-' + name,
                        dict(SIZES, **settings))
        servers.append(server)
        try:
            prepare(b, server, 'mtpower')
            more_tables(b, server, 'own')
        finally:
            server.stop('fast')
        backends.append(Backend(name, bindir, server.data, 'own', []))
    every = [(name, case)
             for name, _, *case in cases(b, 'mtpower')] + [(name, case)
                                                           for name, *case in more_cases(b)]
    for name, case in every:
        compare_counts(b, name, 0.99, 'before', [(backend, case) for backend in backends])
    for server in servers:
        shutil.rmtree(server.data)
