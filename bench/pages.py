"""Programs that need no server: an index page in memory (page/page_bench.c), and page accesses replayed against replacement policies (replay/)."""
import glob, os, shutil
from harness import ROUNDS, part
from server import Failed, call


def compiled(b, name, *sources):
    source, program = b.args.source, b.path(name)
    compiler = os.environ.get('CC') or 'gcc'
    if shutil.which(compiler) is None:
        raise Failed('there is no ' + compiler)
    call([compiler, '-std=gnu11', '-O2', '-Wall', '-D_GNU_SOURCE', '-ffunction-sections', '-Wl,--gc-sections',
          '-I' + source + '/src', '-I' + source + '/test/unit', '-I' + call([b.args.pg_config, '--includedir-server']).strip(),
          *[file for pattern in sources for file in sorted(glob.glob(os.path.join(source, pattern)))], '-lm', '-o', program])
    return program


@part
def part_page(b):
    """Nanoseconds of processor time per item, on index pages in memory: a search that waits for the one before, a merge of sorted items into a page, a
    split into K pages; beside nbtree's layout, and beside the same layout without batches."""
    program = compiled(b, 'page_bench', 'bench/page/page_bench.c', 'src/page/*.c')
    cases = {}
    for _ in range(ROUNDS):
        for line in call([program]).splitlines():
            case, side, ns = line.split('|')
            cases.setdefault(case, {}).setdefault(side, []).append(float(ns))
    for case, sides in cases.items():
        b.show(case, sides, unit='ns')


@part
def part_replay(b):
    """Per cent of page accesses that miss, of traces that are made as kinds of work have them; the first tenth of a trace is not counted. Memory is the
    same for all, and a pair of table blocks needs twice an index page's. "held out": no setting was chosen by these."""
    traces = {}
    for line in call([compiled(b, 'replay', 'bench/replay/*.c', 'src/buffer/*.c')]).splitlines():
        trace, sort, policy, misses = line.split('|')
        traces.setdefault((trace, sort), {})[policy] = float(misses)
    for (trace, sort), misses in traces.items():
        peers = {policy: m for policy, m in misses.items() if policy != 'mtpower'}
        most = min(min(peers[p] for p in ('LRU', 'clock', 'ARC')) + 0.3, min(peers.values()) + 2.5)
        b.show('%s (%s)' % (trace, sort), {policy: [m] for policy, m in misses.items()}, unit='%', ratios=False, most=round(most, 2))
