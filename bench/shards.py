"""Measures loads of tables whose partitions are on other servers, by way of postgres_fdw."""
import itertools
from data import AMS, indexes
from events import EVENTS, EVENTS_INDEXES, events_file
from harness import ROUNDS, ROWS, part
from loads import LIVE
from server import Server, together

SHARDS = 3
# 8 columns and 65,535 parameters: no batch has more than 8,191 rows.
BATCH_SIZES = (100, 1000, 3000, 8000)
SETTINGS = {'shared_buffers': '1GB', 'max_wal_size': '8GB'}


def make_shards(b):
    """The coordinator and its shards: on each shard a table of each side, on the coordinator a
    table partitioned by hash for each side and each batch size."""
    shards = [Server(b.args, 'shard%d' % i, SETTINGS) for i in range(SHARDS)]
    coordinator = Server(b.args, 'coordinator', SETTINGS)
    coordinator.sql('CREATE EXTENSION postgres_fdw')
    columns = EVENTS.replace(' PRIMARY KEY', '')
    coordinator.sql('CREATE TABLE stage (%s)' % columns)
    for i, shard in enumerate(shards):
        coordinator.sql(
            "CREATE SERVER shard{0} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '{1}', port "
            "'{2}', dbname 'postgres'); CREATE USER MAPPING FOR postgres SERVER shard{0} "
            "OPTIONS (user 'postgres')"
            .format(i, shard.dir, shard.port))
        for am in AMS:
            shard.sql('CREATE TABLE events_%s (%s) USING %s;\n%s' %
                      (am, EVENTS, AMS[am][0], indexes('events_' + am, am, EVENTS_INDEXES)))
    for am, size in itertools.product(AMS, BATCH_SIZES):
        coordinator.sql('CREATE TABLE %s_%d (%s) PARTITION BY HASH (id)' % (am, size, columns))
        for i in range(SHARDS):
            coordinator.sql(
                "CREATE FOREIGN TABLE {0}_{1}_{2} PARTITION OF {0}_{1} FOR VALUES WITH (MODULUS "
                "{3}, REMAINDER {2}) SERVER shard{2} OPTIONS (table_name 'events_{0}', batch_size "
                "'{1}')".format(am, size, i, SHARDS))
    return coordinator, shards


@part
def part_shards(b):
    """Events into a table with three partitions on three other servers of the same machine, each
    with a primary key and six indexes: seconds of a feed of 100,000 into 500,000 and more, other
    rows each time, by the batch_size of postgres_fdw. INSERT … SELECT from a table of the
    coordinator; COPY through the coordinator, which before PostgreSQL 16 is a statement for each
    row (there of a tenth of the rows); COPYs of each shard's share to the shards, side by side."""
    feed, there = ROWS // 20, ROWS // 4
    coordinator, shards = make_shards(b)
    first = {am: itertools.count(there, feed) for am in AMS}
    shares = [b.path('share%d.csv' % i) for i in range(SHARDS)]

    def stage(path):
        """Puts a file's rows into `stage`, and each shard's share of them into a file."""
        coordinator.sql('TRUNCATE stage; ' + b.copy(path, 'stage'))
        for i, share in enumerate(shares):
            coordinator.sql(
                "COPY (SELECT * FROM stage WHERE satisfies_hash_partition('mtpower_100'::regclass, "
                "%d, %d, id)) TO '%s' WITH (FORMAT csv)" % (SHARDS, i, share))

    def to_each(am, path):
        return max(
            together(*(lambda s=s, f=f: s.timed(b.copy(f, 'events_' + am))
                       for s, f in zip(shards, shares))))

    def run(am, load, rows):
        path = events_file(b, next(first[am]), rows)
        stage(path)
        for shard in shards:
            shard.sql('VACUUM events_%s; CHECKPOINT' % am)
        return load(am, path)

    insert = lambda size: lambda am, path: coordinator.timed('INSERT INTO %s_%d SELECT * FROM stage'
                                                             % (am, size))
    copy = lambda size: lambda am, path: coordinator.timed(b.copy(path, '%s_%d' % (am, size)))
    ways = {'INSERT SELECT, batch_size %d' % size: (insert(size), feed) for size in BATCH_SIZES}
    if coordinator.number('SHOW server_version_num') >= 160000:
        for size in BATCH_SIZES[0], BATCH_SIZES[-1]:
            ways['COPY, batch_size %d' % size] = copy(size), feed
    else:
        ways['COPY, row by row'] = copy(BATCH_SIZES[0]), feed // 10
    ways['COPY to each shard'] = to_each, feed
    took = {way: {am: [] for am in AMS} for way in ways}

    try:
        stage(events_file(b, 0, there))
        for am in AMS:
            to_each(am, None)
        for i in range(ROUNDS):
            for way, how in ways.items():
                for am in sorted(AMS, reverse=i % 2 == 0):
                    took[way][am].append(run(am, *how))
    finally:
        for server in [coordinator] + shards:
            server.remove()
    for way in ways:
        b.show(way, {'mtpower': took[way]['mtpower'], LIVE: took[way]['heap']})
