"""Measures loads of an application's events: at once, in feeds, and in small statements."""
import datetime, hashlib, itertools, os, random
from data import AMS, indexes
from harness import PAIRS, ROUNDS, ROWS, part
from loads import LIVE, both
from server import Failed

EVENTS = ('id bigint PRIMARY KEY, at timestamp, device int, kind text, session text, amount int, '
          'country int, url text')
EVENTS_INDEXES = ['at', 'device, at', 'kind', 'session', 'country', 'url']
# Heap's index by mtpower's, at least: unique text, few values, unique timestamps
SIZES = {
    'events_session_idx': 1 / 1.05,
    'events_kind_idx': 1 / 0.55,
    'events_country_idx': 1 / 0.55,
    'events_url_idx': 1 / 0.55,
    'events_at_idx': 1 / 0.8
}


def event_rows(first, rows):
    """Events 0.3 s apart, of 5,000 devices, 5 kinds, 300 countries (a tenth of them unknown) and
    20,000 URLs, the session of each another one."""
    r, begin = random.Random(7 + first), datetime.datetime(2026, 1, 1)
    for i in range(first, first + rows):
        yield (str(i), (begin + i * datetime.timedelta(seconds=0.3)).isoformat(' '),
               str(r.randrange(5000)), r.choice(('view', 'click', 'buy', 'search', 'error')),
               hashlib.md5(b'%d' % i).hexdigest(), str(r.randrange(100_000)),
               str(r.randrange(300)) if r.random() < 0.9 else '',
               'https://shop.example.com/catalogue/item/%d' % r.randrange(20_000))


def events_file(b, first, rows):
    path = b.path('events-%d-%d.csv' % (first, rows))
    if not os.path.exists(path):
        with open(path, 'w') as f:
            f.writelines(','.join(row) + '\n' for row in event_rows(first, rows))
    return path


def events_files(b):
    """As many events as half the rows of the other parts, then two feeds of a tenth of that."""
    first, feed = ROWS // 2, ROWS // 20
    return [events_file(b, 0, first)] + [events_file(b, first + i * feed, feed) for i in range(2)]


def fresh(b, am, server=None, db='postgres', name='events'):
    """The empty table with its indexes."""
    (server or b.server).sql(
        'DROP TABLE IF EXISTS {0}; CREATE TABLE {0} ({1}) USING {2};\n{3}CHECKPOINT'.format(
            name, EVENTS, AMS[am][0], indexes(name, am, EVENTS_INDEXES)), db)


def load(b, am, server=None, db='postgres'):
    """Seconds of the first load and of both feeds, behind VACUUM ANALYZE and a checkpoint, and
    megabytes of WAL of each feed."""
    server = server or b.server
    first, *feeds = events_files(b)
    fresh(b, am, server, db)
    took = [server.timed(b.copy(first, 'events'), db=db)]
    server.sql('VACUUM ANALYZE events; CHECKPOINT', db)
    logged = [server.wal()]
    for feed in feeds:
        took.append(server.timed(b.copy(feed, 'events'), db=db))
        logged.append(server.wal())
    return took[0], took[1] + took[2], [(y - x) / 2 ** 20 for x, y in zip(logged, logged[1:])]


def in_turn(run, peer=LIVE):
    """Calls run(am, side) for both sides, every other round in the reverse order."""
    for i in range(ROUNDS):
        for am, side in sorted((('mtpower', 'mtpower'), ('heap', peer)), reverse=i % 2 == 0):
            run(am, side)


def pick(figures, of):
    return {side: [of(r) for r in rounds] for side, rounds in figures.items()}


@part
def part_events(b):
    """Events of an application: a bigint primary key (a btree on both sides) and six indexes, most
    of few distinct values. The first load fills the empty table, and VACUUM ANALYZE and a
    checkpoint follow; then come two feeds of a tenth as many rows each, with their WAL."""
    took, sizes = ({'mtpower': [], LIVE: []} for _ in range(2))

    def run(am, side):
        took[side].append(load(b, am))
        sizes[side].append(b.sizes('events'))

    in_turn(run)
    b.show('first load', pick(took, lambda t: t[0]), targets={LIVE: 5})
    b.show('two feeds', pick(took, lambda t: t[1]), targets={LIVE: 4})
    for i, (name, most) in enumerate((('first feed, after a checkpoint', 0.9), ('second feed',
                                                                              0.6))):
        b.show('WAL of the ' + name,
               pick(took, lambda t: t[2][i]),
               unit='MB',
               targets={LIVE: 1 / most})
    b.show_sizes('after the feeds', sizes, targets=SIZES, least=1.0)


@part
def part_increments(b):
    """The events and a tenth more in 40 COPYs, from the empty table: time of all, and sizes of the
    indexes afterwards."""
    rows = ROWS * 11 // 800
    files = [events_file(b, i * rows, rows) for i in range(40)]
    took, sizes = ({'mtpower': [], LIVE: []} for _ in range(2))

    def run(am, side):
        fresh(b, am)
        took[side].append(b.server.timed(';\n'.join(b.copy(f, 'events') for f in files)))
        sizes[side].append(b.sizes('events'))

    in_turn(run)
    b.show('40 COPYs', took)
    b.show_sizes('after 40 COPYs', sizes, targets=SIZES, least=1.0)


def database(b, name, *locales):
    """A database in the first of these locales that can be had; false if none can."""
    b.server.sql('DROP DATABASE IF EXISTS ' + name)
    for locale in locales:
        try:
            b.server.sql('CREATE DATABASE %s TEMPLATE template0 %s' % (name, locale))
        except Failed:
            continue
        b.server.sql('CREATE EXTENSION mtpower', name)
        return True
    return False


@part
def part_icu(b):
    """The events' first load and feeds in a database whose default collation is ICU's en-US, and in
    one with en_US.utf8 of the C library, if the machine has it."""
    for name, db, locales in (('ICU en-US', 'events_icu', [
            "LOCALE_PROVIDER icu ICU_LOCALE 'en-US'"
    ]), ('libc en_US.utf8', 'events_libc', ["LOCALE 'en_US.utf8'", "LOCALE 'en_US.UTF-8'"])):
        if not database(b, db, *locales):
            b.note('skipped: there is no locale %s' % name)
            continue
        took = {'mtpower': [], LIVE: []}
        in_turn(lambda am, side: took[side].append(load(b, am, db=db)))
        b.show(name + ', first load', pick(took, lambda t: t[0]), targets={LIVE: 4})
        b.show(name + ', two feeds', pick(took, lambda t: t[1]), targets={LIVE: 3})
        b.server.sql('DROP DATABASE ' + db)


# Rows of a statement -> statements of a run, and what they must reach
SMALL = {100: (100, 0.97), 300: (100, 0.97), 1000: (30, 1.8), 3000: (10, 1.8)}


def statements(b, how, first, rows, n):
    """n statements, each with rows of its own."""
    for at in range(first, first + n * rows, rows):
        if how == 'COPY':
            yield b.copy(events_file(b, at, rows), 'events_%s')
        else:
            yield 'INSERT INTO events_%s VALUES ' + ',\n'.join(
                '(%s)' % ', '.join("'%s'" % x if x else 'NULL' for x in row)
                for row in event_rows(at, rows))


@part
def part_microbatches(b):
    """COPYs and multi-row INSERTs of 100 to 3,000 events, committed each (synchronous_commit off),
    other rows each time, into a table of 0.75 times as many as the other parts' that was loaded for
    the case; 10,000 or 30,000 rows a run, behind a checkpoint."""
    there = 3 * ROWS // 4
    for how in 'COPY', 'INSERT':
        for rows, (n, target) in SMALL.items():
            for am in AMS:
                fresh(b, am, name='events_' + am)
                b.server.sql('{}; VACUUM ANALYZE events_{}'.format(
                    b.copy(events_file(b, 0, there), 'events_' + am), am))
            runs = {am: itertools.count(there, n * rows) for am in AMS}

            def run(am):
                first = next(runs[am])
                b.server.sql('VACUUM events_%s; CHECKPOINT' % am)
                script = [s % am for s in statements(b, how, first, rows, n)]
                return b.server.timed(';\n'.join(script), 'SET synchronous_commit = off')

            b.compare('%s of %d rows' % (how, rows),
                      both(run),
                      rounds=PAIRS,
                      targets={LIVE: target})
            if how == 'COPY':
                for at in range(there, there + PAIRS * n * rows, rows):
                    os.remove(events_file(b, at, rows))
    b.server.sql('DROP TABLE events_mtpower, events_heap')
