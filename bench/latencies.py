"""Measures how long transactions take beside a running COPY."""
import glob, os, time
from events import events_file, fresh
from harness import PAIRS, ROWS, part
from loads import LIVE
from server import Failed, Server, together
from steady import pgbench_tables

COPIED, THERE = ROWS // 4, ROWS // 20  # events; the first ones are there before
READ = '\\set id random(0, %d)\nSELECT * FROM events WHERE id = :id;\n' % (THERE - 1)
INSERT = ("\\set n random(0, 19999)\nINSERT INTO events SELECT nextval('ids'), now(), :n % 5000, "
          "'view', md5(:n::text), :n, :n % 300, 'https://shop.example.com/catalogue/item/' || :n;"
          '\n')
WINDOWS = 'equal rows', 'equal time'
QUANTILES = {'median': 0.5, '99th': 0.99}


def prepare(b, server, am):
    """The side's database: pgbench's tables, and numbers for rows that are inserted."""
    db = 'l_' + am
    server.sql('CREATE DATABASE ' + db)
    server.sql('CREATE EXTENSION mtpower; CREATE SEQUENCE ids START 1000000000 CACHE 100', db)
    pgbench_tables(server, db, max(ROWS // 200_000, 1), am)
    return db


def read_log(prefix):
    """Begin and end of each transaction, in seconds."""
    found = []
    for path in glob.glob(prefix + '.*'):
        with open(path) as f:
            for line in f:
                _, _, took, _, second, us = line.split()[:6]
                end = int(second) + int(us) / 1e6
                found.append((end - int(took) / 1e6, end))
        os.remove(path)
    return found


def quantile(log, begin, seconds, q):
    """Of the milliseconds of transactions that ran in this time."""
    times = sorted(y - x for x, y in log if y >= begin and x <= begin + seconds)
    if not times:
        raise Failed('no transaction ran beside the COPY')
    return 1000 * times[min(int(q * len(times)), len(times) - 1)]


def copy_beside(b, server, db, seconds, work):
    """COPY while two sessions work, each with a thread of pgbench's: of one thread they would wait
    for each other. When it began, how long it took, the log of their work."""
    prefix = b.path('latencies')

    def load():
        time.sleep(0.5)
        begin = time.time()
        server.sql(b.copy(events_file(b, THERE, COPIED), 'events'), db)
        return begin, time.time() - begin

    _, (begin, took) = together(
        lambda: server.pgbench('-c', '2', '-j', '2', '-T', str(seconds), '-l', '--log-prefix',
                               prefix, *work, db), load)
    return begin, took, read_log(prefix)


@part
def part_latency(b):
    """What transactions of two sessions take beside a COPY of half as many events as in part
    events, into a table that has a tenth of them: pgbench's TPC-B and -S on other tables, SELECT
    and INSERT of a row of the loaded table by its key. Milliseconds, median and 99th percentile:
    over equal rows, that is while the side's COPY runs, and over equal time, that is as long as the
    slower side's COPY runs. synchronous_commit and autovacuum off."""
    server = Server(b.args, 'latency', {'autovacuum': 'off', 'synchronous_commit': 'off'})
    sides = {side: (am, prepare(b, server, am)) for side, am in (('mtpower', 'mtpower'),
                                                                 (LIVE, 'heap'))}

    def table(am, db):
        fresh(b, am, server, db)
        server.sql(
            b.copy(events_file(b, 0, THERE), 'events') + '; VACUUM ANALYZE; CHECKPOINT', db)

    table(*sides[LIVE])
    alone = server.timed(b.copy(events_file(b, THERE, COPIED), 'events'), db=sides[LIVE][1])
    seconds = 2 + int(2 * alone)  # with two sessions beside it, it takes longer
    for name, script in ('read', READ), ('insert', INSERT):
        with open(b.path(name + '.sql'), 'w') as f:
            f.write(script)
    for name, work in (('TPC-B', ['-b', 'tpcb-like']), ('pgbench -S', ['-b', 'select-only']),
                       ('SELECT by key', ['-f', b.path('read.sql')]),
                       ('INSERT', ['-f', b.path('insert.sql')])):
        runs = {side: [] for side in sides}
        for i in range(PAIRS):
            for side in sorted(sides, reverse=i % 2 == 0):
                table(*sides[side])
                runs[side].append(copy_beside(b, server, sides[side][1], seconds, work))
        b.show('COPY beside ' + name, {side: [r[1] for r in rs] for side, rs in runs.items()})
        slower = [max(r[1] for r in pair) for pair in zip(*runs.values())]
        if max(slower) > seconds - 0.5:
            b.note('(%s ended before a COPY: after %d s)' % (name, seconds))
        for window in WINDOWS:
            for what, q in QUANTILES.items():
                b.show('%s, %s, %s' % (name, window, what), {
                    side: [
                        quantile(log, begin, took if window == WINDOWS[0] else longest, q)
                        for (begin, took, log), longest in zip(rs, slower)
                    ]
                    for side, rs in runs.items()
                },
                       unit='ms',
                       targets={LIVE: 1.0})
    server.remove()
