"""Prints mtpower's structures in gdb: pages of indexes, frames of the buffer, batches.

README.md says how to use it.  Layouts that C's macros have, and debug symbols do not, stand at the
top.
"""
import struct
import gdb

BLOCK = 8192
HEADER_AT = 24                          # of a page; a directory follows mtpower's header
LEAF, INNER = 2, 3                      # types of B-link pages that have items
HASH_BUCKET, HASH_STASH = 17, 18        # types of hash pages that have entries
SLAB_FRAMES, SLAB_BYTES = 512, 1 << 20
# Name and bytes of a frame by the kind of its slab
KINDS = (('index', BLOCK), ('table', 2 * BLOCK), ('directory', 4096), ('directory', 2048))


def read(address, size):
    return gdb.selected_inferior().read_memory(address, size).tobytes()


def as_type(address, name):
    return gdb.Value(address).cast(gdb.lookup_type(name).pointer()).dereference()


def tid(data):
    """A row's place, as SQL writes it."""
    high, low, offset = struct.unpack_from('<HHH', data)
    return '(%d,%d)' % (high << 16 | low, offset)


def plain(value):
    """An enum's name, or a number: gdb would print small ones as characters."""
    is_enum = value.type.strip_typedefs().code == gdb.TYPE_CODE_ENUM
    return value if is_enum else int(value)


def fields(value, indent=''):
    """A line for each plain field of a struct."""
    for field in value.type.fields():
        kind = field.type.strip_typedefs().code
        if kind in (gdb.TYPE_CODE_INT, gdb.TYPE_CODE_BOOL, gdb.TYPE_CODE_ENUM):
            print('%s%s: %s' % (indent, field.name, plain(value[field.name])))


def print_page(address):
    head = as_type(address + HEADER_AT, 'MtpPageHeader')
    lsn = struct.unpack_from('<II', read(address, 8))
    print('lsn: %X/%X' % lsn)
    if int(head['type']) in (HASH_BUCKET, HASH_STASH):
        print_entries(address)
        return
    fields(head)
    if int(head['type']) not in (LEAF, INNER):
        return
    page = read(address, BLOCK)
    cap, nnodes = int(head['cap']), int(head['nnodes'])
    counts = HEADER_AT + head.type.sizeof + 4 * cap
    for node in range(nnodes):
        at = counts + cap + 96 * node
        for slot in range(page[counts + node]):
            norm, = struct.unpack_from('<I', page, at + 4 * slot)
            offset, = struct.unpack_from('<H', page, at + 64 + 2 * slot)
            body = offset & ~7
            size, = struct.unpack_from('<H', page, body + 6)
            print('item %d.%d: offset %d, %d bytes, head %08x, %s%s' % (
                node, slot, body, size & 0x1FFF, norm, tid(page[body:]), ', dead' * (offset & 1)))


def print_entries(address):
    head = as_type(address + HEADER_AT, 'MtpHashHeader')
    fields(head)
    page = read(address, BLOCK)
    for i in range(int(head['n'])):
        at = BLOCK - 10 * (i + 1)
        high, low = struct.unpack_from('<HH', page, at)
        print('entry %d: hash %08x, %s' % (i, high << 16 | low, tid(page[at + 4:])))


class Frames:
    """The buffer's frames, as this process sees them."""

    def __init__(self):
        self.buffer = gdb.parse_and_eval('mtp_buffer')
        self.policy = self.buffer['policy']
        if int(self.policy) == 0:
            raise gdb.GdbError('there is no buffer')
        self.headers = self.buffer['headers']

    def kind(self, n):
        """Of a frame that has a page, else None."""
        kind = int(self.policy['kind_of'][n // SLAB_FRAMES])
        return kind if kind < len(KINDS) and int(self.headers[n]['tag']['page']) != 0 else None

    def image(self, n):
        return int(self.buffer['images']) + n // SLAB_FRAMES * SLAB_BYTES + \
            n % SLAB_FRAMES * KINDS[self.kind(n)][1]

    def describe(self, n):
        space, page = (int(self.headers[n]['tag'][part]) for part in ('space', 'page'))
        print('frame %d: %s of tablespace %d, database %d, file %d, block %d; image %#x' % (
            n, KINDS[self.kind(n)][0], space >> 32, space & 0xFFFFFFFF, page >> 32,
            (page & 0xFFFFFFFF) - 1, self.image(n)))


def print_batch(batch):
    print('batch %#x' % int(batch.address))
    fields(batch, indent='  ')
    for t in range(int(batch['ntasks'])):
        print('  task %d: %s, %d of %d entries' % (
            t, *(batch['tasks'][t][f] for f in ('state', 'progress', 'total'))))


def batches():
    """All batches of all sessions that load."""
    shared = gdb.parse_and_eval('mtp_batch_shared').dereference()
    for i in range(int(shared['max_loads'])):
        load = shared['loads'][i]
        for part in ('batches', 'own') if int(load['pid']) != 0 else ():
            head = load[part]['head'].address
            node = head['next']
            while int(node) not in (0, int(head)):
                yield int(load['pid']), as_type(int(node), 'MtpBatch')
                node = node['next']


def command(name, argument=True):
    """Makes a function a command of gdb; its docstring is the help."""
    def register(function):
        class Command(gdb.Command):
            __doc__ = function.__doc__

            def invoke(self, text, from_tty):
                if argument and not text:
                    raise gdb.GdbError('%s needs an argument' % name)
                function(*([gdb.parse_and_eval(text)] if argument else []))
        Command(name, gdb.COMMAND_DATA)
        return function
    return register


@command('mtp-page')
def page(address):
    """mtp-page ADDRESS: the header of a page of a B-link or hash index, and its entries."""
    print_page(int(address))


@command('mtp-frames', argument=False)
def frames():
    """mtp-frames: the frames that have pages, a line each."""
    all_frames = Frames()
    for n in range(int(all_frames.policy['nslabs']) * SLAB_FRAMES):
        if all_frames.kind(n) is not None:
            all_frames.describe(n)


@command('mtp-frame')
def frame(number):
    """mtp-frame NUMBER: what a frame has, and the page if it is an index's."""
    all_frames, n = Frames(), int(number)
    if all_frames.kind(n) is None:
        raise gdb.GdbError('frame %d has no page' % n)
    all_frames.describe(n)
    for field in all_frames.headers[n].type.fields():
        print('%s: %s' % (field.name, all_frames.headers[n][field.name]))
    if KINDS[all_frames.kind(n)][0] == 'index':
        print_page(all_frames.image(n))


@command('mtp-batch')
def batch(address):
    """mtp-batch ADDRESS: a batch, and its tasks."""
    print_batch(as_type(int(address), 'MtpBatch'))


@command('mtp-batches', argument=False)
def all_batches():
    """mtp-batches: the batches of all sessions that load."""
    for pid, one in batches():
        print('process %d' % pid)
        print_batch(one)
