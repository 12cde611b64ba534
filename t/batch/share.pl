# Loads share the engine's memory. When others want memory, the engine applies what a silent
# client has queued in its COPY. No load keeps more than half of the memory from others. A load
# whose batches another session has taken goes on, fails, is terminated and crashes like any
# other.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpFaults;
use MtpSessions ();
use MtpVariant;

my $am = access_method();
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_memory = 1MB
mtpower.batch_min_rows = 0
mtpower.batch_size = 1MB
autovacuum = off
restart_after_crash = on
fsync = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b int) USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING mtpower_hash (b);
CREATE INDEX t_ab ON t USING mtpower_hash (a, b);
CREATE TABLE u (a int) USING mtpower;
CREATE INDEX u_a ON u USING $am (a);
@{[ MtpFaults::gate_sql() ]}});
my $held = q{(SELECT held_bytes FROM mtpower.stat_memory)};
my $half = 512 * 1024;
my $next = 0;
my $rows = 0;

# Rows for COPY, of keys that no row has
sub rows
{
	my ($n) = @_;
	$rows += $n;
	return join('', map { my $k = $next++ * 7919 % 1_000_003; "$k\t$k\n" } 1 .. $n);
}

# A COPY whose client is silent: nothing has happened for a second.  16,000 rows take most of the memory, 8,000 less than half of it.
sub start_silent { return start_silent_of(16000, @_); }

sub start_silent_of
{
	my ($n, @before) = @_;
	my $job = $faults->start_fed(rows($n), @before, 'COPY t FROM STDIN');
	$faults->wait_for(q{SELECT true FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active' AND state_change < clock_timestamp() - interval '1.2 s' AND pid = }
		. $faults->pid_of($job) . " AND $held > " . $half * 3 / 2 * $n / 16000, 'a silent load');
	return $job;
}

# Another load, whose entries no worker touches: its own memory is what it has to make do with.
my @other = ('BEGIN', 'TRUNCATE u', 'INSERT INTO u SELECT hashint4(g) FROM generate_series(1, 40000) g', 'COMMIT');

sub queued { return $node->safe_psql('postgres', "SELECT sum(queued_bytes) FROM mtpower.stat_batches WHERE index::text LIKE '$_[0]%'"); }

# ---------- a silent client's memory comes back ----------
{
	my @silent = map { start_silent_of(8000) } 1, 2;
	$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
	is($faults->finish($faults->start(@other)), '', 'a load beside silent ones');
	$faults->wait_for("SELECT $held < $half", 'memory of silent loads');
	is($node->safe_psql('postgres', q{SELECT sum(entries_workers) > 10000, sum(entries_backends) = 0 FROM mtpower.stat_batches WHERE index IN ('t_a'::regclass, 't_b'::regclass, 't_ab'::regclass)}), 't|t', 'workers have applied what it had queued');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 0, 'which nobody sees');
	my ($batches, $entries) = split /\|/, $node->safe_psql('postgres', q{SELECT batches, entries FROM mtpower.stat_batches WHERE index = 'u_a'::regclass});
	cmp_ok($entries, '>', 35000, 'the other load has queued its entries');
	cmp_ok($batches, '<', 20, '… in large batches');
	foreach my $silent (@silent)
	{
		$faults->feed($silent, rows(16000));
		is($faults->finish($silent), '', 'a silent one goes on, and ends');
	}
	$faults->sound('silent', $rows);
}

# Batches that no worker may touch, or none is there to touch, go on with their owner.
foreach my $case ([ 'no worker', 0 ], [ 'a table that its load has truncated', 1, 'BEGIN', 'TRUNCATE t' ])
{
	my ($what, $workers, @before) = @$case;
	$faults->set_all('mtpower.workers', $workers);
	my $before = $rows;
	my $silent = start_silent(@before);
	is($faults->finish($faults->start(@other)), '', "$what: a load beside a silent one");
	$faults->feed($silent, rows(16000) . "\\.\n");
	is($faults->finish($silent), '', "$what: the silent one goes on, and ends");
	$rows = $before if @before;			# a transaction that never commits
	$faults->sound($what, $rows);
}
$faults->set_all('mtpower.workers', 1);

# The only worker is in another database, whose load wants the memory: it comes over.
{
	$node->safe_psql('postgres', 'CREATE DATABASE d2');
	$node->safe_psql('d2', "CREATE EXTENSION mtpower; CREATE TABLE u (a int) USING mtpower; CREATE INDEX u_a ON u USING $am (a)");
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'mtpower worker'});
	$node->safe_psql('d2', 'INSERT INTO u SELECT hashint4(g) FROM generate_series(1, 9000) g');
	my $silent = start_silent();
	for (1 .. 60)
	{
		$node->safe_psql('d2', join(';', @other));
		last if $node->safe_psql('postgres', "SELECT $held < $half") eq 't';
		sleep(0.2);
	}
	is($node->safe_psql('postgres', "SELECT $held < $half"), 't', 'a worker comes from another database');
	is($faults->finish($silent), '', 'the silent load ends');
	$faults->sound('another database', $rows);
}

# The run that is being filled is as large as any, and the first of the batch that begins anew.
{
	$node->append_conf('postgresql.conf', qq{mtpower.batch_memory = 4MB\nmtpower.batch_size = 4MB});
	$node->restart;
	$node->safe_psql('postgres', 'DROP INDEX t_b, t_ab; TRUNCATE t');
	my $large = $faults->start_fed(rows(70000), 'COPY t FROM STDIN');
	$faults->wait_for(q{SELECT true FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND state = 'active' AND state_change < clock_timestamp() - interval '1.2 s' AND pid = }
		. $faults->pid_of($large) . " AND $held > 2000000", 'a large silent load');
	my @more = @other;
	s/40000/400000/ foreach @more;
	is($faults->finish($faults->start(@more)), '', 'a load beside it');
	$faults->wait_for("SELECT $held < 1200000", 'memory of it');
	$faults->feed($large, rows(62000));
	is($faults->finish($large), '', 'it goes on, and ends');
	$rows = 132000;
	$faults->sound('large', $rows);
	$node->append_conf('postgresql.conf', qq{mtpower.batch_memory = 1MB\nmtpower.batch_size = 1MB});
	$node->restart;
	$node->safe_psql('postgres', 'TRUNCATE t; CREATE INDEX t_b ON t USING mtpower_hash (b); CREATE INDEX t_ab ON t USING mtpower_hash (a, b)');
	$rows = 0;
}

# ---------- no more than half, while others want some ----------
{
	$node->safe_psql('postgres', qq{CREATE TABLE w (a int) USING mtpower; CREATE INDEX w_a ON w USING $am (a); CREATE INDEX w_h ON w USING mtpower_hash (a); CREATE INDEX w_d ON w USING $am (a DESC);
		CREATE TABLE v (s text) USING mtpower; CREATE INDEX v_s ON v USING $am (s)});
	$faults->set_all('mtpower.workers', 0);
	$faults->hold($_) foreach 1 .. 3;
	my $at = sub { return "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = $_[0] AND NOT granted" };
	my $load = sub { my ($table, @parts) = @_; return "INSERT INTO $table " . join(' UNION ALL ', map { /^\d\d/ ? "SELECT hashint4(g) FROM generate_series(1, $_) g" : "SELECT gate($_)" } @parts) };
	my $large = $faults->start($load->('w', 16000, 1, 200000, 2, 1000));
	$faults->wait_for($at->(1), 'the large load');
	cmp_ok(queued('w_'), '>', $half * 3 / 2, 'a load may hold more than half');

	# It finds no memory, puts its rows in at once, and wants some from then on.
	my $small = $faults->start(q{INSERT INTO v SELECT (SELECT string_agg(md5(g * 100 + i || ''), '') FROM generate_series(1, 60) i) FROM generate_series(1, 250) g UNION ALL SELECT gate(3)::text});
	$faults->wait_for($at->(3), 'the small load');
	$faults->release(1);
	$faults->wait_for($at->(2), 'the large load again');
	cmp_ok(queued('w_'), '<=', $half, 'while another one wants some, it keeps no more than half');
	$faults->release(3);
	is($faults->finish($small), '', 'the small load ends');
	$faults->release(2);
	is($faults->finish($large), '', 'so does the large one');
	is($node->safe_psql('postgres', q{SELECT count(*), verify_one('w_a'), verify_one('w_h'), verify_one('w_d') FROM w}), '217002|||', 'nothing is missing');
	$faults->set_all('mtpower.workers', 1);
}

# ---------- faults while a worker stands in a batch that was taken ----------
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$faults->has_stops;
	my $goes_on = rows(16000);
	foreach my $point (qw(cut step_applied worker_claimed))
	{
		foreach my $how ('goes on', 'rolls back', 'is cancelled', 'is terminated', 'meets the worker\'s end')
		{
			my $what = "$point: $how";
			$node->safe_psql('postgres', 'TRUNCATE t');
			my $silent = start_silent("SET mtpower.debug_injection = ''", ($how eq 'rolls back' ? ('BEGIN') : ()));
			my $pid = $faults->pid_of($silent);
			$faults->hold;
			$faults->stop_all("$point=wait");
			is($faults->finish($faults->start("SET mtpower.debug_injection = ''", @other)), '', "$what: another load ends");
			my ($worker) = $faults->stopped($MtpFaults::WORKER, 1, "$what: a worker");

			# The owner's next full run finds that the batch has been taken.
			$faults->feed($silent, $goes_on);
			$faults->wait_for("SELECT wait_event_type = 'Extension' FROM pg_stat_activity WHERE pid = $pid", "$what: the owner waits for the worker");
			$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)") if $how eq 'is cancelled';
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") if $how eq 'is terminated';
			$node->safe_psql('postgres', "SELECT pg_terminate_backend($worker)") if $how =~ /worker/;
			my $fails = $how =~ /cancelled|terminated/;
			my $err = $fails ? $faults->finish($silent) : '';
			$faults->stop_all('');
			$faults->release;
			$err = $faults->finish($silent) if !$fails;
			if ($fails) { like($err, qr/57014|57P01|connection/, "$what: it fails"); }
			else { is($err, '', "$what: it ends"); }
			$rows = $how =~ /goes on|worker/ ? 32000 : 0;
			$faults->sound($what, $rows);
		}
	}

	# A crash there loses nothing but the load.
	$node->safe_psql('postgres', 'TRUNCATE t');
	my $silent = start_silent("SET mtpower.debug_injection = ''");
	$faults->stop_all('step_applied=panic');
	$faults->start("SET mtpower.debug_injection = ''", @other);
	sleep(0.05) while slurp_file($node->logfile) !~ /PANIC:  crash at injection point/;
	MtpSessions::wait_for_restart($node);
	$faults->finish($silent);
	$faults->stop_all('');
	$faults->sound('a crash', 0);
}
$node->stop;
done_testing();
