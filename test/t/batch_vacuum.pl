# VACUUM beside a step of a worker for rows that are dead: no entry leads to a stranger's row.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
autovacuum = off
max_parallel_maintenance_workers = 2
min_parallel_index_scan_size = 0
});
$node->start;
plan skip_all => 'the server was built without assertions, so without stop points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower WITH (vacuum_truncate = off);
CREATE INDEX t_a ON t USING mtpower_blink (a);
CREATE INDEX t_b ON t USING mtpower_blink (b);
CREATE INDEX t_c ON t USING mtpower_blink (a DESC, b);
INSERT INTO t SELECT g, g::text FROM generate_series(1, 2000) g;
});

my %holders;

sub hold
{
	my ($lock) = @_;
	$holders{$lock} = $node->background_psql('postgres');
	$holders{$lock}->query_safe("SELECT pg_advisory_lock($lock)");
}

sub release { (delete $holders{$_[0]})->quit }

sub set_stop
{
	my ($stop) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET mtpower.debug_stop = '$stop'");
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
}

sub start_psql
{
	my $job = { out => '', err => '' };
	$job->{run} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), map { ('-c', $_) } @_ ], '>', \$job->{out}, '2>', \$job->{err});
	return $job;
}

sub waits { return "SELECT count(*) > 0 FROM pg_stat_activity WHERE $_[0] AND $_[1]" }
my $worker = q{backend_type = 'mtpower worker'};
my $advisory = q{wait_event = 'advisory'};

# A load whose first step of a worker is held at the point, cancelled; the worker then still stands there.  With a lock, the
# load is a subtransaction, and the transaction stays open until the lock is given.
sub aborted_load
{
	my ($point, $lock) = @_;
	hold(155);
	set_stop("$point=wait");
	my $job = start_psql(
		"SET mtpower.debug_stop = ''",
		'SET mtpower.batch_min_rows = 0',
		"SET mtpower.batch_size = '64kB'",
		$lock ? ('BEGIN', 'SAVEPOINT s') : (),
		qq{/* load */ INSERT INTO t SELECT -g, 'aborted ' || g FROM generate_series(1, 12000) g
			UNION ALL SELECT 0, 'slept' FROM pg_sleep(60)},
		$lock ? ('ROLLBACK TO s', "/* open */ SELECT pg_advisory_xact_lock($lock)", 'COMMIT') : ());
	$node->poll_query_until('postgres', waits($worker, $advisory)) or die "no worker came to $point";
	set_stop('');
	$node->poll_query_until('postgres', q{SELECT count(pg_cancel_backend(pid)) = 0 FROM pg_stat_activity
		WHERE query LIKE '%/* load */%' AND backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()});
	if ($lock)
	{
		$node->poll_query_until('postgres', waits(q{query LIKE '/* open */%'}, $advisory)) or die;
		return $job;
	}
	finish_load($point, $job);
	return;
}

sub finish_load
{
	my ($point, $job) = @_;
	$job->{run}->finish;
	like($job->{err}, qr/canceling statement/, "$point: the load was cancelled");
}

sub check
{
	my ($what) = @_;
	my $err;
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM mtpower.stat_workers WHERE loader_pid IS NOT NULL") or die 'the worker goes on and on';
	foreach my $i ('a', 'b', 'c')
	{
		is($node->psql('postgres', "SELECT mtpower.verify_index('t_$i', true)", stderr => \$err), 0, "$what: t_$i verifies") or diag($err);
	}
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FILTER (WHERE a < 0) FROM t WHERE b > 'ab' AND b < 'abz'}), 0, "$what: no stranger's row comes");
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE a > 1000000; VACUUM t');
}

# New rows in the places of the dead ones
sub new_rows
{
	$node->safe_psql('postgres', q{SET mtpower.batching = off; INSERT INTO t SELECT 1000000 + g, 'new ' || g FROM generate_series(1, 12000) g});
}

my $fence = q{query LIKE 'VACUUM%' AND backend_type IN ('client backend', 'parallel worker') AND wait_event_type = 'Extension'};
foreach my $vacuum ('VACUUM (PARALLEL 0) t', 'VACUUM (PARALLEL 2) t')
{
	foreach my $point ('step_registered', 'step_checked', 'step_applied')
	{
		aborted_load($point);
		my $job = start_psql($vacuum);
		ok($node->poll_query_until('postgres', waits($fence, 'true')), "$point: $vacuum waits for the step");
		release(155);
		$job->{run}->finish;
		is($job->{err}, '', "$point: $vacuum ends");
		new_rows();
		check("$point, $vacuum");
	}

	# VACUUM need not wait: the worker's next step sees that the transaction is over.
	foreach my $point ('worker_claimed', 'step_begins', 'step_gone')
	{
		aborted_load($point);
		$node->safe_psql('postgres', $vacuum);
		new_rows();
		release(155);
		check("$point, $vacuum");
	}

	# The same where only a subtransaction is over.
	hold(9);
	my $open = aborted_load('step_begins', 9);
	$node->safe_psql('postgres', $vacuum);
	new_rows();
	release(155);
	check("step_begins in a subtransaction, $vacuum");
	release(9);
	finish_load('subtransaction', $open);

	# The step comes while VACUUM stands behind its fence, or before it.
	foreach my $at ('vacuum_begins', 'vacuum_fenced', 'vacuum_ends')
	{
		foreach my $point ('worker_claimed', 'step_begins', 'step_registered', 'step_applied', 'step_gone')
		{
			next if $at ne 'vacuum_begins' && $point =~ /registered|applied/;
			next if $vacuum =~ /PARALLEL 2/ && $point ne 'step_gone';
			aborted_load($point);
			hold(7);
			my $job = start_psql("SET mtpower.debug_stop = '$at=wait7'", $vacuum);
			$node->poll_query_until('postgres', waits(q{query LIKE '%VACUUM%' AND pid <> pg_backend_pid()}, $advisory)) or die;
			release(155);
			$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM mtpower.stat_workers WHERE loader_pid IS NOT NULL") or die;
			release(7);
			$job->{run}->finish;
			is($job->{err}, '', "$at, $point: $vacuum ends");
			new_rows();
			check("$at, $point, $vacuum");
		}
	}
}
$node->stop;
done_testing();
