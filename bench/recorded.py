"""Records page accesses of a server that is built for it (recorder/), and replays them."""
import array, os, shutil
import plot
from harness import ROWS, part
from library import build, install, place
from policies import compiled_policies, show_misses
from server import Server, call

# Rows of the large table; a transaction reads or writes a few pages.
POINTS = ROWS
TRANSACTIONS = max(ROWS // 20, 2000)


def add_recorder(tree):
    shutil.copy(os.path.join(tree, 'bench/recorder/record.c'), os.path.join(tree, 'src/buffer'))


def set_up(s):
    s.sql("""CREATE TABLE points (id int, filler text) USING mtpower;
        INSERT INTO points SELECT i, repeat('x', 84) FROM generate_series(1, {n}) i;
        CREATE INDEX points_id ON points USING mtpower_blink (id);
        CREATE TABLE orders (okey int, day int, total int, filler text) USING mtpower;
        INSERT INTO orders SELECT i, i / 200, i % 9973, repeat('o', 60)
            FROM generate_series(1, {o}) i;
        CREATE INDEX orders_day ON orders USING mtpower_blink (day);
        CREATE TABLE lines (okey int, part int, price int, filler text) USING mtpower;
        INSERT INTO lines SELECT i / 4, hashint4(i) & 65535, i % 9973, repeat('l', 60)
            FROM generate_series(1, {n}) i;
        CREATE INDEX lines_okey ON lines USING mtpower_blink (okey);
        CREATE TABLE parts (part int, name text) USING mtpower;
        INSERT INTO parts SELECT i, repeat('p', 100) FROM generate_series(0, 65535) i;
        CREATE INDEX parts_part ON parts USING mtpower_blink (part);
        CREATE TABLE facts (a int, b int, filler text) USING mtpower;
        INSERT INTO facts SELECT hashint4(i), i, repeat('f', 84) FROM generate_series(1, {n}) i;
        SELECT mtpower.set_directory('facts', 'a');
        CREATE TABLE news (id serial, filler text) USING mtpower;
        CREATE INDEX news_id ON news USING mtpower_blink (id);
        VACUUM ANALYZE""".format(n=POINTS, o=POINTS // 4))


def script(b, name, text):
    path = b.path(name + '.sql')
    with open(path, 'w') as f:
        f.write(text)
    return path


def points(b, s, skew, seed, transactions=TRANSACTIONS):
    """As pgbench -S, rows by Zipf's law, popular ones apart"""
    s.pgbench(
        '-c', '2', '-t', str(transactions), '-f',
        script(
            b, 'points',
            '\\set r random_zipfian(1, {n}, {k})\n\\set id 1 + permute(:r - 1, {n}, {s})\n'
            'SELECT filler FROM points WHERE id = :id;\n'.format(n=POINTS, k=skew, s=seed)),
        'postgres')


def ingest(b, s, skew, each):
    """Rows come, and the last ones are read most; VACUUM now and then"""
    path = script(
        b, 'ingest',
        'INSERT INTO news (filler) SELECT repeat(\'n\', 84) FROM generate_series(1, %d);\n' % each +
        ''.join(
            '\\set b%d random_zipfian(1, %d, %s)\nSELECT filler FROM news WHERE id = (SELECT '
            'last_value FROM news_id_seq) - :b%d;\n'
            % (i, POINTS, skew, i) for i in range(3)))
    s.sql("INSERT INTO news (filler) SELECT repeat('n', 84) FROM generate_series(1, %d)" %
          (POINTS // 2))
    for _ in range(5):
        s.sql('VACUUM news')
        s.pgbench('-c', '2', '-t', str(TRANSACTIONS // 15), '-f', path, 'postgres')


def shifting(b, s, skew, times):
    for seed in range(times):
        points(b, s, skew, 100 + seed, TRANSACTIONS // times)


def ranges(b, s, days, skew):
    """As a warehouse: some days' orders, their lines, what they are of; the last days most"""
    s.pgbench(
        '-c', '2', '-t', str(max(TRANSACTIONS // 1000, 20)), '-f',
        script(b, 'ranges', (
            '\\set d random_zipfian(1, {o}, {k})\nSET enable_hashjoin = off; '
            'SET enable_mergejoin = off; SET enable_bitmapscan = off; SET enable_memoize = off; '
            'SET max_parallel_workers_per_gather = 0;\n'
            'SELECT count(*), sum(l.price), count(p.name) FROM orders o JOIN lines l USING (okey) '
            'JOIN parts p USING (part) '
            'WHERE o.day BETWEEN {o} - :d AND {o} - :d + {w};\n').format(o=POINTS // 800,
                                                                         k=skew,
                                                                         w=days)), 'postgres')


def there_and_back(b, s, skew, scans):
    """Index-only work, directory scans, index-only work"""
    def index_only(seed):
        s.pgbench(
            '-c', '2', '-t', str(TRANSACTIONS), '-f',
            script(
                b, 'only',
                '\\set r random_zipfian(1, {n}, {k})\n\\set id 1 + permute(:r - 1, {n}, {s})\n'
                'SELECT id FROM points WHERE id = :id;\n'.format(n=POINTS, k=skew, s=seed)),
            'postgres')

    index_only(7)
    s.pgbench(
        '-c', '1', '-t', str(scans), '-f',
        script(
            b, 'scans',
            '\\set a random(-2000000000, 2000000000)\nSET max_parallel_workers_per_gather = 0;\n'
            'SELECT count(b) FROM facts WHERE a BETWEEN :a AND :a + 4000000;\n'), 'postgres')
    index_only(7)


WORKS = {
    'pgbench (Zipf)': (points, (1.1, 1), (1.01, 2)),
    'ranges as TPC-H': (ranges, (3, 1.1), (10, 1.01)),
    'ingest and points': (ingest, (1.05, 3), (1.2, 10)),
    'the hot set moves': (shifting, (1.1, 5), (1.2, 12)),
    'index-only, directories, index-only': (there_and_back, (1.01, 40), (1.1, 80)),
}


def small_directories(s):
    """Whether most directories have small frames: then replay takes all of them for small (kind 3,
    not 2), as the recorder does not know the size of those that are missed."""
    return s.sql("""SELECT frames > 0 AND bytes < 3 * 1024 * frames FROM mtpower.stat_buffer
                    WHERE kind = 'directory'""").strip() == 't'


def record(s, path, work):
    """Runs the work; its accesses, in the order of time, go to a file of 8 bytes each."""
    where = os.path.join(s.data, 'record')
    os.mkdir(where)
    work()
    s.sql('SELECT pg_sleep(0.5)')
    records = []
    for name in os.listdir(where):
        numbers = array.array('Q')
        with open(os.path.join(where, name), 'rb') as f:
            numbers.frombytes(f.read())
        records.extend(zip(numbers[0::2], numbers[1::2]))
    shutil.rmtree(where)
    records.sort()
    small = small_directories(s)
    with open(path, 'wb') as f:
        array.array('Q', (page | 3 << 62 if small and page >> 62 == 2 else page
                          for _, page in records)).tofile(f)
    return len(records)


@part
def part_recorded(b):
    """The same for accesses that were recorded from a server at work: which pages of indexes and
    tables, and which directories, were looked for in the buffer, in the order of time. Memory for a
    quarter of the pages of a trace. Each work is done twice, with other figures: the second trace
    is held out."""
    library, kept, files = place(b.args.bindir), b.path('mtpower.so'), []
    shutil.copy(library, kept)
    install(build(b, 'recording', add_recorder, 'COPT=-DMTP_RECORD'), library)
    try:
        s = Server(
            b.args, 'recorded', {
                'shared_buffers': '1GB',
                'autovacuum': 'off',
                'synchronous_commit': 'off',
                'mtpower.buffer_size': '256MB'
            })
        set_up(s)
        for name, (work, *variants) in WORKS.items():
            for figures, sort in zip(variants, ('tuning', 'held out')):
                files.append(b.path('%s, %s' % (name, sort)))
                n = record(s, files[-1], lambda: work(b, s, *figures))
                b.note('%s, %s: %d accesses' % (name, sort, n))
        s.remove()
    finally:
        install(kept, library)
    lines = call([compiled_policies(b), *files]).splitlines()
    traces = {}
    for _, trace, sort, policy, misses in (line.split('|') for line in lines):
        traces.setdefault((sort, trace.rsplit(',', 1)[0]), {})[policy] = float(misses)
    show_misses(b, traces, 'recorded.svg', 'Recorded page accesses that miss')
