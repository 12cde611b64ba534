"""Measures loads into tables of real life."""
import datetime, hashlib, lzma, os, random, shutil, sys
from data import AMS, indexes
from harness import ROUNDS, ROWS, part
from loads import LIVE, both
from server import call

CREATED = 'heap, then CREATE INDEX'

LINEITEM = (
    'l_orderkey bigint, l_partkey int, l_suppkey int, l_linenumber int, l_quantity numeric, '
    'l_extendedprice numeric, l_discount numeric,'
    ' l_tax numeric, l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate '
    'date, l_receiptdate date,'
    ' l_shipinstruct char(25), l_shipmode char(10), l_comment varchar(44)')
LINEITEM_INDEXES = [
    'l_orderkey, l_linenumber', 'l_partkey, l_suppkey', 'l_suppkey', 'l_shipdate', 'l_receiptdate',
    'l_commitdate'
]
EVENTS = ('id bigint PRIMARY KEY, at timestamp, device int, kind text, session text, amount int, '
          'country int, url text')
EVENTS_INDEXES = ['at', 'device, at', 'kind', 'session', 'country', 'url']


def flights_file(b):
    """The flights of 2013, unpacked."""
    path = b.path('flights.csv')
    if not os.path.exists(path):
        with lzma.open(flights_source(b, 'flights.csv.xz')) as packed, open(path, 'wb') as f:
            shutil.copyfileobj(packed, f)
    return path


def flights_source(b, name):
    return os.path.join(b.args.source, 'data', 'nycflights13', name)


def flights_sql(b, name, **variables):
    """A script of data/nycflights13, with its psql variables."""
    with open(flights_source(b, name)) as f:
        return ''.join('\\set %s %s\n' % v for v in variables.items()) + f.read()


def lineitem_file(b):
    """The rows, made by the PyPI package tpchgen-cli: at scale 1 for 2,000,000 rows of the other
    parts."""
    path = b.path('lineitem.csv')
    if not os.path.exists(path):
        venv = b.path('venv')
        call([sys.executable, '-m', 'venv', venv])
        call([venv + '/bin/pip', '-q', 'install', 'tpchgen-cli==4.0.0'])
        call([
            venv + '/bin/tpchgen-cli', 'csv', '-s',
            '%g' % (ROWS / 2_000_000), '--tables', 'lineitem', '--output-dir', b.args.dir
        ])
    return path


def events_files(b):
    """As many events as half the rows of the other parts, then two feeds of a tenth of that: 0.3 s
    apart, of 5,000 devices, 5 kinds, 300 countries (a tenth of them unknown) and 20,000 URLs, the
    session of each another one."""
    first, feed = ROWS // 2, ROWS // 20
    r, begin = random.Random(7), datetime.datetime(2026, 1, 1)
    paths, last = [], 0
    for name, rows in ('events', first), ('feed-1', feed), ('feed-2', feed):
        paths.append(b.path(name + '.csv'))
        with open(paths[-1], 'w') as f:
            for i in range(last, last + rows):
                f.write('%d,%s,%d,%s,%s,%d,%s,https://shop.example.com/catalogue/item/%d\n' %
                        (i, (begin + i * datetime.timedelta(seconds=0.3)).isoformat(' '),
                         r.randrange(5000), r.choice(('view', 'click', 'buy', 'search', 'error')),
                         hashlib.md5(b'%d' % i).hexdigest(), r.randrange(100_000),
                         r.randrange(300) if r.random() < 0.9 else '', r.randrange(20_000)))
        last += rows
    return paths


@part
def part_flights(b):
    """The 336,776 flights of 2013, six indexes: live, and made after the COPY; and their sizes. All
    of these columns have few distinct values."""
    copy = "COPY flights FROM '%s' (FORMAT csv, HEADER)" % flights_file(b)
    sizes = {'mtpower': [], LIVE: []}

    def fresh(am):
        b.server.sql('DROP TABLE IF EXISTS airlines, airports, planes, weather, flights')
        b.server.sql(flights_sql(b, 'tables.sql', am=AMS[am][0]))

    def live(am):
        fresh(am)
        b.server.sql(flights_sql(b, 'indexes.sql', index_am=AMS[am][1]) + 'CHECKPOINT')
        took = b.server.timed(copy)
        sizes['mtpower' if am == 'mtpower' else LIVE].append(b.sizes('flights'))
        return took

    def created():
        fresh('heap')
        return b.server.timed(
            copy + ';\n' + flights_sql(b, 'indexes.sql', index_am='btree').rstrip(';\n'))

    b.compare('6 indexes', dict(both(live), **{CREATED: created}))
    b.show_sizes('6 indexes', sizes)


@part
def part_events(b):
    """Events of an application: a bigint primary key (a btree on both sides) and six indexes, most
    of few distinct values. The first load fills the empty table, and VACUUM ANALYZE and a
    checkpoint follow; then come two feeds of a tenth as many rows each, with their WAL."""
    first, *feeds = events_files(b)
    took, wal, sizes = ({'mtpower': [], LIVE: []} for _ in range(3))

    def run(am, side):
        b.server.sql('DROP TABLE IF EXISTS events; CREATE TABLE events (%s) USING %s;\n%sCHECKPOINT'
                     % (EVENTS, AMS[am][0], indexes('events', am, EVENTS_INDEXES)))
        times = [b.server.timed(b.copy(first, 'events'))]
        b.server.sql('VACUUM ANALYZE events; CHECKPOINT')
        logged = [b.server.wal()]
        for feed in feeds:
            times.append(b.server.timed(b.copy(feed, 'events')))
            logged.append(b.server.wal())
        took[side].append(times)
        wal[side].append([(y - x) / 2 ** 20 for x, y in zip(logged, logged[1:])])
        sizes[side].append(b.sizes('events'))

    for i in range(ROUNDS):
        for am, side in sorted((('mtpower', 'mtpower'), ('heap', LIVE)), reverse=i % 2 == 0):
            run(am, side)
    pick = lambda figures, of: {side: [of(r) for r in rounds] for side, rounds in figures.items()}
    b.show('first load', pick(took, lambda t: t[0]))
    b.show('two feeds', pick(took, lambda t: t[1] + t[2]))
    for i, name in enumerate(('first feed, after a checkpoint', 'second feed')):
        b.show('WAL of the ' + name, pick(wal, lambda w: w[i]), unit='MB')
    b.show_sizes('after the feeds', sizes)


@part
def part_lineitem(b):
    """TPC-H lineitem at scale 1, six indexes."""
    path = lineitem_file(b)

    def load(am):
        b.server.sql(
            'DROP TABLE IF EXISTS lineitem; CREATE TABLE lineitem (%s) USING %s;\n%sCHECKPOINT' %
            (LINEITEM, AMS[am][0], indexes('lineitem', am, LINEITEM_INDEXES)))
        return b.server.timed("COPY lineitem FROM '%s' WITH (FORMAT csv, HEADER)" % path)

    b.compare('6 indexes', both(load), targets={LIVE: 3.5})
