"""Runs private servers, and statements on them."""
import os, re, shutil, subprocess, threading


class Failed(Exception):
    pass


def call(argv, feed=None):
    """Runs a program; returns what it said."""
    source = {'stdin': subprocess.DEVNULL} if feed is None else {'input': feed}
    done = subprocess.run(argv,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT,
                          text=True,
                          **source)
    if done.returncode != 0:
        raise Failed('%s: %s' % (' '.join(argv)[:300], done.stdout.strip()))
    return done.stdout


def together(*calls):
    """Runs the calls side by side; returns their results in order."""
    results, errors = [None] * len(calls), []

    def run(i):
        try:
            results[i] = calls[i]()
        except Exception as e:
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i, )) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    return results


class Server:
    """A private server with the settings that the targets were set under; mtpower's own at their
    defaults."""

    SETTINGS = {
        'shared_preload_libraries': "'mtpower'",
        'listen_addresses': "''",
        'shared_buffers': '4GB',
        'max_wal_size': '32GB',
        'maintenance_work_mem': '1GB',
        'checkpoint_timeout': '1h',
        'wal_compression': 'off',
        'wal_level': 'logical'
    }
    ports = 0

    def __init__(self, args, name, extra=()):
        Server.ports += 1
        self.port = str(54320 + Server.ports)
        self.bindir, self.dir, self.data = args.bindir, args.dir, os.path.join(args.dir, name)
        self.run('initdb', '-D', self.data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8',
                 '--locale=C')
        settings = dict(self.SETTINGS, unix_socket_directories="'%s'" % self.dir, port=self.port)
        settings.update(dict(extra))
        with open(os.path.join(self.data, 'postgresql.conf'), 'a') as f:
            for key, value in settings.items():
                f.write('%s = %s\n' % (key, value))
        self.run('pg_ctl', '-D', self.data, '-l', os.path.join(self.dir, name + '.log'), '-w',
                 'start')
        self.sql('CREATE EXTENSION mtpower')

    def run(self, program, *args):
        return call([os.path.join(self.bindir, program), *args])

    def psql(self, script, db='postgres'):
        """Runs a script in one session; returns its output."""
        done = subprocess.run([
            os.path.join(self.bindir, 'psql'), '-X', '-q', '-A', '-t', '-h', self.dir, '-p',
            self.port, '-U', 'postgres', '-d', db, '-v', 'ON_ERROR_STOP=1'
        ],
                              input=script,
                              stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE,
                              text=True)
        if done.returncode != 0:
            raise Failed('%s\n%s' % (script[:500], done.stderr))
        return done.stdout

    def sql(self, script, db='postgres'):
        return self.psql('SET client_min_messages = warning;\n' + script + ';', db)

    def number(self, query, db='postgres'):
        return float(self.sql(query, db))

    def timed(self, script, before='', db='postgres'):
        """Seconds that the script takes, up to and including COMMIT, in a session that ran
        `before`."""
        out = self.psql(
            'SET client_min_messages = warning;\n%s;\n\\timing on\n%s;\n' % (before, script), db)
        return sum(float(x) for x in re.findall(r'^Time: ([0-9.]+) ms', out, re.M)) / 1000

    def pgbench(self, *args):
        """Milliseconds per transaction."""
        out = self.run('pgbench', '-h', self.dir, '-p', self.port, '-U', 'postgres', '-n', '-M',
                       'prepared', *args)
        return 1000 / float(re.search(r'tps = ([0-9.]+)', out).group(1))

    def setting(self, name, value):
        """For all sessions to come; None: the default again."""
        self.sql(
            'ALTER SYSTEM %s %s%s;\nSELECT pg_reload_conf();\nSELECT pg_sleep(0.2)' %
            ('RESET' if value is None else 'SET', name, '' if value is None else ' = ' + value))

    def without_library(self):
        """Starts it anew without mtpower, which its tables must not need."""
        self.run('pg_ctl', '-D', self.data, '-l', self.data + '.log', '-o',
                 "-c shared_preload_libraries=''", '-w', 'restart')

    def wal(self):
        return int(self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def pid(self):
        with open(os.path.join(self.data, 'postmaster.pid')) as f:
            return int(f.readline())

    def private_memory(self):
        """Title of each of the server's processes -> bytes that it has for itself alone."""
        found, parent = {}, self.pid()
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open('/proc/%s/status' % pid) as f:
                    status = dict(line.split(':', 1) for line in f)
                if int(status['PPid']) == parent:
                    with open('/proc/%s/cmdline' % pid) as f:
                        title = f.read().strip('\0 ')
                    found[title] = max(found.get(title, 0),
                                       1024 * int(status['RssAnon'].split()[0]))
            except (OSError, KeyError):  # gone meanwhile
                pass
        return found

    def stop(self, mode='immediate'):
        self.run('pg_ctl', '-D', self.data, '-m', mode, '-w', 'stop')

    def remove(self, mode='immediate'):
        self.stop(mode)
        shutil.rmtree(self.data)
