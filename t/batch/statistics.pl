# Counters per index go with their index, however it went, and stay where it stays. On PostgreSQL 18
# there is no limit to their number, and they survive a clean restart; before, the index loaded
# longest ago makes room, and a restart sets all to zero. A crash does so everywhere.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpFaults;
use MtpVariant;

my $am = access_method();
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
max_prepared_transactions = 5
restart_after_crash = on
autovacuum = off
});
$node->start;
my $own = $node->pg_version >= 18;	# kinds of statistics of one's own
my $faults = MtpFaults->new($node, 't');
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE DATABASE other;
CREATE TABLE t (a int, b int) USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING mtpower_hash (b);
});
$node->safe_psql('other', q{CREATE EXTENSION mtpower});
my $load = 'INSERT INTO t SELECT g, g FROM generate_series(1, 1000) g';
my $make = "CREATE TABLE m (a int) USING mtpower; CREATE INDEX m_a ON m USING $am (a)";
my $fill = 'INSERT INTO m SELECT generate_series(1, 1000)';
my $oid = q{SELECT 'm_a'::regclass::oid};

sub oid_of { return $node->safe_psql('postgres', "SELECT '$_[0]'::regclass::oid"); }

# 1 if there are counters of an index, 0 if not.  On 18 the view might hide some, so core is asked.
sub known
{
	my ($on, $oid, $db) = (@_, 'postgres')[ 0 .. 2 ];
	return $on->safe_psql('postgres', $own
		? "SELECT pg_stat_have_stats('mtpower_index', (SELECT oid FROM pg_database WHERE datname = '$db'), $oid)::int"
		: "SELECT count(*) FROM mtpower.stat_batches WHERE database = '$db' AND indexid = $oid");
}
sub entries { return $node->safe_psql('postgres', "SELECT coalesce(sum(entries), 0) FROM mtpower.stat_batches WHERE indexid = $_[0]"); }
sub stays { my ($what, $oid) = @_; is(known($node, $oid), 1, "$what: counters stay"); }
sub goes { my ($what, $oid) = @_; like($oid, qr/^\d+$/); is(known($node, $oid), 0, "$what: counters are gone"); }

# All rows of the view
sub all_rows { return $node->safe_psql('postgres', 'SELECT b FROM mtpower.stat_batches b ORDER BY database, indexid'); }

# ---------- they stay, or go ----------

my ($t_a, $t_b) = (oid_of('t_a'), oid_of('t_b'));
is(known($node, $t_a) . known($node, $t_b), '00', 'no counters before anything is queued');
$node->safe_psql('postgres', $load);
is(entries($t_a), 1000, "an index of $am counts");
is(entries($t_b), 1000, 'a hash index counts');
foreach my $stay ('BEGIN; DROP INDEX t_b; ROLLBACK', 'BEGIN; SAVEPOINT s; DROP INDEX t_b; ROLLBACK TO s; COMMIT', "BEGIN; DROP INDEX t_b; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'",
	'REINDEX INDEX t_b', 'BEGIN; REINDEX INDEX t_b; ROLLBACK', 'TRUNCATE t')
{
	$node->safe_psql('postgres', $stay =~ s/; /\n;/gr);
	is(entries($t_b), 1000, "$stay: counters stay");
	stays($stay, $t_b);
}
$node->safe_psql('postgres', 'REINDEX INDEX CONCURRENTLY t_b');
goes('REINDEX INDEX CONCURRENTLY', $t_b);
$t_b = oid_of('t_b');
$node->safe_psql('postgres', $load);
stays('the new index', $t_b);
$node->safe_psql('postgres', 'DROP INDEX t_b');
goes('DROP INDEX', $t_b);

# Made and loaded in a transaction that is rolled back, in which way ever
foreach my $undo ("BEGIN; $make; $fill; $oid; ROLLBACK", "BEGIN; SAVEPOINT s; $make; $fill; $oid; ROLLBACK TO s; COMMIT", "BEGIN; SAVEPOINT s; $make; RELEASE s; $fill; $oid; ROLLBACK",
	"BEGIN; $make; SAVEPOINT s; $fill; ROLLBACK TO s; $fill; $oid; ROLLBACK", "BEGIN; $make; SAVEPOINT s; $fill; RELEASE s; $fill; $oid; ROLLBACK",
	"BEGIN; $make; $fill; $oid; DROP TABLE m; COMMIT", "BEGIN; $make; $fill; $oid; PREPARE TRANSACTION 'p'; ROLLBACK PREPARED 'p'")
{
	goes($undo, $node->safe_psql('postgres', $undo =~ s/; /\n;/gr));
}

# … or committed, and dropped then
foreach my $do ("BEGIN; $make; $fill; $oid; COMMIT", "BEGIN; $make; SAVEPOINT s; $fill; ROLLBACK TO s; $fill; $oid; COMMIT", "BEGIN; SAVEPOINT s; $make; $fill; $oid; RELEASE s; COMMIT",
	"BEGIN; $make; $fill; $oid; PREPARE TRANSACTION 'p'; COMMIT PREPARED 'p'")
{
	my $m_a = $node->safe_psql('postgres', $do =~ s/; /\n;/gr);
	stays($do, $m_a);
	$node->safe_psql('postgres', "BEGIN; DROP TABLE m; PREPARE TRANSACTION 'p'");
	stays("$do, DROP prepared", $m_a);
	$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
	goes("$do, DROP", $m_a);
}

# The session ends in the middle of its transaction.
{
	my $job = $faults->start("BEGIN; $make; $fill; $oid", 'SELECT pg_sleep(100)');
	my $pid = $faults->pid_of($job);
	$faults->wait_for("SELECT true FROM pg_stat_activity WHERE pid = $pid AND query LIKE '%pg_sleep%' AND wait_event = 'PgSleep'", 'the load');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	$faults->finish($job);
	$faults->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", 'the session to go');
	my ($m_a) = $job->{out} =~ /^\d+\n(\d+)\n/;
	goes('a session that is terminated', $m_a);
}

# A worker that is refused before the session has applied anything finds counters.  It has no part in them when they go, come again
# and go: at the server's end core asserts that no process holds old ones.
{
	my $job = $faults->start_fed('', 'BEGIN', $make, 'SAVEPOINT s', 'COPY m FROM STDIN', 'ROLLBACK TO s', 'INSERT INTO m VALUES (1)', $oid, 'ROLLBACK');
	$faults->feed($job, join('', map { "$_\n" } 1 .. 20000));
	$faults->wait_for(q{SELECT sum(failed_lock) > 0 FROM mtpower.stat_batches}, 'a worker to be refused');
	is($faults->finish($job), '', 'a load whose worker is refused');
	my ($m_a) = $job->{out} =~ /^\d+\n(\d+)\n/;
	goes('behind a worker that was refused', $m_a);
}

# DROP INDEX CONCURRENTLY: a load that it waits for counts until the end.
{
	$node->safe_psql('postgres', "$make; $fill");
	my $m_a = oid_of('m_a');
	my $loader = $node->background_psql('postgres');
	$loader->query_safe("BEGIN; $fill");
	my $job = $faults->start('DROP INDEX CONCURRENTLY m_a');
	my $pid = $faults->pid_of($job);
	$faults->wait_for("SELECT true FROM pg_locks WHERE pid = $pid AND NOT granted", 'the command to wait');
	my $before = entries($m_a);
	$loader->query_safe($fill);
	is(entries($m_a), $before + 1000, 'DROP INDEX CONCURRENTLY waits: the load counts');
	$loader->query_safe('COMMIT');
	$loader->quit;
	is($faults->finish($job), '', 'DROP INDEX CONCURRENTLY');
	goes('DROP INDEX CONCURRENTLY', $m_a);

	# One that is cancelled while it waits leaves an invalid index, which counts on, and can be dropped.
	$node->safe_psql('postgres', "CREATE INDEX m_a ON m USING $am (a); $fill");
	$m_a = oid_of('m_a');
	$loader = $node->background_psql('postgres');
	$loader->query_safe("BEGIN; $fill");
	$job = $faults->start('DROP INDEX CONCURRENTLY m_a');
	$pid = $faults->pid_of($job);
	$faults->wait_for("SELECT true FROM pg_locks WHERE pid = $pid AND NOT granted", 'the command to wait');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	like($faults->finish($job), qr/57014/, 'DROP INDEX CONCURRENTLY is cancelled');
	$loader->query_safe('COMMIT');
	$loader->quit;
	stays('DROP INDEX CONCURRENTLY, cancelled', $m_a);
	$node->safe_psql('postgres', 'DROP INDEX m_a');
	goes('DROP INDEX of what it left', $m_a);
	$node->safe_psql('postgres', 'DROP TABLE m');
}

# A database takes its counters along.
my $other = $node->safe_psql('other', "$make; $fill; $oid");
my $dbid = $node->safe_psql('postgres', q{SELECT oid FROM pg_database WHERE datname = 'other'});
is($node->safe_psql('postgres', q{SELECT index IS NULL, indexid, entries FROM mtpower.stat_batches WHERE database = 'other'}), "t|$other|1000", 'counters in another database');

# ---------- reset ----------

if ($own)
{
	$node->safe_psql('postgres', $load);
	$node->safe_psql('postgres', 'SELECT pg_stat_reset()');
	is($node->safe_psql('postgres', q{SELECT string_agg(database, ' ') FROM mtpower.stat_batches}), 'other', q{core's reset takes those of its database});
}
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
is(all_rows(), '', 'our reset takes all');
$node->safe_psql('postgres', $load);
$node->safe_psql('other', $fill);
is(entries($t_a), 1000, 'counted from zero');
$node->safe_psql('postgres', 'DROP DATABASE other');
is($node->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_batches WHERE database IS DISTINCT FROM 'postgres'}), 0, 'DROP DATABASE: no row');
is($node->safe_psql('postgres', "SELECT pg_stat_have_stats('mtpower_index', $dbid, $other)"), 'f', 'DROP DATABASE: counters are gone') if $own;

# ---------- many ----------

$node->safe_psql('postgres', qq{
SELECT mtpower.stat_reset();
DO \$\$
BEGIN
	FOR i IN 1 .. 103 LOOP
		EXECUTE format('CREATE TABLE many_%s (a int)@{[ $am eq 'btree' ? ' USING mtpower' : '' ]}', i);
		FOR j IN 1 .. 10 LOOP
			EXECUTE format('CREATE INDEX ON many_%s USING $am (a)', i);
		END LOOP;
		EXECUTE format('INSERT INTO many_%s VALUES (1)', i);
	END LOOP;
END \$\$;
});
my $many = 'SELECT count(*), sum(entries), (SELECT evicted FROM mtpower.stat_memory) FROM mtpower.stat_batches';
is($node->safe_psql('postgres', $many), $own ? '1030|1030|0' : '1024|1024|6', $own ? '1030 indexes have counters' : '1024 of 1030 indexes have counters');
$node->safe_psql('postgres', $load);
is(entries($t_a), 1000, 'one more has, too');
is($node->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_batches WHERE index::text LIKE 'many_1_a%'}), $own ? 10 : 3, $own ? 'the first ones still do' : 'at the expense of the first ones');
$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
is($node->safe_psql('postgres', $many), '0||0', 'after a reset none has');

# ---------- restarts ----------

$node->safe_psql('postgres', $load);
my $before = all_rows();
like($before, qr/t_a.*,1000,/, 'counters before a restart');
$node->restart;
is(all_rows(), $own ? $before : '', $own ? 'they survive a clean restart' : 'they do not survive a restart');
$node->safe_psql('postgres', $load);
is(entries($t_a), $own ? 2000 : 1000, 'counted on');

# A standby that has been a primary has counters too.  They go when it replays that the index does.
if ($own)
{
	$node->safe_psql('postgres', "$make; $fill");
	my $m_a = oid_of('m_a');
	$node->stop;
	$node->backup_fs_cold('cold');
	$node->start;
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	$standby->init_from_backup($node, 'cold', has_streaming => 1);
	$standby->start;
	is(known($standby, $m_a) . known($standby, $t_a), '11', 'a standby from a cold copy has the counters');
	$node->safe_psql('postgres', 'DROP TABLE m');
	$node->wait_for_catchup($standby);
	is(known($standby, $m_a) . known($standby, $t_a), '01', 'they go with the index');
	$standby->stop;
}

$node->stop('immediate');
$node->start;
is(all_rows(), '', 'they do not survive a crash');
$node->safe_psql('postgres', $load);
is(entries($t_a), 1000, 'counted from zero');

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$faults->has_stops;
	my $restarts = sub { my $n = () = slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/g; return $n; };
	$node->safe_psql('postgres', 'TRUNCATE t');
	$faults->hold(7);
	$faults->hold;
	$faults->stop_all('step_applied=wait');
	my $job = $faults->start(q{SET mtpower.debug_injection = ''},
		'INSERT INTO t SELECT g, g FROM generate_series(1, 20000) g UNION ALL SELECT 0, length(pg_advisory_xact_lock_shared(7)::text)');
	my ($pid) = $faults->stopped($MtpFaults::WORKER);
	my $n = $restarts->();
	kill 'KILL', $pid;
	sleep(0.05) while $restarts->() == $n;
	delete $faults->{held};
	$node->poll_query_until('postgres', 'SELECT true');
	$faults->finish($job);
	$faults->stop_all('');
	is(all_rows(), '', 'a worker is killed in the middle of a task: all counters are lost');
	$node->safe_psql('postgres', $load);
	is(entries($t_a), 1000, 'counted from zero');
	$faults->sound('a worker is killed', 1000);
}

# Without the library core knows nothing of such statistics.
if ($own)
{
	my $offset = -s $node->logfile;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', q{''});
	$node->restart;
	like(slurp_file($node->logfile, $offset), qr/corrupted statistics file/, 'a server without mtpower begins with empty statistics');
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', 'mtpower');
	$node->restart;
	is(all_rows(), '', 'and so does the next one with it');
}
$node->stop;
$faults->log_is_clean;
done_testing();
