"""Measures loads into tables of real life."""
import lzma, os, shutil, sys
from data import AMS, indexes
from harness import ROWS, part
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

    b.compare('6 indexes', dict(both(live), **{CREATED: created}), targets={LIVE: 4.5})
    b.show_sizes('6 indexes', sizes, least=1 / 0.7)


@part
def part_lineitem(b):
    """TPC-H lineitem at scale 1, six indexes."""
    path = lineitem_file(b)

    def load(am):
        b.server.sql(
            'DROP TABLE IF EXISTS lineitem; CREATE TABLE lineitem (%s) USING %s;\n%sCHECKPOINT' %
            (LINEITEM, AMS[am][0], indexes('lineitem', am, LINEITEM_INDEXES)))
        return b.server.timed("COPY lineitem FROM '%s' WITH (FORMAT csv, HEADER)" % path)

    b.compare('6 indexes', both(load), targets={LIVE: 6})
