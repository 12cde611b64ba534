"""Measures how fast a standby replays loads."""
import os, time
from events import events_files, fresh, in_turn, pick
from harness import part
from loads import LIVE
from server import Server

SETTINGS = {'max_wal_size': '8GB', 'shared_buffers': '3GB'}

# Goes on with a replay that pauses; seconds until it has come to a place.  A client that looks each
# time would take a tenth of what it measures.
RESUME = """
CREATE FUNCTION resume(until pg_lsn) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
    began timestamptz := clock_timestamp();
BEGIN
    PERFORM pg_wal_replay_resume();
    WHILE pg_last_wal_replay_lsn() < until LOOP
        PERFORM pg_sleep(0.0005);
    END LOOP;
    RETURN extract(epoch FROM clock_timestamp() - began);
END $$"""


class Standby(Server):
    """A standby that is made of a running server."""
    def __init__(self, args, name, primary):
        Server.ports += 1
        self.port = str(54320 + Server.ports)
        self.bindir, self.dir, self.data = args.bindir, args.dir, os.path.join(args.dir, name)
        self.run('pg_basebackup', '-h', primary.dir, '-p', primary.port, '-U', 'postgres', '-D',
                 self.data, '-R', '-c', 'fast')
        with open(os.path.join(self.data, 'postgresql.conf'), 'a') as f:
            f.write('port = %s\n' % self.port)
        self.run('pg_ctl', '-D', self.data, '-l', self.data + '.log', '-w', 'start')

    def behind(self, lsn, what='replay'):
        """Bytes of WAL up to lsn that it has not replayed, or received."""
        return max(
            self.number("SELECT pg_wal_lsn_diff('%s', pg_last_wal_%s_lsn())" % (lsn, what)), 0)

    def wait(self, lsn, what='replay'):
        """Seconds until it has."""
        begin = time.time()
        while self.behind(lsn, what) > 0:
            time.sleep(0.005)
        return time.time() - begin

    def pause(self):
        self.sql('SELECT pg_wal_replay_pause()')
        while self.sql('SELECT pg_get_wal_replay_pause_state()').strip() != 'paused':
            time.sleep(0.005)


@part
def part_standby_events(b):
    """Replay of the events' first load and of both feeds on a streaming standby. The standby waits
    until it has received all, then replays it; seconds. Then the first load once more, replayed as
    it comes: megabytes of WAL that it is behind at COMMIT, and seconds until it is not."""
    primary = Server(b.args, 'primary', SETTINGS)
    primary.sql(RESUME)
    standby = Standby(b.args, 'standby', primary)
    first, *feeds = events_files(b)
    took, late = ({'mtpower': [], LIVE: []} for _ in range(2))

    def lsn():
        return primary.sql('SELECT pg_current_wal_flush_lsn()').strip()

    def replay(files):
        standby.wait(lsn())
        standby.pause()
        primary.sql(';\n'.join(b.copy(f, 'events') for f in files))
        end = lsn()
        standby.wait(end, 'receive')
        return standby.number("SELECT resume('%s')" % end)

    def run(am, side):
        fresh(b, am, primary)
        loaded = replay([first])
        primary.sql('VACUUM ANALYZE events; CHECKPOINT')
        took[side].append((loaded, replay(feeds)))
        fresh(b, am, primary)
        standby.wait(lsn())
        primary.sql(b.copy(first, 'events'))
        end = lsn()
        late[side].append((standby.behind(end) / 2 ** 20, standby.wait(end)))

    try:
        in_turn(run)
    finally:
        standby.remove()
        primary.remove()
    b.show('first load', pick(took, lambda t: t[0]), targets={LIVE: 5})
    b.show('two feeds', pick(took, lambda t: t[1]), targets={LIVE: 5})
    b.show('behind at the end of the first load',
           pick(late, lambda t: t[0]),
           unit='MB',
           ratios=False)
    b.show('until it has caught up', pick(late, lambda t: t[1]), ratios=False)
