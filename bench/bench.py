#!/usr/bin/env python3
"""Measures mtpower beside its peers; bench/run prepares what this needs.  README.md tells what each part measures."""
import argparse, sys
import loads, steady, hashes, instructions, pages, frames, directories, recorded, before, restarts          # each registers its parts
from harness import PARTS, Bench
from server import Failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--bindir', required=True, help='PostgreSQL\'s programs, mtpower installed')
    parser.add_argument('--source', required=True, help='the source tree')
    parser.add_argument('--pg-config', required=True)
    parser.add_argument('--before', help='PostgreSQL\'s programs, an older mtpower installed; without it the part that compares with it is skipped')
    parser.add_argument('--dir', required=True, help='where servers, rows and results.csv lie')
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
                bench.report.fail(part, e)
    finally:
        bench.close()
    return 0 if bench.report.summary() else 1


sys.exit(main())
