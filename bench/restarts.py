"""Measures how fast the buffer's hits come back after a restart."""
import os, signal, time
from data import indexes
from harness import ROUNDS, ROWS, part
from server import Failed, Server
from steady import NESTED, PLAIN

# About a third of the pages that the probes may read have room.
SIZES = {
    'mtpower.buffer_size': '%dMB' % max(ROWS * 32 // 1_000_000, 4),
    'shared_buffers': '256MB',
    'autovacuum': 'off',
    'checkpoint_timeout': '1h'
}
# Probes. Each reads a leaf and a row's page, so two chunks are a few more than 10,000 accesses.
CHUNK = 2500


def start(server):
    server.run('pg_ctl', '-D', server.data, '-l', server.data + '.log', '-w', 'start')


def forget(server):
    """The operating system has none of the data in its memory: else reading pages costs nothing."""
    for root, _, names in os.walk(os.path.join(server.data, 'base')):
        for name in names:
            fd = os.open(os.path.join(root, name), os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def restart(server, kill):
    if kill:
        pid = server.pid()
        os.kill(pid, signal.SIGKILL)
        # Its children end when they see that; a new server waits for none.
        while any(True for p in filter(str.isdigit, os.listdir('/proc')) if of_server(p, server)):
            time.sleep(0.05)
        # It counts as running until init has seen its end.
        os.remove(os.path.join(server.data, 'postmaster.pid'))
        os.remove(os.path.join(server.dir, '.s.PGSQL.%s.lock' % server.port))
    else:
        server.stop('fast')
    forget(server)
    start(server)


def of_server(pid, server):
    try:
        return os.readlink('/proc/%s/cwd' % pid) == server.data
    except OSError:
        return False


def counts(server):
    return [
        int(x) for x in server.sql(
            "SELECT sum(hits), sum(misses + torn) FROM mtpower.stat_buffer WHERE kind IN ('index', "
            "'table')"
        ).split('|')
    ]


class Probes:
    """The same skewed probes in each round, a chunk at a time."""
    def __init__(self, server):
        self.server, self.seed = server, 0
        server.sql(
            '''CREATE FUNCTION probes(n int, seed float) RETURNS bigint LANGUAGE plpgsql AS $$
            DECLARE found bigint;
            BEGIN
                PERFORM setseed(seed);
                SELECT count(r.d) INTO found FROM (
                    SELECT k.a FROM (
                        SELECT (%d * random() ^ 4)::int AS n FROM generate_series(1, n)) g
                    JOIN keys k USING (n)) p
                JOIN f r ON r.a = p.a;
                RETURN found;
            END $$''' % (ROWS - 1))

    def run(self, chunks=1, n=CHUNK):
        """The share of pages that were found in frames."""
        h0, m0 = counts(self.server)
        for _ in range(chunks):
            self.seed = (self.seed + 1) % 997
            self.server.sql(
                '%s; %s; SET enable_indexonlyscan = off; SET enable_seqscan = off; '
                'SELECT probes(%d, %f)'
                % (PLAIN, NESTED, n, self.seed / 1000))
        h, m = counts(self.server)
        return (h - h0) / max(h - h0 + m - m0, 1)

    def settle(self):
        """The hit ratio that work comes to."""
        self.run(max(ROWS // CHUNK // 8, 20))
        return self.run(10)


def prepare(b, name, more):
    server = Server(b.args, name, dict(SIZES, **more))
    b.table('f', 'mtpower', n=0, server=server)
    server.sql(
        '%s; %s VACUUM ANALYZE f; CREATE TABLE keys AS SELECT (row_number() OVER (ORDER BY '
        'md5(a::text)))::int - 1 AS n, a FROM f; CREATE UNIQUE INDEX ON keys (n); '
        'VACUUM ANALYZE keys'
        % (b.copy(b.file(), 'f'), indexes('f', 'mtpower', ['a'])))
    return server, Probes(server)


def seconds(probes, ratio, most=300.0):
    """Until a fifth of a chunk has 90 % of that hit ratio."""
    begin = time.time()
    while True:
        if probes.run(1, CHUNK // 5) >= 0.9 * ratio:
            return time.time() - begin
        if time.time() - begin > most:
            raise Failed('90 %% of a hit ratio of %.2f are not back after %d s' % (ratio, most))


def with_list(b):
    """Clean restarts and kill -9, with the list and without, in turn."""
    sides = {}
    for side, more in (('mtpower', {
            'mtpower.hot_list_interval': '1'
    }), ('no list', {
            'mtpower.hot_list': 'off'
    })):
        sides[side] = prepare(b, 'restart_' + side.replace(' ', ''), more)
    before = {side: probes.settle() for side, (_, probes) in sides.items()}
    for kill in (False, True):
        results = {side: [] for side in sides}
        for i in range(ROUNDS):
            for side in sorted(sides, reverse=i % 2 == 1):
                server, probes = sides[side]
                before[side] = probes.settle()
                time.sleep(3)  # a list is written
                restart(server, kill)
                results[side].append(seconds(probes, before[side]))
        b.show('kill -9: until 90 % of the hits are back'
               if kill else 'clean restart: until 90 % of the hits are back',
               results,
               targets={'no list': 3})
    b.note('(hit ratio before: %s)' % ', '.join('%s %.2f' % x for x in before.items()))
    for server, _ in sides.values():
        server.remove()


@part
def part_restart(b):
    """How fast hits come back, skewed probes of an index, the buffer a third of the pages, the
    operating system's memory empty of them: after a clean restart and after kill -9, with the hot
    list and without; and with frames in a file on tmpfs, the hits in the first 10,000 accesses
    after a clean restart, of those before."""
    with_list(b)
    home = '/dev/shm/mtpower-bench-%d' % os.getpid()
    if not os.access('/dev/shm', os.W_OK):
        raise Failed('/dev/shm can not be written to')
    try:
        server, probes = prepare(b, 'restart_home', {'mtpower.pmem_path': "'%s'" % home})
        shares = []
        for _ in range(ROUNDS):
            before = probes.settle()
            restart(server, False)
            shares.append(100 * probes.run(2) / before)
        b.show(
            'frames in a file, clean restart: hits in the first 10,000 accesses, of those before',
            {'mtpower': shares},
            unit='%',
            least=95)
        server.remove()
    finally:
        if os.path.exists(home):
            os.remove(home)
