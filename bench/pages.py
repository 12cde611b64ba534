"""Measures searches and changes of pages in memory, in plain programs."""
import glob, os, re, shutil
from harness import ROUNDS, ROWS, part
from server import Failed, call


def compiled(b, name, *sources):
    source, program = b.args.source, b.path(name)
    compiler = os.environ.get('CC') or 'gcc'
    if shutil.which(compiler) is None:
        raise Failed('there is no ' + compiler)
    call([
        compiler, '-std=gnu11', '-O2', '-Wall', '-D_GNU_SOURCE', '-ffunction-sections',
        '-Wl,--gc-sections', '-I' + source + '/src', '-I' + source + '/test/unit',
        '-I' + call([b.args.pg_config, '--includedir-server']).strip(),
        *[file for pattern in sources
          for file in sorted(glob.glob(os.path.join(source, pattern)))], '-lm', '-o', program
    ])
    return program


@part
def part_page(b):
    """Nanoseconds of processor time per item, on index pages in memory: a search that waits for the
    one before, a merge of sorted items into a page, a split into K pages; beside nbtree's layout,
    and beside the same layout without batches."""
    program = compiled(b, 'page_bench', 'bench/page/page_bench.c', 'src/page/*.c')
    cases = {}
    for _ in range(ROUNDS):
        for line in call([program]).splitlines():
            case, side, ns = line.split('|')
            cases.setdefault(case, {}).setdefault(side, []).append(float(ns))
    for case, sides in cases.items():
        b.show(case, sides, unit='ns')


def last_level_cache():
    """Bytes of the largest cache that the machine says it has; 32 MB if it says nothing."""
    sizes = [2 ** 25]
    for file in glob.glob('/sys/devices/system/cpu/cpu0/cache/index*/size'):
        with open(file) as f:
            size = f.read().strip()
        sizes.append(int(size.rstrip('KM')) * {'K': 2 ** 10, 'M': 2 ** 20}.get(size[-1], 1))
    return max(sizes) if len(sizes) > 1 else sizes[0]


def figures(program, *args):
    """What a program prints, as case -> side -> figures in round order."""
    cases = {}
    for _ in range(ROUNDS):
        for line in call([program, *map(str, args)]).splitlines():
            case, side, value = line.split('|')
            cases.setdefault(case, {}).setdefault(side, []).append(float(value))
    return cases


def simulated_misses(b, program, args, searches=20_000):
    """Loads per search that miss a last-level cache of 8 MB, as cachegrind counts them, which knows
    no prefetching; data are at least four times as large. What the program does besides is counted
    without searches and taken off."""
    log, counts = b.path('cachegrind.log'), {}
    for side in 'none', 'mtpower', 'nbtree':
        call([
            'valgrind', '--tool=cachegrind', '--cache-sim=yes', '--LL=8388608,16,64',
            '--cachegrind-out-file=/dev/null', '--log-file=' + log, program, *args,
            str(2 ** 25),
            str(searches), side
        ])
        with open(log) as f:
            counts[side] = int(
                re.search(r'LLd misses:.*\(\s*([0-9,]+) rd', f.read()).group(1).replace(',', ''))
    return {side: [(counts[side] - counts['none']) / searches] for side in ('mtpower', 'nbtree')}


@part
def part_inpage(b):
    """Nanoseconds of processor time of a search that waits for the one before, in leaf pages that
    the server made of the same 2,000,000 rows by CREATE INDEX, mtpower_blink and btree; cold: over
    copies of them that are at least four times the last-level cache. "Page looked at": with the
    check that each visit of a page makes. Then directories of pairs of table blocks, by size of key
    and row: what is built (nodes of 16 heads, the first level prefetched) beside others, and beside
    a binary search over line pointers in key order."""
    cold = 4 * last_level_cache()
    b.note('last-level cache: %d MB; cold: %d MB of pages' % (cold // 4 >> 20, cold >> 20))
    program = compiled(b, 'inpage_real', 'bench/inpage/real.c', 'src/page/*.c')
    b.server.sql(
        "CREATE TABLE inpage AS SELECT ('x' || left(md5(i::text), 16))::bit(64)::bigint AS int8, "
        "left(md5(i::text), 16) COLLATE \"C\" AS text "
        'FROM generate_series(1, %d) i' % ROWS)
    for kind in 'int8', 'text':
        files = []
        for am in 'btree', 'mtpower_blink':
            name = 'inpage_%s_%s' % (kind, am)
            b.server.sql('CREATE INDEX %s ON inpage USING %s (%s); CHECKPOINT' % (name, am, kind))
            files.append(
                os.path.join(b.server.data,
                             b.server.sql("SELECT pg_relation_filepath('%s')" % name).strip()))
        cases = figures(program, kind, *files, cold, 1_000_000)
        b.show('search, %s, hot' % kind, cases['hot'], unit='ns', targets={'nbtree': 3.5})
        b.show('search, %s, cold' % kind, cases['cold'], unit='ns', targets={'nbtree': 2.0})
        if 'misses' in cases:
            b.show('misses of the last-level cache, %s' % kind,
                   cases['misses'],
                   unit='',
                   targets={'nbtree': 1 / 0.56})
        else:
            b.note('this machine does not count misses of its caches')
        if shutil.which('valgrind'):
            b.show('misses, %s, simulated' % kind,
                   simulated_misses(b, program, [kind, *files]),
                   unit='')
    b.server.sql('DROP TABLE inpage')
    for case, sides in figures(compiled(b, 'inpage_grid', 'bench/inpage/grid.c', 'src/page/*.c'),
                               cold, 300_000).items():
        b.show(case, sides, unit='B' if 'bytes' in case else 'ns')
