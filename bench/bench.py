#!/usr/bin/env python3
"""Measures mtpower beside its peers; bench/run prepares what this needs.

A part is a list of cases; a case has sides that are run in turn, round after round, so that what slows the machine down
slows all of them.  Each figure is a median over the rounds; ratios are peer / mtpower, above one where mtpower is faster.
Parts whose target lies between 0.9 and 1.1 take at least eleven rounds and report the median of the paired ratios with
its 95 % interval (order statistics).
"""
import argparse, csv, hashlib, os, random, re, statistics, subprocess, sys, threading, time

ROWS = int(os.environ.get('BENCH_ROWS', 2_000_000))
ROUNDS = int(os.environ.get('BENCH_ROUNDS', 3))
PAIRS = max(11, ROUNDS)


class Server:
    """A private server with the settings that the targets were set under; mtpower's own at their defaults."""

    ports = 0

    def __init__(self, args, name, extra=()):
        Server.ports += 1
        self.port = str(54320 + Server.ports)
        self.bindir, self.dir, self.data = args.bindir, args.dir, os.path.join(args.dir, name)
        self.run('initdb', '-D', self.data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C')
        settings = {'shared_preload_libraries': "'mtpower'", 'listen_addresses': "''",
                    'unix_socket_directories': "'%s'" % self.dir, 'port': self.port, 'shared_buffers': '4GB', 'max_wal_size': '32GB',
                    'maintenance_work_mem': '1GB', 'checkpoint_timeout': '1h', 'wal_compression': 'off',
                    'wal_level': 'logical'}
        settings.update(dict(extra))
        with open(os.path.join(self.data, 'postgresql.conf'), 'a') as f:
            for key, value in settings.items():
                f.write('%s = %s\n' % (key, value))
        self.run('pg_ctl', '-D', self.data, '-l', os.path.join(self.dir, name + '.log'), '-w', 'start')
        self.sql('CREATE EXTENSION mtpower')

    def run(self, program, *args):
        done = subprocess.run([os.path.join(self.bindir, program), *args], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit('%s failed: %s' % (program, done.stdout))
        return done.stdout

    def psql(self, script, db='postgres'):
        """Runs a script in one session; returns its output."""
        done = subprocess.run([os.path.join(self.bindir, 'psql'), '-X', '-q', '-A', '-t', '-h', self.dir, '-p', self.port, '-U', 'postgres',
                               '-d', db, '-v', 'ON_ERROR_STOP=1'], input=script, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit('failed: %s\n%s' % (script[:500], done.stderr))
        return done.stdout

    def sql(self, script, db='postgres'):
        return self.psql('SET client_min_messages = warning;\n' + script + ';', db)

    def timed(self, script, before='', db='postgres'):
        """Seconds that the script takes, up to and including COMMIT, in a session that ran `before`."""
        out = self.psql('SET client_min_messages = warning;\n%s;\n\\timing on\n%s;\n' % (before, script), db)
        return sum(float(x) for x in re.findall(r'^Time: ([0-9.]+) ms', out, re.M)) / 1000

    def wal(self):
        return int(self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def stop(self):
        self.run('pg_ctl', '-D', self.data, '-m', 'immediate', '-w', 'stop')


class Report:
    def __init__(self, path):
        self.csv = csv.writer(open(path, 'w', newline=''))
        self.csv.writerow(['part', 'case', 'side', 'runs', 'median', 'min', 'max', 'unit', 'ratio', 'low', 'high', 'target', 'met'])

    def show(self, part, case, results, unit='s', target=None, peer=None, own='mtpower', paired=False):
        """results: side -> list of figures, in round order.  Ratios are side / own."""
        mine = results[own]
        for side, runs in results.items():
            m = statistics.median(runs)
            ratio = low = high = None
            if side != own:
                ratios = sorted(a / b for a, b in zip(runs, mine))
                ratio = statistics.median(ratios)
                low, high = interval(ratios)
            goal = target if side == peer else None
            met = '' if goal is None else ('met' if (high if paired and high else ratio) >= goal else 'missed')
            print('%-10s %-34s %-26s %9.3f %s %s %s' % (
                part, case, side, m, unit, '' if ratio is None else 'x %.2f' % ratio,
                '' if goal is None else ('[%.3f, %.3f] ' % (low, high) if paired else '') + '(target %.2f: %s)' % (goal, met)))
            sys.stdout.flush()
            self.csv.writerow([part, case, side, len(runs), m, min(runs), max(runs), unit, ratio, low, high, goal, met])


def interval(ratios):
    """The 95 % interval of the median by order statistics (sign test)."""
    from math import comb
    n, tail, k = len(ratios), 0.0, 0
    while k < n // 2 and tail + comb(n, k) / 2 ** n <= 0.025:
        tail += comb(n, k) / 2 ** n
        k += 1
    return (ratios[k - 1], ratios[n - k]) if k > 0 else (ratios[0], ratios[-1])


# ---- data ----

def make_rows(path, rows, kind='ints', seed=7):
    r = random.Random(seed)
    bits = r.getrandbits
    with open(path, 'w') as f:
        for i in range(rows):
            t = hashlib.md5(b'%d.%d' % (seed, i)).hexdigest()
            if kind == 'ints':
                f.write('%d,%d,%d,%d,%s\n' % (bits(32) - 2 ** 31, bits(32) - 2 ** 31, bits(32) - 2 ** 31, bits(32) - 2 ** 31, t))
            elif kind == 'seq':
                f.write('%d,%d,%d,%d,%s\n' % (i, i + 5, 2 * i, i // 2, t))
            elif kind == 'low':
                f.write('%d,%d,%d,%d,%s\n' % (bits(10), bits(4), bits(16), bits(7), t))
            elif kind == 'text':
                f.write(','.join(hashlib.md5(b'%d.%d.%d' % (seed, i, c)).hexdigest() for c in range(4)) + ',x\n')
            elif kind == 'uuid':
                f.write(','.join('%032x' % bits(128) for c in range(4)) + ',x\n')
            elif kind == 'intts':
                f.write(','.join('%d,2026-01-%02d %02d:%02d:%02d' % (bits(16), 1 + bits(4), bits(4), bits(5), bits(5))
                                 for c in range(4)) + '\n')


TYPES = {'ints': 'a int, b int, c int, d int, t text', 'text': 'a text COLLATE "C", b text COLLATE "C", c text COLLATE "C", d text COLLATE "C", t text',
         'icu': 'a text COLLATE "en-x-icu", b text COLLATE "en-x-icu", c text COLLATE "en-x-icu", d text COLLATE "en-x-icu", t text',
         'uuid': 'a uuid, b uuid, c uuid, d uuid, t text',
         'intts': 'a int, at timestamp, b int, bt timestamp, c int, ct timestamp, d int, dt timestamp'}
COLUMNS = {'intts': ['a, at', 'b, bt', 'c, ct', 'd, dt']}
AMS = {'mtpower': ('mtpower', 'mtpower_blink'), 'heap': ('heap', 'btree')}


def indexes(table, am, columns):
    return ''.join('CREATE INDEX ON %s USING %s (%s);\n' % (table, AMS[am][1], c) for c in columns)


def columns(kind, n=4):
    base = COLUMNS.get(kind, ['a', 'b', 'c', 'd'])
    extra = ['(%s, %s)' % (x, y) for x in 'abcd' for y in 'abcd' if x != y]
    return (base + [e[1:-1] for e in extra])[:n]


class Bench:
    def __init__(self, args):
        self.args, self.report = args, Report(os.path.join(args.dir, 'results.csv'))
        self.server = Server(args, 'data')
        self.files = {}

    def file(self, kind, rows=ROWS, seed=7):
        key = (kind, rows, seed)
        if key not in self.files:
            self.files[key] = os.path.join(self.args.dir, '%s-%d-%d.csv' % key)
            make_rows(self.files[key], rows, {'icu': 'text'}.get(kind, kind), seed)
        return self.files[key]

    def table(self, name, am, kind='ints', n=4, extra='', server=None):
        (server or self.server).sql('DROP TABLE IF EXISTS {0};\nCREATE TABLE {0} ({1}{2}) USING {3};\n{4}CHECKPOINT'.format(
            name, TYPES.get(kind, TYPES['ints']), extra, AMS[am][0], indexes(name, am, columns(kind, n))))

    def load(self, am, kind='ints', n=4, path=None, before='', copy=None, extra='', cols='', server=None):
        """Seconds of one COPY into a fresh table with n live indexes."""
        server = server or self.server
        self.table('t', am, kind, n, extra, server)
        return server.timed((copy or 'COPY t{1} FROM \'{0}\' WITH (FORMAT csv)').format(path or self.file(kind), cols), before)

    def compare(self, part, case, sides, rounds=ROUNDS, **show):
        results = {name: [] for name in sides}
        for _ in range(rounds):
            for name, run in sides.items():
                results[name].append(run())
        self.report.show(part, case, results, **show)
        return results

    # ---- parts ----

    def part_copy(self):
        """The main target: four live indexes, beside live btrees and beside indexes built afterwards."""
        path = self.file('ints')

        def after():
            self.table('t', 'heap', n=0)
            return self.server.timed("COPY t FROM '%s' WITH (FORMAT csv);\n%s" % (path, indexes('t', 'heap', columns('ints'))))

        sides = {'mtpower': lambda: self.load('mtpower'), 'heap+btree live': lambda: self.load('heap'),
                 'heap, then CREATE INDEX': after, 'heap, no index': lambda: self.load('heap', n=0)}
        results = self.compare('copy', '4 indexes', sides, peer='heap+btree live', target=4.8)
        pair = {k: results[k] for k in ('mtpower', 'heap, then CREATE INDEX')}
        self.report.show('copy', '4 indexes (harder peer)', pair, peer='heap, then CREATE INDEX', target=1.0)

    def part_after(self):
        """COPY with four live B-link indexes against COPY followed by CREATE INDEX: eleven pairs."""
        path = self.file('ints')

        def after():
            self.table('t', 'heap', n=0)
            return self.server.timed("COPY t FROM '%s' WITH (FORMAT csv);\n%s" % (path, indexes('t', 'heap', columns('ints'))))

        self.compare('after', '4 indexes', {'mtpower': lambda: self.load('mtpower'), 'heap, then CREATE INDEX': after},
                     rounds=PAIRS, peer='heap, then CREATE INDEX', target=1.0, paired=True)

    def part_workers(self):
        sides = {}
        for w in range(4):
            def run(w=w):
                self.server.sql("ALTER SYSTEM SET mtpower.workers = %d;\nSELECT pg_reload_conf()" % w)
                time.sleep(0.2)
                return self.load('mtpower')
            sides['%d workers' % w] = run
        self.compare('workers', '4 indexes', sides, own='1 workers', peer='0 workers', target=1.4)
        self.server.sql("ALTER SYSTEM RESET mtpower.workers;\nSELECT pg_reload_conf()")

    def part_indexes(self):
        """The share of a COPY's time that goes to indexes (the paper's figure 2), and one and eight of them."""
        for n in (0, 1, 2, 3, 4, 8):
            self.compare('indexes', '%d indexes' % n, {'mtpower': lambda: self.load('mtpower', n=n), 'heap+btree live': lambda: self.load('heap', n=n)})

    def part_keys(self):
        for kind, target in (('text', 3), ('uuid', 3), ('intts', 3), ('icu', 1.5), ('seq', None), ('low', None)):
            self.compare('keys', kind, {'mtpower': lambda: self.load('mtpower', kind), 'heap+btree live': lambda: self.load('heap', kind)},
                         peer='heap+btree live', target=target)

    def part_pk(self):
        for name, extra in (('bigint', ', id bigserial PRIMARY KEY'), ('uuid', ', id uuid DEFAULT gen_random_uuid() PRIMARY KEY')):
            self.compare('pk', name + ' primary key + 4', {
                am: (lambda am=am: self.load({'mtpower': 'mtpower', 'heap+btree live': 'heap'}[am], extra=extra, cols=' (a, b, c, d, t)'))
                for am in ('mtpower', 'heap+btree live')})

    def part_locked(self):
        """COPYs whose table no worker can lock."""
        path = self.file('ints')
        ddl = lambda am: 'CREATE TABLE n (%s) USING %s;\n%s' % (TYPES['ints'], AMS[am][0], indexes('n', am, columns('ints')))

        def truncated(am):
            self.table('t', am)
            return self.server.timed("COPY t FROM '%s' WITH (FORMAT csv);\nCOMMIT" % path, 'BEGIN;\nTRUNCATE t')

        def created(am):
            self.server.sql('DROP TABLE IF EXISTS n')
            return self.server.timed("COPY n FROM '%s' WITH (FORMAT csv);\nCOMMIT" % path, 'BEGIN;\n' + ddl(am))

        def locked(am):
            self.table('t', am)
            return self.server.timed("COPY t FROM '%s' WITH (FORMAT csv);\nCOMMIT" % path, 'BEGIN;\nLOCK TABLE t')

        for name, run in (('after TRUNCATE', truncated), ('created in the transaction', created), ('under LOCK TABLE', locked)):
            self.compare('locked', name, {'mtpower': lambda: run('mtpower'), 'heap+btree live': lambda: run('heap')},
                         peer='heap+btree live', target=3)

    def two(self, am, same):
        a, b = self.file('ints'), self.file('ints', seed=8)
        self.table('t', am)
        if not same:
            self.server.sql('DROP TABLE IF EXISTS u')
            self.table('u', am)
        took = []
        runs = [threading.Thread(target=lambda t=t, p=p: took.append(self.server.timed("COPY %s FROM '%s' WITH (FORMAT csv)" % (t, p))))
                for t, p in (('t', a), ('t' if same else 'u', b))]
        for r in runs:
            r.start()
        for r in runs:
            r.join()
        return max(took)

    def part_two(self):
        for name, same, target in (('into two tables', False, 3), ('into one table', True, 2.5)):
            self.compare('two', 'two COPYs ' + name, {'mtpower': lambda: self.two('mtpower', same), 'heap+btree live': lambda: self.two('heap', same)},
                         peer='heap+btree live', target=target)

    def part_memory(self):
        """8 MB of batch memory, and an index larger than shared_buffers."""
        for name, extra, rows in (('8 MB of batch memory', {'mtpower.batch_memory': '8MB'}, ROWS),
                                  ('indexes larger than shared_buffers', {'shared_buffers': '64MB'}, ROWS)):
            server = Server(self.args, 'data2', extra)
            try:
                self.compare('memory', name, {'mtpower': lambda: self.load('mtpower', server=server),
                                              'heap+btree live': lambda: self.load('heap', server=server)})
            finally:
                server.stop()
                subprocess.run(['rm', '-rf', server.data])

    def part_wal(self):
        """Bytes of WAL per index entry, without the table's share; sizes after the load."""
        path, results, sizes = self.file('ints'), {'mtpower': [], 'heap+btree': []}, {'mtpower': [], 'heap+btree': []}
        for _ in range(ROUNDS):
            base = {}
            for side, am, n in (('mtpower', 'mtpower', 0), ('heap+btree', 'heap', 0), ('mtpower', 'mtpower', 4), ('heap+btree', 'heap', 4)):
                self.table('t', am, n=n)
                start = self.server.wal()
                self.server.sql("COPY t FROM '%s' WITH (FORMAT csv)" % path)
                used = self.server.wal() - start
                if n == 0:
                    base[side] = used
                else:
                    results[side].append((used - base[side]) / (4 * ROWS))
                    sizes[side].append(float(self.server.sql("SELECT sum(pg_relation_size(indexrelid)) / 4 FROM pg_index WHERE indrelid = 't'::regclass")) / 2 ** 20)
        self.report.show('wal', 'WAL of an index entry', results, unit='B')
        self.report.show('wal', 'size of an index', sizes, unit='MB')

    def part_plain(self):
        """Without indexes the table AM must cost nothing."""
        self.compare('plain', 'COPY without index', {'mtpower': lambda: self.load('mtpower', n=0), 'heap': lambda: self.load('heap', n=0)},
                     rounds=PAIRS, peer='heap', target=0.97, paired=True)
        for am in AMS:
            self.server.sql('DROP TABLE IF EXISTS s_%s' % am)
            self.table('s_' + am, am, n=0)
            self.server.sql("COPY s_{0} FROM '{1}' WITH (FORMAT csv); VACUUM ANALYZE s_{0}".format(am, self.file('ints')))
        scan = lambda am: self.server.timed('SELECT count(*), sum(d) FROM s_%s' % am, 'SET max_parallel_workers_per_gather = 0')
        self.compare('plain', 'sequential scan', {'mtpower': lambda: scan('mtpower'), 'heap': lambda: scan('heap')},
                     rounds=PAIRS, peer='heap', target=0.97, paired=True)

    def both_tables(self, kind='ints', n=1):
        for am in AMS:
            self.server.sql('DROP TABLE IF EXISTS r_%s' % am)
            self.table('r_' + am, am, kind, n)
            self.server.sql("COPY r_{0} FROM '{1}' WITH (FORMAT csv); VACUUM ANALYZE r_{0}".format(am, self.file(kind)))

    def part_read(self):
        """Random probes, index and index-only scans."""
        self.both_tables()
        self.server.sql("DROP TABLE IF EXISTS probes; CREATE TABLE probes AS SELECT a FROM r_heap ORDER BY hashint4(b) LIMIT 500000; VACUUM ANALYZE probes")
        nest = 'SET max_parallel_workers_per_gather = 0; SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off; SET enable_bitmapscan = off; SET jit = off; '
        for name, query, setup in (
                ('random probes, index scan', 'SELECT count(r.d) FROM probes p JOIN r_{0} r ON r.a = p.a', nest + 'SET enable_indexonlyscan = off'),
                ('random probes, index-only', 'SELECT count(r.a) FROM probes p JOIN r_{0} r ON r.a = p.a', nest),
                ('index-only scan of it all', 'SELECT count(a) FROM r_{0}', nest + 'SET enable_seqscan = off'),
                ('index scan of a tenth', "SELECT sum(d) FROM r_{0} WHERE a BETWEEN 0 AND 429496729", nest + 'SET enable_seqscan = off')):
            run = lambda am: self.server.timed(query.format(am), setup)
            self.compare('read', name, {'mtpower': lambda: run('mtpower'), 'heap+btree': lambda: run('heap')},
                         rounds=PAIRS, peer='heap+btree', target=1.0, paired=True)

    def part_write(self):
        """Single-row INSERTs and UPDATEs, and pgbench's TPC-B with two more indexes on accounts."""
        for name, script in (('single-row INSERTs', '\\set a random(-2000000000, 2000000000)\nINSERT INTO w_{0} VALUES (:a, :a / 2, :a / 3, :a / 5, md5(:a::text));\n'),
                             ('single-row UPDATEs', '\\set i random(1, 200000)\n\\set a random(-2000000000, 2000000000)\nUPDATE w_{0} SET a = :a WHERE id = :i;\n')):
            for am in AMS:
                self.table('w_' + am, am, extra=', id serial PRIMARY KEY')
                self.server.sql("INSERT INTO w_{0} SELECT (random() * 1e9)::int, i, i * 7 % 1000003, i / 3, md5(i::text) FROM generate_series(1, 200000) i; VACUUM ANALYZE w_{0}".format(am))
                with open(os.path.join(self.args.dir, am + '.sql'), 'w') as f:
                    f.write(script.format(am))

            def run(am):
                out = self.server.run('pgbench', '-h', self.args.dir, '-p', self.server.port, '-U', 'postgres', '-n', '-M', 'prepared', '-t', '20000', '-f', os.path.join(self.args.dir, am + '.sql'), 'postgres')
                return 1000 / float(re.search(r'tps = ([0-9.]+)', out).group(1))
            self.server.sql("ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf()")
            self.compare('write', name, {'mtpower': lambda: run('mtpower'), 'heap+btree': lambda: run('heap')}, rounds=PAIRS, unit='ms', peer='heap+btree', target=0.95, paired=True)
        for am in AMS:
            self.server.sql('DROP DATABASE IF EXISTS b_%s' % am)
            self.server.sql('CREATE DATABASE b_%s' % am)
            self.server.run('pgbench', '-h', self.args.dir, '-p', self.server.port, '-U', 'postgres', '-i', '-q', '-s', '10', 'b_' + am)
            self.server.sql(('CREATE EXTENSION mtpower; ' if am == 'mtpower' else '') +
                            'CREATE INDEX ON pgbench_accounts USING {0} (abalance); CREATE INDEX ON pgbench_accounts USING {0} (bid)'.format(AMS[am][1]), 'b_' + am)

        def tpcb(am):
            out = self.server.run('pgbench', '-h', self.args.dir, '-p', self.server.port, '-U', 'postgres', '-n', '-M', 'prepared', '-c', '2', '-j', '1', '-t', '10000', 'b_' + am)
            return 1000 / float(re.search(r'tps = ([0-9.]+)', out).group(1))
        self.compare('write', 'pgbench TPC-B', {'mtpower': lambda: tpcb('mtpower'), 'heap+btree': lambda: tpcb('heap')}, rounds=PAIRS, unit='ms', peer='heap+btree', target=0.95, paired=True)
        self.server.sql("ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf()")

    def part_build(self):
        """CREATE INDEX without core's parallel workers, and VACUUM after deleting a fifth."""
        for kind in ('ints', 'text'):
            self.server.sql('DROP TABLE IF EXISTS b; CREATE TABLE b (%s)' % TYPES[kind])
            self.server.sql("COPY b FROM '%s' WITH (FORMAT csv); VACUUM ANALYZE b" % self.file(kind))

            def build(am):
                self.server.sql('DROP INDEX IF EXISTS b_a; CHECKPOINT')
                return self.server.timed('CREATE INDEX b_a ON b USING %s (a)' % am, 'SET max_parallel_maintenance_workers = 0')
            self.compare('build', 'CREATE INDEX on ' + kind, {'mtpower': lambda: build('mtpower_blink'), 'heap+btree': lambda: build('btree')},
                         rounds=PAIRS, peer='heap+btree', target=1.0, paired=True)

        def vacuum(am):
            self.table('v', am)
            self.server.sql("COPY v FROM '%s' WITH (FORMAT csv); DELETE FROM v WHERE d %% 5 = 0; CHECKPOINT" % self.file('ints'))
            return self.server.timed('VACUUM v')
        self.compare('build', 'VACUUM after deleting 20 %', {'mtpower': lambda: vacuum('mtpower'), 'heap+btree': lambda: vacuum('heap')},
                     rounds=PAIRS, peer='heap+btree', target=0.9, paired=True)

    def part_updates(self):
        """Index sizes after as many non-HOT updates as there are rows, autovacuum at its defaults."""
        results = {'mtpower': [], 'heap+btree': []}
        for side, am in (('mtpower', 'mtpower'), ('heap+btree', 'heap')):
            self.table('u', am, extra=', id serial PRIMARY KEY')
            self.server.sql("COPY u (a, b, c, d, t) FROM '%s' WITH (FORMAT csv); VACUUM ANALYZE u" % self.file('ints'))
            with open(os.path.join(self.args.dir, 'u.sql'), 'w') as f:
                f.write('\\set i random(1, %d)\n\\set a random(-2000000000, 2000000000)\nUPDATE u SET a = :a WHERE id = :i;\n' % ROWS)
            self.server.sql("ALTER SYSTEM SET synchronous_commit = off; SELECT pg_reload_conf()")
            self.server.run('pgbench', '-h', self.args.dir, '-p', self.server.port, '-U', 'postgres', '-n', '-M', 'prepared', '-c', '2', '-t', str(ROWS // 2), '-f', os.path.join(self.args.dir, 'u.sql'), 'postgres')
            results[side].append(float(self.server.sql("SELECT sum(pg_relation_size(indexrelid)) FROM pg_index WHERE indrelid = 'u'::regclass")) / 2 ** 20)
        self.server.sql("ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf()")
        self.report.show('updates', 'size of all indexes', results, unit='MB')

    def part_lineitem(self):
        """TPC-H lineitem at scale 1, six indexes (needs the PyPI package tpchgen-cli)."""
        path = os.path.join(self.args.dir, 'lineitem.csv')
        if not os.path.exists(path):
            venv = os.path.join(self.args.dir, 'venv')
            subprocess.run([sys.executable, '-m', 'venv', venv], check=True)
            subprocess.run([venv + '/bin/pip', '-q', 'install', 'tpchgen-cli'], check=True)
            subprocess.run([venv + '/bin/tpchgen-cli', '-s', '1', '--tables', 'lineitem', '--format=csv', '--output-dir', self.args.dir], check=True)
        ddl = ('l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric, l_extendedprice numeric, l_discount numeric,'
               ' l_tax numeric, l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate date, l_receiptdate date,'
               ' l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44)')
        cols = ['l_orderkey, l_linenumber', 'l_partkey, l_suppkey', 'l_suppkey', 'l_shipdate', 'l_receiptdate', 'l_commitdate']

        def load(am):
            self.server.sql('DROP TABLE IF EXISTS lineitem; CREATE TABLE lineitem (%s) USING %s;\n%sCHECKPOINT' % (ddl, AMS[am][0], indexes('lineitem', am, cols)))
            return self.server.timed("COPY lineitem FROM '%s' WITH (FORMAT csv, HEADER)" % path)
        self.compare('lineitem', 'scale 1, 6 indexes', {'mtpower': lambda: load('mtpower'), 'heap+btree live': lambda: load('heap')},
                     peer='heap+btree live', target=3.5)

    def part_subscription(self):
        """Initial sync of a subscription, from a heap table without indexes."""
        self.table('p', 'heap', n=0)
        self.server.sql("COPY p FROM '%s' WITH (FORMAT csv)" % self.file('ints'))
        self.server.sql("DROP PUBLICATION IF EXISTS pub; CREATE PUBLICATION pub FOR TABLE p")
        other = Server(self.args, 'subscriber')

        def sync(am):
            self.table('p', am, server=other)
            start = time.time()
            other.psql("CREATE SUBSCRIPTION sub CONNECTION 'host=%s port=%s user=postgres dbname=postgres' PUBLICATION pub;" % (self.args.dir, self.server.port))
            while other.sql("SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'").strip() != '0':
                time.sleep(0.05)
            took = time.time() - start
            other.psql('DROP SUBSCRIPTION sub;')
            return took
        try:
            self.compare('subscription', 'initial sync, 4 indexes', {'mtpower': lambda: sync('mtpower'), 'heap+btree live': lambda: sync('heap')})
        finally:
            other.stop()


def main():
    parts = [name[5:] for name in Bench.__dict__ if name.startswith('part_')]
    parser = argparse.ArgumentParser()
    parser.add_argument('--bindir', required=True)
    parser.add_argument('--dir', required=True)
    parser.add_argument('parts', nargs='*', metavar='PART', help='of ' + ', '.join(parts))
    args = parser.parse_args()
    for part in args.parts:
        if part not in parts:
            parser.error('there is no part "%s"; parts are %s' % (part, ', '.join(parts)))
    bench = Bench(args)
    try:
        for part in args.parts or parts:
            getattr(bench, 'part_' + part)()
    finally:
        bench.server.stop()


main()
