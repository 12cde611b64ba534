"""Says under what a run measures: machine, releases, date, rows and rounds."""
import datetime, os, re
from server import call


def first(path, pattern, default):
    """What the pattern's group matches in a file."""
    with open(path) as f:
        found = re.search(pattern, f.read(), re.M)
    return found.group(1).strip() if found else default


def conditions(args, rows, rounds):
    memory = int(first('/proc/meminfo', r'^MemTotal:\s*(\d+)', '0')) / 2 ** 20
    return '%s; %s, %s; %s, %d cores, %.0f GB of memory, %s; {:,} rows, %d rounds.'.format(rows) % (
        datetime.date.today().isoformat(),
        'mtpower ' + first(args.source + '/mtpower.control', r"^default_version = '(.*)'", '?'),
        call([args.pg_config, '--version']).strip(),
        first('/proc/cpuinfo', r'^model name\s*:(.*)', os.uname().machine),
        len(os.sched_getaffinity(0)), memory,
        call(['df', '--output=fstype', args.dir]).split()[-1], rounds)
