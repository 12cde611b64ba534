"""Builds libraries that differ from the one that is measured."""
import os, shutil
from server import call


def build(b, name, change, *options):
    """Copies the source tree to a directory of this name, has change(tree) change the copy, and
    builds it; returns the library's path."""
    tree = b.path(name)
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(b.args.source, tree, ignore=shutil.ignore_patterns('*.o', '*.so', '*.bc'))
    change(tree)
    call([
        'make', '-C', tree, '-j2', 'PG_CONFIG=' + b.args.pg_config, 'with_llvm=no', *options, 'all'
    ])
    return os.path.join(tree, 'mtpower.so')


def place(bindir):
    """Where the programs' library is, which they find relative to themselves."""
    return os.path.join(
        call([os.path.join(bindir, 'pg_config'), '--pkglibdir']).strip(), 'mtpower.so')


def install(library, to):
    """Puts a library in another one's place at once: a server may have that one loaded."""
    shutil.copy(library, to + '.new')
    os.replace(to + '.new', to)


def mutate(tree, name):
    """Changes a tree as a file of this directory says (test/perl/MtpMutation.pm)."""
    call([
        'perl', '-I' + os.path.join(tree, 'test/perl'), '-MMtpMutation', '-e',
        'MtpMutation::apply(@ARGV)', '--', tree, os.path.join(tree, 'bench', name)
    ])
