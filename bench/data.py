"""Makes the rows that are loaded, and names the tables and indexes."""
import hashlib, random

TYPES = {
    'ints': 'a int, b int, c int, d int, t text',
    'text': 'a text COLLATE "C", b text COLLATE "C", c text COLLATE "C", d text COLLATE '
            '"C", t text',
    'icu': 'a text COLLATE "en-x-icu", b text COLLATE "en-x-icu", c text COLLATE "en-x-icu", d '
           'text COLLATE "en-x-icu", t text',
    'uuid': 'a uuid, b uuid, c uuid, d uuid, t text',
    'intts': 'a int, at timestamp, b int, bt timestamp, c int, ct timestamp, d int, dt timestamp',
    'mixed': 'a int, at timestamp, url text COLLATE "C", md5 text COLLATE "C", kind text COLLATE '
             '"C", country int'
}
COLUMNS = {'intts': ['a, at', 'b, bt', 'c, ct', 'd, dt']}
# A side's name -> access methods of its tables and indexes: of most parts, of those of hash indexes
AMS = {'mtpower': ('mtpower', 'mtpower_blink'), 'heap': ('heap', 'btree')}
ADOPTED = {'adopted': ('mtpower', 'btree')}
HASH_AMS = {'mtphash': ('mtpower', 'mtpower_hash'), 'hash': ('heap', 'hash')}
METHODS = dict(AMS, **ADOPTED, **HASH_AMS)


def make_rows(path, rows, kind='ints', seed=7):
    """Writes a CSV; `sorted`: the rows of `ints` in the order of their first column; `skew`: three
    tenths of each column are one value; `thousand`: each has 1,000 values."""
    r = random.Random(seed)
    bits = r.getrandbits
    text = lambda i: hashlib.md5(b'%d.%d' % (seed, i)).hexdigest()
    ints = lambda i: (bits(32) - 2 ** 31, bits(32) - 2 ** 31, bits(32) - 2 ** 31, bits(32) - 2 **
                      31, text(i))
    if kind == 'ints':
        lines = ('%d,%d,%d,%d,%s\n' % ints(i) for i in range(rows))
    elif kind == 'sorted':
        lines = ('%d,%d,%d,%d,%s\n' % row for row in sorted(ints(i) for i in range(rows)))
    elif kind == 'seq':
        lines = ('%d,%d,%d,%d,%s\n' % (i, i + 5, 2 * i, i // 2, text(i)) for i in range(rows))
    elif kind == 'low':
        lines = ('%d,%d,%d,%d,%s\n' % (bits(10), bits(4), bits(16), bits(7), text(i))
                 for i in range(rows))
    elif kind == 'skew':
        skewed = lambda: 7 if r.random() < 0.3 else bits(32) - 2 ** 31
        lines = ('%d,%d,%d,%d,%s\n' % (skewed(), skewed(), skewed(), skewed(), text(i))
                 for i in range(rows))
    elif kind == 'thousand':
        lines = ('%d,%d,%d,%d,%s\n' % (*(r.randrange(1000) for _ in range(4)), text(i))
                 for i in range(rows))
    elif kind == 'text':
        lines = (','.join(hashlib.md5(b'%d.%d.%d' % (seed, i, c)).hexdigest()
                          for c in range(4)) + ',x\n' for i in range(rows))
    elif kind == 'uuid':
        lines = (','.join('%032x' % bits(128) for c in range(4)) + ',x\n' for i in range(rows))
    elif kind == 'intts':
        lines = (','.join('%d,2026-01-%02d %02d:%02d:%02d' %
                          (bits(16), 1 + bits(4), bits(4), bits(5), bits(5))
                          for c in range(4)) + '\n' for i in range(rows))
    elif kind == 'mixed':
        kinds = ('view', 'click', 'buy', 'search', 'error')
        lines = ('%d,2026-01-%02d %02d:%02d:%02d,https://shop.example.com/catalogue/item/%d,%s,%s,'
                 '%d\n' % (bits(32) - 2 ** 31, 1 + bits(4), bits(4), bits(5), bits(5), bits(31),
                           text(i), kinds[r.randrange(5)], r.randrange(300)) for i in range(rows))
    with open(path, 'w') as f:
        f.writelines(lines)


def indexes(table, am, columns):
    return ''.join(
        'CREATE INDEX ON %s USING %s (%s);\n' % (table, METHODS[am][1], c) for c in columns)


def columns(kind, n=4, am=None):
    """What n indexes are on: more than four are on pairs, but for hashes on the same columns again,
    as core's take one column only."""
    base = COLUMNS.get(kind, ['a', 'b', 'c', 'd'])
    extra = base if am in HASH_AMS else [
        '%s, %s' % (x, y) for x in 'abcd' for y in 'abcd' if x != y
    ]
    return (base + extra)[:n]
