# Workers fail at injection points; loads run in two databases, beside indexes that move and are
# rebuilt; loads lock each other out. The owner does what a failed worker leaves, real deadlocks
# are found, and a worker comes when places for processes are free again.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions;
use MtpVariant;

my $am = access_method();
my $btree = $am eq 'btree';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_size = 64kB
autovacuum = off
deadlock_timeout = 200ms
allow_in_place_tablespaces = on
});
$node->start;
my $stops = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
my $schema = qq{
CREATE EXTENSION IF NOT EXISTS mtpower;
@{[ verifying() ]}
CREATE TABLE t (a int, b text COLLATE "C") USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
};
$node->safe_psql('postgres', $schema);
my $slow = 'INSERT INTO t SELECT g, g::text FROM generate_series(1, 60) s, LATERAL (SELECT pg_sleep(0.02 + s * 0)) x, LATERAL (SELECT s * 1000 + i AS g FROM generate_series(1, 500) i) y';

sub verify
{
	my ($what, $db, $rows) = @_;
	my $err;
	is($node->psql($db, 'SELECT verify_one(indexrelid) FROM pg_index WHERE indrelid = \'t\'::regclass', stderr => \$err), 0, "$what: indexes verify") or diag($err);
	is($node->safe_psql($db, 'SELECT count(*) FROM t'), $rows, "$what: rows") if defined $rows;
	is($node->safe_psql($db, 'SELECT held_bytes FROM mtpower.stat_memory'), 0, "$what: no memory is held");
}

# What a worker waits for that has nothing to do: since PostgreSQL 17, by a name of its own.
my $idle = $node->pg_version >= 17 ? 'MtpowerWorkerIdle' : 'Extension';
$node->safe_psql('postgres', 'INSERT INTO t SELECT g, g::text FROM generate_series(1, 30000) g; TRUNCATE t');
ok($node->poll_query_until('postgres', "SELECT bool_and(wait_event = '$idle') FROM pg_stat_activity WHERE backend_type = 'mtpower worker'"),
	"an idle worker waits for $idle");

# A worker that fails leaves its work to the owner; an owner that fails ends its statement, no more.
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$stops;
	my $rows = 0;
	my $batch = 'INSERT INTO t SELECT hashint4(g), md5(g::text) FROM generate_series(1, 30000) g UNION ALL SELECT 0, \'\' FROM pg_sleep(0.5)';
	foreach my $point ('worker_claimed=error', 'step_checked=disk_full', 'step_applied=error',
		$btree ? ('btree_allocates=disk_full', 'btree_page_allocated=disk_full', 'btree_split=disk_full') : ('split_begins=disk_full', 'leaf_split=disk_full'))
	{
		my $failed = 'SELECT coalesce(sum(failed_error), 0) FROM mtpower.stat_batches';
		my $before = $node->safe_psql('postgres', $failed);
		set_stop($node, $point);
		foreach (1 .. 10)
		{
			is(finish(start_psql($node, 'postgres', "SET mtpower.debug_injection = ''", $batch)), '', "$point in workers: the load goes on");
			$rows += 30001;
			last if $node->safe_psql('postgres', $failed) > $before;
		}
		cmp_ok($node->safe_psql('postgres', $failed), '>', $before, "$point in workers: counted");
		verify("$point in workers", 'postgres', $rows);
		is(finish(start_psql($node, 'postgres', "SET statement_timeout = '60s'", 'VACUUM t')), '', "$point in workers: VACUUM waits for no step that is over");
		next if $point =~ /claimed/;

		my $code = $point =~ /full/ ? '53100' : 'XX000';
		like(finish(start_psql($node, 'postgres', $batch)), qr/$code/, "$point everywhere: clean error");
		is(finish(start_psql($node, 'postgres', qq{DO \$\$ BEGIN $batch; RAISE 'no error'; EXCEPTION WHEN SQLSTATE '$code' THEN END \$\$})), '', "$point everywhere: caught");
		verify("$point everywhere", 'postgres', $rows);
		set_stop($node, '');
		is(finish(start_psql($node, 'postgres', $batch)), '', "$point: gone");
		$rows += 30001;
		verify("$point: gone", 'postgres', $rows);
		$rows = 0;
		$node->safe_psql('postgres', 'TRUNCATE t');
	}
	set_stop($node, '');

	# A session that fails at a barrier within its statement, with a unit just claimed, can go on.  (Workers leave arrays to it.)
	$node->safe_psql('postgres', qq{
		CREATE TABLE o (a int[]) USING mtpower;
		CREATE INDEX o_a ON o USING $am (a);
		CREATE FUNCTION barrier(i int) RETURNS int LANGUAGE plpgsql AS \$\$
		BEGIN
			IF i = 2000 THEN
				PERFORM set_config('mtpower.debug_injection', 'owner_claimed=error', true);
				PERFORM FROM o WHERE a = '{1}';
			END IF;
			RETURN i;
		EXCEPTION WHEN internal_error THEN
			RETURN -i;
		END \$\$});
	is(finish(start_psql($node, 'postgres', q{SET enable_seqscan = off}, q{SET statement_timeout = '60s'},
		'INSERT INTO o SELECT ARRAY[barrier(g)] FROM generate_series(1, 3000) g')), '', 'an error at a claim is caught');
	is($node->safe_psql('postgres', q{SELECT count(*), min(a), verify_one('o_a'), held_bytes FROM o, mtpower.stat_memory GROUP BY 4}),
		'3000|{-2000}||0', 'and the load goes on');

	# A session that is terminated within a unit of its own gives its memory back.
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(155)');
	my $job = start_psql($node, 'postgres', "SET mtpower.debug_injection = 'owner_claimed=wait'", 'INSERT INTO o SELECT ARRAY[g] FROM generate_series(1, 3000) g');
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'INSERT INTO o%' AND wait_event = 'advisory'}) or die;
	cmp_ok($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), '>', 0, 'memory is held while a unit runs');
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO o%'});
	like(finish($job), qr/57P01/, 'terminated within a unit');
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'and not behind it');
	$holder->quit;
}

# What workers leave to the loading session: indexes whose locks they can't have at once, and comparisons that read catalogs.
{
	my $left = 'SELECT sum(failed_lock) > 0, sum(failed_file + failed_error), sum(entries_workers) FROM mtpower.stat_batches WHERE index = ';
	my $insert = 'INSERT INTO %s SELECT %s FROM generate_series(1, 20) s, LATERAL (SELECT pg_sleep(0.02 + s * 0)) x, LATERAL (SELECT s * 1000 + i AS g FROM generate_series(1, 500) i) y';
	$node->safe_psql('postgres', qq{
		TRUNCATE t;
		CREATE FUNCTION support(internal) RETURNS void LANGUAGE internal AS 'bttextsortsupport';
		CREATE OPERATOR CLASS supported FOR TYPE text USING $am AS OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
			FUNCTION 1 bttextcmp(text, text), FUNCTION 2 support(internal);
		CREATE TABLE cmp (l int[], m numrange, s text COLLATE "C")@{[ $btree ? ' USING mtpower' : '' ]};
		CREATE INDEX cmp_l ON cmp USING $am (l);
		CREATE INDEX cmp_m ON cmp USING $am (m);
		CREATE INDEX cmp_s ON cmp USING $am (s supported)});
	my $load = sprintf($insert, 't', 'g, g::text');
	foreach my $lock ('LOCK TABLE t', 'REINDEX INDEX t_a')
	{
		foreach (1 .. 5)
		{
			$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
			is(finish(start_psql($node, 'postgres', "SET statement_timeout = '60s'", 'BEGIN', $lock, $load, 'COMMIT')), '', "load behind $lock");
			last if $node->safe_psql('postgres', $left . "'t_a'::regclass") =~ /^t/;
		}
		is($node->safe_psql('postgres', $left . "'t_a'::regclass"), 't|0|0', "$lock: workers leave t_a to the session");
	}
	# Refused once, a batch's successors bring no worker that is refused again: one may have begun meanwhile.
	$node->safe_psql('postgres', q{SELECT mtpower.stat_reset('batches')});
	is(finish(start_psql($node, 'postgres', "SET statement_timeout = '60s'", 'BEGIN', 'LOCK TABLE t', sprintf($insert =~ s/1, 20/1, 300/r, 't', 'g, g::text'), 'COMMIT')), '', 'a load of many batches behind LOCK TABLE');
	is($node->safe_psql('postgres', "SELECT min(batches) > 10, max(failed_lock) <= 2 FROM mtpower.stat_batches WHERE index IN ('t_a'::regclass, 't_b'::regclass)"), 't|t', 'workers are refused once for each index')
		or diag($node->safe_psql('postgres', 'SELECT index, batches, failed_lock FROM mtpower.stat_batches'));
	verify('locks', 'postgres');
	is(finish(start_psql($node, 'postgres', sprintf($insert, 'cmp', 'ARRAY[g], numrange(g, g + 1), g::text'))), '', 'load of indexes on an array, a range, and with sort support that is not built in');
	is($node->safe_psql('postgres', $left . "ANY ('{cmp_l,cmp_m,cmp_s}'::regclass[])"), 'f|0|0', 'workers leave them alone');
	is($node->safe_psql('postgres', 'SELECT count(verify_one(indexrelid)) FROM pg_index WHERE indrelid = \'cmp\'::regclass'), 3, 'they verify');
}

$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION ''");
$node->safe_psql('template1', $schema);
$node->safe_psql('postgres', "CREATE DATABASE d2; CREATE DATABASE d4");

# One worker, two databases
{
	$node->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
	my @jobs = map { start_psql($node, $_, ($slow) x 2) } 'd2', 'd4';
	is(finish($_), '', 'load beside another one in another database') foreach @jobs;
	# The worker moves over after a second; a short load may be over by then, done by its own session.
	cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM (SELECT database FROM mtpower.stat_batches WHERE entries_workers > 0 GROUP BY 1) x'), '>=', 1, 'the worker served');
}

# A database that takes no more connections is still served where a session is loading.
{
	my $session = $node->background_psql('d2');
	$node->safe_psql('postgres', q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'mtpower worker'});
	$node->safe_psql('postgres', q{ALTER DATABASE d2 ALLOW_CONNECTIONS false; SELECT mtpower.stat_reset('batches')});
	my $served = 0;
	foreach (1 .. 5)
	{
		$session->query_safe($slow);
		$served = $session->query_safe('SELECT coalesce(sum(entries_workers), 0) FROM mtpower.stat_batches');
		last if $served > 0;
	}
	cmp_ok($served, '>', 0, 'a worker serves a database that allows no connections');
	unlike(slurp_file($node->logfile), qr/not currently accepting connections/, 'and is not turned away');
	$session->quit;
	$node->safe_psql('postgres', 'ALTER DATABASE d2 ALLOW_CONNECTIONS true');
}

# Places that other background workers have had, and left, are free again.
{
	$node->safe_psql('postgres', q{
		CREATE TABLE wide (i int) WITH (parallel_workers = 8);
		INSERT INTO wide SELECT generate_series(1, 100000);
		CREATE FUNCTION dwell(int) RETURNS bool PARALLEL SAFE LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.01); RETURN true; END $$;
		SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'mtpower worker'});
	my $parallel = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'};
	my $wide = start_psql($node, 'postgres', 'SET max_parallel_workers_per_gather = 8', 'SELECT count(*) FROM wide WHERE dwell(i)');
	$node->poll_query_until('postgres', "SELECT ($parallel) >= 5") or die;
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT count(*) FROM wide%' AND backend_type = 'client backend'});
	like(finish($wide), qr/57014/, 'a query that had all places for background workers was cancelled');
	$node->poll_query_until('postgres', "SELECT ($parallel) = 0") or die;
	my $from = -s $node->logfile;
	$node->safe_psql('postgres', $slow);
	unlike(slurp_file($node->logfile, $from), qr/could not start a batch worker/, 'a load has a worker thereafter');
	$node->safe_psql('postgres', 'DROP TABLE wide');
}

# Deadlocks are core's
$node->safe_psql('postgres', q{
	CREATE TABLE r (id int); INSERT INTO r VALUES (1), (2);
	CREATE FUNCTION lock_row(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN UPDATE r SET id = id WHERE id = i; RETURN i; END $$;
	CREATE FUNCTION meet(i int) RETURNS text LANGUAGE plpgsql AS $$	-- waits until both loads have their first row
	BEGIN
		PERFORM pg_advisory_xact_lock(i);
		FOR tries IN 1 .. 6000 LOOP
			EXIT WHEN (SELECT count(*) = 2 FROM pg_locks WHERE locktype = 'advisory' AND granted);
			PERFORM pg_sleep(0.01);
		END LOOP;
		RETURN '';
	END $$;
	TRUNCATE t;});
my @jobs = map { my ($x, $y) = $_ == 1 ? (1, 2) : (2, 1); start_psql($node, 'postgres',
	qq{INSERT INTO t SELECT CASE g WHEN 3000 THEN lock_row($x) WHEN 20000 THEN lock_row($y) ELSE g END, CASE g WHEN 6000 THEN meet($x) ELSE '' END FROM generate_series(1, 30000) g}) } 1, 2;
my @errors = map { finish($_) } @jobs;
is(scalar(grep { /40P01/ } @errors), 1, 'one of two loads that lock each other out gets the deadlock error') or diag(@errors);
verify('deadlock', 'postgres', 30000);

# The indexes move, or are built anew, beside loads and between the statements of an open transaction
my $rows = 30000;
foreach my $commands (
	[ map { ("ALTER INDEX t_a SET TABLESPACE ts", "ALTER INDEX t_b SET TABLESPACE ts", "ALTER INDEX t_a SET TABLESPACE pg_default", "ALTER INDEX t_b SET TABLESPACE pg_default") } 1 .. 3 ],
	[ 'REINDEX INDEX CONCURRENTLY t_a', "CREATE INDEX CONCURRENTLY t_n ON t USING $am (b, a)" ])
{
	my @jobs = (start_psql($node, 'postgres', 'BEGIN', ($slow) x 2, 'COMMIT'), start_psql($node, 'postgres', ($slow) x 2), start_psql($node, 'postgres', @$commands), start_psql($node, 'postgres', ('VACUUM t') x 4));
	is(finish($_), '', "loads beside VACUUM and $commands->[0]") foreach @jobs;
	$rows += 4 * 30000;
	verify($commands->[0], 'postgres', $rows);
}
$node->stop;
done_testing();
