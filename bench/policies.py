"""Replays generated page accesses against replacement policies (replay/)."""
import plot
from harness import part
from pages import compiled
from server import call


def compiled_policies(b):
    return compiled(b, 'replay', 'bench/replay/*.c', 'src/buffer/policy.c')


def show_misses(b, traces, figure, title):
    """traces: (sort, name) -> policy -> per cent."""
    for (sort, trace), misses in traces.items():
        peers = {policy: m for policy, m in misses.items() if policy != 'mtpower'}
        most = min(min(peers[p] for p in ('LRU', 'clock', 'ARC')) + 0.3, min(peers.values()) + 2.5)
        b.show('%s (%s)' % (trace, sort), {
            policy: [m]
            for policy, m in misses.items()
        },
               unit='%',
               ratios=False,
               most=round(most, 2))
    plot.dots(
        b.path(figure), title, 'per cent', {
            column: {
                trace: misses
                for (sort, trace), misses in traces.items() if sort == column
            }
            for column in ('tuning', 'held out')
        })


@part
def part_replay(b):
    """Per cent of accesses that miss, in traces that are generated after kinds of work, by policy;
    the first tenth of a trace is not counted. All policies have the same memory, and a page takes
    its size of it. "held out": no setting was chosen by these. Then turnovers until memory is where
    work has shifted to: until 95 % of the hits of the best fixed split are there."""
    traces, shifts = {}, {}
    for line in call([compiled_policies(b)]).splitlines():
        what, *fields = line.split('|')
        if what == 'misses':
            trace, sort, policy, misses = fields
            traces.setdefault((sort, trace), {})[policy] = float(misses)
        else:
            *case, turnovers = fields
            shifts.setdefault('{0}: {2} to {3} ({1})'.format(*case), []).append(float(turnovers))
    show_misses(b, traces, 'replay.svg', 'Page accesses that miss')
    for case, turnovers in shifts.items():
        b.show(case, {'mtpower': turnovers}, unit='', most=3)
