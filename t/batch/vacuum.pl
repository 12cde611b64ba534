# VACUUM removes dead rows beside a worker's step with their entries, while another session's
# batches go on. No entry leads to another row.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpSessions;
use MtpVariant;

my $am = access_method();
my $hash = $am eq 'mtpower_hash';
my $btree = $am eq 'btree';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 2
mtpower.batch_min_rows = 0
mtpower.batch_size = '64kB'
autovacuum = off
fsync = off
max_parallel_maintenance_workers = 2
min_parallel_index_scan_size = 0
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower WITH (vacuum_truncate = off);
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
CREATE INDEX t_c ON t USING $am (a @{[ $hash ? '' : 'DESC' ]}, b);
INSERT INTO t SELECT g, g::text FROM generate_series(1, 2000) g;
});
my $worker = q{backend_type = 'mtpower worker'};

# A load whose first step of a worker is held at the point, and whose rows are dead before it goes on.  Either the whole
# statement was a transaction of its own, or it is rolled back to a savepoint, and the transaction goes on; or it stands in its abort,
# where others see that it is over, and none of our callbacks has run.
sub aborted_load
{
	my ($point, $how) = @_;
	my $load = q{/* load */ INSERT INTO t SELECT -g, 'aborted ' || g FROM generate_series(1, 12000) g
		UNION ALL SELECT 0, 'slept' FROM pg_sleep(60)};
	my @sql = ("SET mtpower.debug_injection = ''", $load);
	hold($node, 155);
	set_stop($node, "$point=wait");
	hold($node, 9) if $how ne 'cancelled';
	@sql = ("SET mtpower.debug_injection = 'abort=wait9'", $load) if $how eq 'aborting';
	if ($how eq 'savepoint')
	{
		@sql = ("SET mtpower.debug_injection = ''", 'BEGIN', "SET LOCAL mtpower.batching = off; INSERT INTO t SELECT g, 'kept' FROM generate_series(3001, 3100) g; SET LOCAL mtpower.batching = on",
			'SAVEPOINT s', $load, 'ROLLBACK TO s', '/* open */ SELECT FROM pg_advisory_lock_shared(9)', 'COMMIT');
	}
	my $job = start_psql($node, 'postgres', @sql);
	$node->poll_query_until('postgres', waits_sql($worker)) or die "no worker came to $point";
	set_stop($node, '');
	$node->poll_query_until('postgres', q{SELECT count(pg_cancel_backend(pid)) = 0 FROM pg_stat_activity
		WHERE query LIKE '%/* load */%' AND backend_type = 'client backend' AND state = 'active' AND wait_event IS DISTINCT FROM 'advisory' AND pid <> pg_backend_pid()}) or die;
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* open */%'})) or die 'no rollback' if $how eq 'savepoint';
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '%/* load */%' AND backend_type = 'client backend'})) or die 'no abort' if $how eq 'aborting';
	return $job;
}

sub end_load
{
	my ($job, $how, $what) = @_;
	release(9) if $how ne 'cancelled';
	is(finish($job), "ERROR:  57014\n", "$what: the load was cancelled");
}

# Another session's load, of which worker and owner have put in a part, when this returns.
sub other_load
{
	hold($node, 8);
	my $job = start_psql($node, 'postgres', q{/* other */ INSERT INTO t SELECT 2000000 + g, 'other' FROM generate_series(1, 6000) g
		UNION ALL SELECT 2000000, 'other' FROM pg_advisory_lock_shared(8) UNION ALL SELECT 2000000 + g, 'other' FROM generate_series(6001, 9000) g});
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '/* other */%'})) or die 'the other load does not come';
	return $job;
}

# New rows in the places of the dead ones
sub new_rows
{
	my ($what) = @_;
	my $blocks = $node->safe_psql('postgres', q{SELECT pg_relation_size('t') / current_setting('block_size')::int});
	$node->safe_psql('postgres', q{SET mtpower.batching = off; INSERT INTO t SELECT 1000000 + g, 'new ' || g FROM generate_series(1, 12000) g});
	cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE a BETWEEN 1000000 AND 1012000 AND ctid < '($blocks, 0)'"), '>', 6000,
		"$what: new rows take the places of the dead ones");
}

sub workers_idle
{
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM mtpower.stat_workers WHERE loader_pid IS NOT NULL') or die 'a worker goes on and on';
}

sub check
{
	my ($what, $how) = @_;
	my $err;
	workers_idle();
	foreach my $i ('a', 'b', 'c')
	{
		is($node->psql('postgres', "SELECT verify_one('t_$i')", stderr => \$err), 0, "$what: t_$i verifies") or diag($err);
	}
	is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FILTER (WHERE a < 0) FROM t WHERE } .
			($hash ? q{b = ANY (ARRAY(SELECT 'aborted ' || g FROM generate_series(1, 12000) g)) OR a = ANY (ARRAY(SELECT -g FROM generate_series(1, 12000) g))} : q{b > 'ab' AND b < 'abz'})), 0,
		"$what: no stranger's row comes");
	# By each index alone: amcheck does not look where entries lead.
	foreach my $i ($btree ? ('a', 'b', 'c') : ())
	{
		my $others = join(', ', map { "t_$_" } grep { $_ ne $i } 'a', 'b', 'c');
		is($node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; DROP INDEX $others; SELECT count(*) FROM t WHERE "
				. ($i eq 'b' ? q{b > 'ab' AND b < 'abz'} : 'a < 0') . '; ROLLBACK'), 0, "$what: none comes by t_$i");
	}
	is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE b = 'other'), count(*) FILTER (WHERE b = 'kept'), count(*) FROM t}),
		$how eq 'savepoint' ? '9001|100|23101' : '9001|0|23001', "$what: rows");
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
	$node->safe_psql('postgres', 'DELETE FROM t WHERE a > 2000; VACUUM t');
}

# Points at which VACUUM has to wait for the worker, and what it waits for: the step, or a btree's leaf
my $fenced = $btree ? qr/locked/ : qr/registered|checked|applied/;
my $fence = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'VACUUM%' AND backend_type IN ('client backend', 'parallel worker') AND }
  . ($btree ? q{wait_event = 'BufferContent'} : q{wait_event_type = 'Extension'});

# Does VACUUM wait for a worker?  Not if it ends.
sub fenced
{
	my ($job) = @_;
	for (my $tries = 0; $tries < 1800 && $job->{run}->pumpable; $tries++)
	{
		return 1 if $node->safe_psql('postgres', $fence) eq 't';
		$job->{run}->pump_nb;
		sleep(0.1);
	}
	return 0;
}

# VACUUM comes while the worker stands at the point.  Between registration and the step's end it has to wait; before and after it
# need not, since the worker sees that the transaction is over.  In a btree the worker looks when it has locked the leaf.
sub vacuum_beside
{
	my ($point, $vacuum, $how) = @_;
	my $what = "$point, $how, $vacuum";
	my $load = aborted_load($point, $how);

	# While it runs a unit, or the pages that it reads could be recycled.
	is($node->safe_psql('postgres', "SELECT DISTINCT backend_xmin IS NOT NULL FROM pg_stat_activity WHERE $worker AND wait_event = 'advisory'"),
		$point eq 'worker_claimed' ? 'f' : 't', "$what: the worker's snapshot");
	my $other = other_load();
	my $job = start_psql($node, 'postgres', $vacuum);
	if ($point =~ $fenced)
	{
		ok(fenced($job), "$what: waits for the " . ($btree ? 'leaf' : 'step'));
		release(155);
		is(finish($job), '', "$what: ends");
		new_rows($what);
	}
	else
	{
		is(finish($job), '', "$what: ends");
		new_rows($what);
		release(155);
	}
	release(8);
	is(finish($other), '', "$what: the other load goes on");
	end_load($load, $how, $what);
	check($what, $how);
}

# The worker goes on while VACUUM stands at a point of its own.
sub vacuum_held
{
	my ($at, $point, $vacuum, $how) = @_;
	my $what = "$at, $point, $how, $vacuum";
	my $load = aborted_load($point, $how);
	my $other = other_load();
	hold($node, 7);
	my $job = start_psql($node, 'postgres', "SET mtpower.debug_injection = '$at=wait7'", $vacuum);
	$node->poll_query_until('postgres', waits_sql(q{query LIKE '%VACUUM%'})) or die "VACUUM does not come to $at";
	release(155);
	release(8);
	is(finish($other), '', "$what: the other load goes on");
	workers_idle();
	release(7);
	is(finish($job), '', "$what: ends");
	new_rows($what);
	end_load($load, $how, $what);
	check($what, $how);
}

my @vacuums = ('VACUUM (PARALLEL 0) t', 'VACUUM (PARALLEL 2) t');
my @hows = ('cancelled', 'savepoint');
my @points = ('worker_claimed', 'step_begins', 'step_registered', 'step_checked', 'step_applied', 'step_gone');
my @beside = (@points, $btree ? 'btree_locked' : ());
foreach my $point (@beside)
{
	foreach my $vacuum (@vacuums)
	{
		foreach my $how (@hows)
		{
			# In short, serial VACUUM beside cancelled statements, parallel beside savepoints.
			vacuum_beside($point, $vacuum, $how) if $ENV{MTP_LONG} || ($vacuum eq $vacuums[0]) == ($how eq $hows[0]);
		}
	}
}
foreach my $point ($ENV{MTP_LONG} ? @beside : ('step_begins', 'step_checked', $btree ? 'btree_locked' : ()))
{
	vacuum_beside($point, $vacuums[0], 'aborting');
}
my $n = 0;
# Core's VACUUM of a btree has no such points.
foreach my $at ($btree ? () : ('vacuum_begins', 'vacuum_fenced', 'vacuum_middle', 'vacuum_ends'))
{
	foreach my $point (@points)
	{
		# Past its fence VACUUM does not come to its next point as long as the worker stands within a step.
		next if $at ne 'vacuum_begins' && $point =~ $fenced;
		foreach my $variant ($ENV{MTP_LONG} ? (0 .. 3) : ($n++ % 4))
		{
			vacuum_held($at, $point, $vacuums[$variant % 2], $hows[$variant >> 1]);
		}
	}
}
$node->stop;
done_testing();
