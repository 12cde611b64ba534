"""One index page in memory (page/page_bench.c)."""
import glob, os, shutil
from harness import ROUNDS, part
from server import Failed, call


@part
def part_page(b):
    """Nanoseconds of processor time per item, on index pages in memory: a search that waits for the one before, a merge of sorted items into a page, a
    split into K pages; beside nbtree's layout, and beside the same layout without batches."""
    source, program = b.args.source, b.path('page_bench')
    compiler = os.environ.get('CC') or 'gcc'
    if shutil.which(compiler) is None:
        raise Failed('there is no ' + compiler)
    call([compiler, '-std=gnu11', '-O2', '-Wall', '-D_GNU_SOURCE', '-ffunction-sections', '-Wl,--gc-sections',
          '-I' + source + '/src', '-I' + source + '/test/unit', '-I' + call([b.args.pg_config, '--includedir-server']).strip(),
          source + '/bench/page/page_bench.c', *sorted(glob.glob(source + '/src/page/*.c')), '-lm', '-o', program])
    cases = {}
    for _ in range(ROUNDS):
        for line in call([program]).splitlines():
            case, side, ns = line.split('|')
            cases.setdefault(case, {}).setdefault(side, []).append(float(ns))
    for case, sides in cases.items():
        b.show(case, sides, unit='ns')
