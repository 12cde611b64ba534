# Errors while the owner inserts sorted entries into core's btrees. Whoever catches them, the
# statement fails; what may be repeated is. An owner that waits for another session's key is
# cancelled, terminated and killed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpSessions qw(kill_and_restart);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
mtpower.batch_memory = '4MB'
autovacuum = off
restart_after_crash = on
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE TABLE t (id int PRIMARY KEY, a int, b text) USING mtpower;
CREATE INDEX t_a ON t (a);
CREATE INDEX t_b ON t (b, a);
CREATE FUNCTION sound() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (SELECT bt_index_parent_check(indexrelid, true, true) FROM pg_index WHERE indrelid = 't'::regclass OFFSET 0) x $$;
-- At row 1500 of a statement: what is queued is applied for this scan, with an error at a point, and the error is caught.
CREATE FUNCTION meddle(i int, point text) RETURNS int LANGUAGE plpgsql VOLATILE SET enable_seqscan = off SET enable_bitmapscan = off AS $$
BEGIN
	IF i = 1500 THEN
		BEGIN
			PERFORM set_config('mtpower.debug_injection', point || '=error', true);
			PERFORM count(*) FROM t WHERE a > 0;
		EXCEPTION WHEN internal_error THEN
			RAISE WARNING 'caught: %', SQLERRM;
		END;
		PERFORM set_config('mtpower.debug_injection', '', true);
	END IF;
	RETURN i;
END $$;
});
my $assertions = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';

# Runs SQL; returns its error's first line, or ''; the second value is how many errors were caught in it.
sub run_sql
{
	my ($sql) = @_;
	my $err = '';
	$node->psql('postgres', $sql, stderr => \$err);
	my $caught = () = $err =~ /caught/g;
	my ($message) = $err =~ /ERROR:  (.*)/;
	return ($message // '', $caught);
}

sub state_is
{
	my ($rows, $what) = @_;
	is($node->safe_psql('postgres', 'SELECT count(*), sound() FROM t'), "$rows|3", "$what: $rows rows, and sound indexes");
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
}

SKIP:
{
	skip 'points need a server with assertions', 1 if !$assertions;
	my $load = 'SET mtpower.core_indexes = insert; INSERT INTO t SELECT i, meddle(i, %s), md5(i::text) FROM generate_series(1, 4000) i';

	# What is caught in the middle of the insertion comes back at the statement's end.
	foreach my $point (qw(btree_insert))
	{
		my ($message, $caught) = run_sql(sprintf($load, "'$point'"));
		is($caught, 1, "$point: the error is caught");
		is($message, qq{error at injection point "$point"}, "$point: and the statement fails by it");
		state_is(0, $point);

		# A handler around the statement ends it.
		my $text = sprintf($load, "''$point''");
		($message, $caught) = run_sql(qq{DO \$\$ BEGIN EXECUTE '$text'; EXCEPTION WHEN internal_error THEN RAISE WARNING 'caught around'; INSERT INTO t VALUES (1); END \$\$});
		is("$message $caught", ' 2', "$point: the handler around goes on");
		state_is(1, "$point, caught around");
		$node->safe_psql('postgres', 'TRUNCATE t');
	}

	# Where no insertion is under way, all is repeated.
	foreach my $point (qw(sort cut step_checked step_applied step_gone))
	{
		$node->safe_psql('postgres', 'ALTER SYSTEM SET mtpower.workers = 0; SELECT pg_reload_conf()');
		my ($message, $caught) = run_sql(sprintf($load, "'$point'"));
		is("$message $caught", ' 1', "$point: caught, and repeated");
		state_is(4000, $point);
		$node->safe_psql('postgres', 'TRUNCATE t; ALTER SYSTEM RESET mtpower.workers; SELECT pg_reload_conf()');
	}

	# A worker's error in sorting is its owner's affair.
	my ($message) = run_sql(q{SET mtpower.batch_size = '64kB'; INSERT INTO t SELECT i, i, md5(i::text) FROM generate_series(1, 20000) i});
	is($message, '', 'many batches');
	state_is(20000, 'many batches');
	$node->safe_psql('postgres', 'TRUNCATE t');
}

# A function's lock_timeout is not the load's.
{
	$node->safe_psql('postgres', q{CREATE FUNCTION peek(i int) RETURNS int LANGUAGE plpgsql SET lock_timeout = '50ms' SET enable_seqscan = off AS $$
	BEGIN
		IF i = 900 THEN PERFORM count(*) FROM t WHERE id < 0; END IF;
		RETURN i;
	END $$});
	my $first = $node->background_psql('postgres');
	$first->query_safe('BEGIN; INSERT INTO t VALUES (700)');
	my ($out, $err) = ('', '');
	my $second = IPC::Run::start([ 'psql', '-XAt', '-d', $node->connstr('postgres') . " application_name=second", '-c',
			q{INSERT INTO t SELECT peek(i) FROM generate_series(1, 1000) i} ], '<', '/dev/null', '>', \$out, '2>', \$err);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'second' AND wait_event = 'transactionid'}),
		'a load waits within a function that has a lock_timeout');
	sleep 0.3;
	$first->query_safe('ROLLBACK');
	$first->quit;
	$second->finish;
	is($err, '', 'the load goes on');
	state_is(1000, 'lock_timeout');
	$node->safe_psql('postgres', 'TRUNCATE t');
}

# Where the owner alone inserts, nobody else can apply what a load holds, so it leaves a quarter of the memory to others.
{
	my ($out, $err) = ('', '');
	my $silent = IPC::Run::start([ 'psql', '-XAt', '-d', $node->connstr('postgres') . " application_name=silent", '-c', 'SET mtpower.core_indexes = insert', '-c',
			q{COPY t FROM PROGRAM 'seq -f "%.0f	1	x" 1 250000; sleep 600'} ], '<', '/dev/null', '>', \$out, '2>', \$err);
	my ($held, $before, $total) = (0, -1);
	while ($held != $before || $held == 0)
	{
		$before = $held;
		sleep 0.5;
		($held, $total) = split /\|/, $node->safe_psql('postgres', 'SELECT held_bytes, total_bytes FROM mtpower.stat_memory');
	}
	cmp_ok($held, '>', 0, 'a silent load holds memory');
	cmp_ok($held, '<=', $total * 3 / 4, 'and leaves a quarter');
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'silent'});
	$silent->finish;
	state_is(0, 'silent load');
}

# The first session has inserted a key and goes on; the second one's load waits for it.
foreach my $end ('pg_cancel_backend', 'pg_terminate_backend', 'commit', 'rollback', 'kill')
{
	$node->safe_psql('postgres', 'TRUNCATE t; INSERT INTO t SELECT -i, i FROM generate_series(1, 1000) i');
	my $first = $node->background_psql('postgres', on_error_stop => 0);
	$first->query_safe('BEGIN; INSERT INTO t VALUES (2500)');
	my ($out, $err) = ('', '');
	my $second = IPC::Run::start([ 'psql', '-XAt', '-d', $node->connstr('postgres') . " application_name=second", '-c',
			q{INSERT INTO t SELECT i, i, md5(i::text) FROM generate_series(1, 4000) i} ], '<', '/dev/null', '>', \$out, '2>', \$err);
	ok($node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'second' AND wait_event = 'transactionid'}),
		"$end: the load waits for the other session");
	my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE application_name = 'second'});
	if ($end eq 'kill') { kill_and_restart($node, $pid) }
	elsif ($end =~ /^pg/) { $node->safe_psql('postgres', "SELECT $end($pid)") }
	else { $first->query_safe(uc $end) }
	$second->finish;
	if ($end eq 'kill') { eval { $first->quit } }
	else { $first->query_safe('COMMIT') if $end =~ /^pg/; $first->quit }
	my %message = (commit => qr/duplicate key value.*\n.*Key \(id\)=\(2500\) already exists/, rollback => qr/^$/, pg_cancel_backend => qr/canceling statement/,
		pg_terminate_backend => qr/terminating connection/, kill => qr/server closed the connection/);
	like($err, $message{$end}, "$end: how the load ends");
	state_is(1000 + ($end eq 'rollback' ? 4000 : $end eq 'kill' ? 0 : 1), $end);
}
$node->stop;
done_testing();
