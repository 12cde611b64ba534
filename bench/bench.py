#!/usr/bin/env python3
"""Runs parts of the benchmark; bench/run prepares what this needs.  README.md lists the parts."""
import argparse, sys
# Each registers its parts.
import loads, events, tables, btrees, partitions, large, steady, builds, hashes, instructions
import pages, frames, equal, directories, policies, recorded, before, restarts
import latencies, standbys, ceiling, zones, shards
from harness import PARTS, Bench
from server import Failed
import plot

# The bars of README.md: what is loaded, and its key
LOADS = {
    'events of an application, a primary key and six indexes':
        'events.first_load.heap_btree_live.ratio',
    'flights of 2013, six indexes': 'flights.6_indexes.heap_btree_live.ratio',
    'TPC-H lineitem, six indexes': 'lineitem.6_indexes.heap_btree_live.ratio',
    'lineitem into 84 partitions by month, six indexes':
        'partitions.lineitem_by_month_scattered_copy.heap_btree_live.ratio',
    'flights into 365 partitions by day, six indexes':
        'partitions.flights_by_day_clustered_copy.heap_btree_live.ratio',
    'random integers, four indexes': 'copy.4_indexes.heap_btree_live.ratio',
    'random integers, four hash indexes': 'hash.4_indexes.heap_hash_live.ratio'
}


def draw_loads(bench):
    """Draws what README.md shows, if RESULTS.md has all of it."""
    figures = bench.report.figures()
    if all(key in figures for key in LOADS.values()):
        plot.bars(bench.path('loads.svg'),
                  'COPY with all indexes live: times as fast as heap with core\'s indexes',
                  {label: figures[key] for label, key in LOADS.items()})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bindir', required=True, help='PostgreSQL\'s programs, with mtpower')
    parser.add_argument('--source', required=True, help='the source tree')
    parser.add_argument('--pg-config', required=True)
    parser.add_argument('--before', help='PostgreSQL\'s programs, with an older mtpower; '
                        'without it the part that compares with it is skipped')
    parser.add_argument('--dir', required=True, help='where servers, rows and RESULTS.md lie')
    parser.add_argument('parts', nargs='*', metavar='PART', help='of ' + ', '.join(PARTS))
    args = parser.parse_args()
    for part in args.parts:
        if part not in PARTS:
            parser.error('there is no part "%s"; parts are %s' % (part, ', '.join(PARTS)))
    bench = Bench(args)
    try:
        for part in args.parts or PARTS:
            try:
                bench.run(part)
            except Failed as e:
                bench.report.fail(e)
        draw_loads(bench)
    finally:
        bench.close()
    return 0 if bench.report.summary() else 1


sys.exit(main())
