"""Measures what an engine that does nothing would gain."""
import argparse, os, shutil
from harness import ROUNDS, part
from events import load
from library import build, install, mutate, place
from loads import LIVE
from server import Failed, Server

NOTHING = 'engine that does nothing'


def programs(b):
    """A copy of PostgreSQL's programs whose library drops batches; returns their directory."""
    root = b.path('root')  # bench/run has made it
    copy = b.path('ceiling-root')
    shutil.copytree(root, copy, symlinks=True)
    bindir = os.path.join(copy, os.path.relpath(b.args.bindir, root))
    install(build(b, 'ceiling', lambda tree: mutate(tree, 'ceiling/nothing.mutation')),
            place(bindir))
    return bindir


@part
def part_ceiling(b):
    """The events' first load and two feeds, as in part events, beside a server whose engine queues
    entries and drops them (bench/ceiling): no engine could be faster. The ceiling is heap + btree's
    time over that time; mtpower's ratio over the ceiling is that time over mtpower's."""
    dropping = Server(argparse.Namespace(**dict(vars(b.args), bindir=programs(b))), 'dropping')
    sides = {
        'mtpower': lambda: load(b, 'mtpower'),
        LIVE: lambda: load(b, 'heap'),
        NOTHING: lambda: load(b, 'mtpower', dropping)
    }
    took = {side: [] for side in sides}
    for i in range(ROUNDS):
        for side in sorted(sides, key=list(sides).index, reverse=i % 2 == 1):
            took[side].append(sides[side]())
    if sum(b.sizes('events', dropping).values()) > 2:
        raise Failed('the engine that should do nothing has filled indexes')
    for i, name in enumerate(('first load', 'two feeds')):
        times = {side: [t[i] for t in rounds] for side, rounds in took.items()}
        b.show(name, times, targets={NOTHING: 0.85})
        b.show(name,
               {'ceiling': [heap / least for heap, least in zip(times[LIVE], times[NOTHING])]},
               own='ceiling',
               unit='×')
    dropping.sql('DROP TABLE events')
    dropping.remove()
