"""Runs the cases of a part.

A case has sides that run in turn, round after round, so that what slows the machine down slows all
of them.  Every other round runs them in the reverse order.
"""
import os
from conditions import conditions
from data import METHODS, TYPES, columns, indexes, make_rows
from report import Report
from server import Server

ROWS = int(os.environ.get('BENCH_ROWS') or 2_000_000)
ROUNDS = int(os.environ.get('BENCH_ROUNDS') or 3)
# Targets between 0.9 and 1.1 ask for more pairs than the others.
PAIRS = 1 if ROUNDS == 1 else max(11, ROUNDS)

PARTS = {}


def part(function):
    PARTS[function.__name__[5:]] = function
    return function


class Bench:
    def __init__(self, args):
        self.args = args
        self.report = Report(os.path.join(args.dir, 'RESULTS.md'), PARTS,
                             conditions(args, ROWS, ROUNDS))
        self.main, self.files = None, {}

    @property
    def server(self):
        """The server of most parts, started when one asks for it."""
        if self.main is None:
            self.main = Server(self.args, 'data')
        return self.main

    def run(self, name):
        self.notes = []
        self.report.begin(name, PARTS[name].__doc__)
        PARTS[name](self)
        self.report.end(self.notes)

    def note(self, text):
        """A line below the part's table."""
        self.notes.append(text)

    def close(self):
        if self.main is not None:
            self.main.stop()

    def path(self, *name):
        return os.path.join(self.args.dir, *name)

    def file(self, kind='ints', rows=ROWS, seed=7):
        key = (kind, rows, seed)
        if key not in self.files:
            self.files[key] = self.path('%s-%d-%d.csv' % key)
            make_rows(self.files[key], rows, {'icu': 'text'}.get(kind, kind), seed)
        return self.files[key]

    def table(self, name, am, kind='ints', n=4, extra='', server=None, db='postgres'):
        (server or self.server).sql(
            'DROP TABLE IF EXISTS {0};\nCREATE TABLE {0} ({1}{2}) USING {3};\n{4}CHECKPOINT'.format(
                name, TYPES.get(kind, TYPES['ints']), extra, METHODS[am][0],
                indexes(name, am, columns(kind, n, am))), db)

    def copy(self, path, table='t', cols=''):
        return "COPY %s%s FROM '%s' WITH (FORMAT csv)" % (table, cols, path)

    def load(self, am, kind='ints', n=4, path=None, extra='', cols='', server=None):
        """Seconds of one COPY into a fresh table with n live indexes."""
        server = server or self.server
        path = path or self.file(kind)
        self.table('t', am, kind, n, extra, server)
        return server.timed(self.copy(path, 't', cols))

    def sizes(self, table, server=None, db='postgres'):
        """Index -> megabytes."""
        out = (server or self.server).sql(
            "SELECT indexrelid::regclass, pg_relation_size(indexrelid) FROM pg_index WHERE "
            "indrelid = '%s'::regclass ORDER BY 1"
            % table, db)
        return {
            name: int(size) / 2 ** 20
            for name, size in (line.split('|') for line in out.split())
        }

    def show_sizes(self, case, sizes, each=True, targets={}, least=None):
        """sizes: side -> for each round, index -> megabytes; both sides have the same indexes.
        targets: index -> what the ratio of its size must reach; least: that of the others."""
        names = sorted(next(iter(sizes.values()))[0]) if each else []
        for name in names:
            self.show('%s, size of %s' % (case, name),
                      {side: [s[name] for s in rounds]
                       for side, rounds in sizes.items()},
                      unit='MB',
                      targets=dict.fromkeys(sizes, targets.get(name, least)))
        self.show(case + ', size of all',
                  {side: [sum(s.values()) for s in rounds]
                   for side, rounds in sizes.items()},
                  unit='MB')

    def compare(self, case, sides, rounds=ROUNDS, **show):
        results = {name: [] for name in sides}
        for i in range(rounds):
            for name in sorted(sides, key=list(sides).index, reverse=i % 2 == 1):
                results[name].append(sides[name]())
        self.show(case, results, **show)
        return results

    def show(self, case, results, **show):
        self.report.show(case, results, **show)
