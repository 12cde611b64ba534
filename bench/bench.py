#!/usr/bin/env python3
"""Runs parts of the benchmark; bench/run prepares what this needs.  README.md lists the parts."""
import argparse, sys
# Each registers its parts.
import loads, partitions, steady, hashes, instructions, pages, frames, directories, policies
import recorded, before, restarts
from harness import PARTS, Bench
from server import Failed


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
    finally:
        bench.close()
    return 0 if bench.report.summary() else 1


sys.exit(main())
