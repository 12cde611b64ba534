# CREATE INDEX and REINDEX with parallel workers make the very pages that they make without,
# whoever reads the table: workers and the leader, or workers alone. An error of a worker, a cancel,
# and a worker that is terminated or killed leave no index and no file, and a server that goes on.
# Variants: blink hash zone
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpSessions qw(takes_connections);

my $am = 'mtpower_' . ($ENV{MTP_VARIANT} || 'blink');
my $blink = $am eq 'mtpower_blink';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
max_worker_processes = 16
max_parallel_workers = 4
max_parallel_maintenance_workers = 2
restart_after_crash = on
});
$node->start;
my $smallest = $node->safe_psql('postgres', "SELECT min_val FROM pg_settings WHERE name = 'maintenance_work_mem'");

# Rows of which some are equal, NULL, updated in place, or deleted.
sub rows
{
	my ($table, $table_am) = @_;
	return qq{
		CREATE TABLE $table (a int, t text COLLATE "C", b int, filler text) USING $table_am WITH (parallel_workers = 2, fillfactor = 70);
		INSERT INTO $table SELECT nullif((g * 7919::bigint) % 30011, 5), md5((g % 50000)::text), g % 7, repeat('x', 20) FROM generate_series(1, 60000) g;
		UPDATE $table SET filler = 'y' WHERE b = 3;
		DELETE FROM $table WHERE b = 4;
	};
}
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE EXTENSION pageinspect;
	-- All that a file's pages hold but for LSN and checksum
	CREATE FUNCTION pages(index regclass, OUT n bigint, OUT hash text) LANGUAGE sql AS $$
		SELECT count(*), md5(string_agg(md5(substr(get_raw_page(index::text, b::int), 11)), '' ORDER BY b))
		FROM generate_series(0, pg_relation_size(index) / current_setting('block_size')::int - 1) b $$;
	CREATE FUNCTION no_temp_files() RETURNS bool LANGUAGE sql AS 'SELECT count(*) = 0 FROM pg_ls_tmpdir()';
} . rows('m', 'mtpower') . rows('h', 'heap'));

# What a statement says at DEBUG1, or at 'error' otherwise.
sub said
{
	my ($sql, %options) = @_;
	my $err = '';
	my $status = $node->psql('postgres', $sql, stderr => \$err, on_error_stop => 1, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
	ok($options{fails} ? $status != 0 : $status == 0, $options{name}) or diag($err);
	return $err;
}

# ---------- the same pages ----------

my ($alone, $with_leader, $without_leader) = ('max_parallel_maintenance_workers = 0', 'parallel_leader_participation = on', 'parallel_leader_participation = off');

# Builds the index one way, and says what came of it.
sub build
{
	my ($table, $definition, $memory, $way, $name) = @_;
	my $err = said("SET client_min_messages = debug1; SET maintenance_work_mem = '$memory'; SET $way; CREATE INDEX i ON $table USING $am $definition", name => "$name: is built");
	if ($way eq $alone) { unlike($err, qr/parallel workers/, "$name: no workers"); }
	else { like($err, qr/building index "i" with 2 of 2 parallel workers/, "$name: two workers"); }
	my $result = $node->safe_psql('postgres', q{SELECT pages('i'), (SELECT reltuples FROM pg_class WHERE oid = 'i'::regclass), mtpower.verify_index('i', true)});
	$node->safe_psql('postgres', 'DROP INDEX i');
	return $result;
}

my @definitions = ([ '(a)', '64MB' ], [ '(a)', "${smallest}kB" ], [ '(t)', '1MB' ], [ '(t, b)', "${smallest}kB" ], [ '(lower(t)) WHERE b > 1', '1MB' ]);
# So large are keys that workers merge runs before they leave them.
push @definitions, [ '(rpad(t, 480, t))', "${smallest}kB" ] if $blink;
push @definitions, [ '(t DESC NULLS FIRST, (a / 7)) INCLUDE (b)', '4MB' ] if $blink;
push @definitions, [ '(b)', '1MB' ] if !$blink;
foreach my $table ('m', 'h')
{
	foreach my $case (@definitions)
	{
		my ($definition, $memory) = @$case;
		my $name = "$table $definition, $memory";
		my $serial = build($table, $definition, $memory, $alone, "$name, serial");
		is(build($table, $definition, $memory, $with_leader, "$name, with the leader"), $serial, "$name: the leader and two workers make the same");
		is(build($table, $definition, $memory, $without_leader, "$name, without the leader"), $serial, "$name: two workers make the same");
	}
}
is($node->safe_psql('postgres', 'SELECT no_temp_files()'), 't', 'no temporary file is left');
if ($blink)
{
	my $query = 'SELECT md5(array_agg(t)::text), count(*) FROM (SELECT t FROM m ORDER BY t) s';
	my $by_index = 'SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off;';
	$node->safe_psql('postgres', 'CREATE INDEX i ON m USING mtpower_blink (t); VACUUM m');
	like($node->safe_psql('postgres', "$by_index EXPLAIN $query"), qr/Index Only Scan/, 'an index-only scan');
	is($node->safe_psql('postgres', "$by_index $query"), $node->safe_psql('postgres', "SET enable_indexonlyscan = off; SET enable_indexscan = off; $query"),
		'... finds what the table has');
	$node->safe_psql('postgres', 'DROP INDEX i');
}

# ---------- whether there are workers ----------

sub workers_of
{
	my ($sql, $name) = @_;
	my $err = said("SET client_min_messages = debug1; SET parallel_leader_participation = off; $sql", name => "$name: works");
	return join(', ', map { s/ parallel workers//r } $err =~ /building index "\w+" with (\d+ of \d+ parallel workers)/g);
}

$node->safe_psql('postgres', q{
	CREATE FUNCTION unsafe(i int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN i; END';
	CREATE TABLE empty (a int) WITH (parallel_workers = 2);
	CREATE TABLE one (a int) WITH (parallel_workers = 2); INSERT INTO one VALUES (1);
	CREATE TABLE parted (a int) PARTITION BY HASH (a);
	CREATE TABLE p1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0) WITH (parallel_workers = 1);
	CREATE TABLE p2 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1) USING mtpower WITH (parallel_workers = 2);
	INSERT INTO parted SELECT generate_series(1, 1000);
	CREATE UNLOGGED TABLE un WITH (parallel_workers = 1) AS SELECT * FROM m;
	CREATE TABLE plain USING mtpower AS SELECT * FROM m;
});
my $create = "CREATE INDEX i ON m USING $am (a)";
is(workers_of("SET max_parallel_workers = 0; $create", 'no worker processes'), '0 of 2', 'without worker processes the leader builds alone');
is(workers_of("SET max_parallel_workers = 1; REINDEX INDEX i", 'REINDEX'), '1 of 2', '... or with those that there are');
is(workers_of('REINDEX INDEX CONCURRENTLY i', 'REINDEX CONCURRENTLY'), '2 of 2', 'REINDEX CONCURRENTLY asks for workers');
is(workers_of("CREATE INDEX CONCURRENTLY j ON m USING $am (b)", 'CONCURRENTLY'), '2 of 2', 'CREATE INDEX CONCURRENTLY asks for workers');
is(workers_of("CREATE INDEX ON m USING $am (unsafe(a))", 'a function'), '', 'not with an expression that is not parallel safe');
is(workers_of("CREATE INDEX ON m USING $am (a) WHERE unsafe(a) > 1", 'a predicate'), '', '... nor with such a predicate');
is(workers_of("CREATE TEMP TABLE tmp WITH (parallel_workers = 2) AS SELECT a FROM m; CREATE INDEX tmpi ON tmp USING $am (a)", 'a temporary table'),
	'', '... nor on a temporary table');
is(workers_of("CREATE INDEX ON empty USING $am (a); BEGIN; TRUNCATE m; ROLLBACK", 'an empty table'), '', '... nor on an empty one');
is(workers_of("CREATE INDEX ON one USING $am (a)", 'a row'), '2 of 2', 'a single row, which one worker finds');
is(workers_of("CREATE INDEX ON parted USING $am (a)", 'partitions'), '1 of 1, 2 of 2', 'partitions, each for itself');
is(workers_of("CREATE INDEX ON un USING $am (t)", 'an unlogged table'), '1 of 1', 'an unlogged table');
is(workers_of("CREATE INDEX p ON plain USING $am (a)", 'a small table'), '', 'a small table without the storage parameter is built serially');
is(workers_of("SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '64MB'; REINDEX INDEX p", 'by size'), '1 of 1',
	'by size: one worker has 32 MB, as the leader has');
is(workers_of("SET min_parallel_table_scan_size = 0; SET maintenance_work_mem = '63MB'; REINDEX INDEX p", 'by size'), '', '... none has less');
is(workers_of("BEGIN; CREATE TABLE own USING mtpower AS SELECT * FROM m; ALTER TABLE own SET (parallel_workers = 2); CREATE INDEX ON own USING $am (a);
	UPDATE own SET a = a + 1; CREATE INDEX ON own USING $am (t); COMMIT", 'a new table'), '2 of 2, 2 of 2', 'a table of the same transaction');
is(workers_of("BEGIN ISOLATION LEVEL SERIALIZABLE; SET LOCAL mtpower.batch_min_rows = 0; INSERT INTO m SELECT g, g::text, g FROM generate_series(1, 5000) g;
	CREATE INDEX ON m USING $am (t); COMMIT", 'behind a load'), '2 of 2', 'a table into which the transaction has loaded');
is($node->psql('postgres', "SELECT mtpower.verify_index(indexrelid, true) FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relam = (SELECT oid FROM pg_am WHERE amname = '$am') AND relkind = 'i'"),
	0, 'all of these agree with their tables');

# ---------- what the leader learns from workers ----------

$node->safe_psql('postgres', q{
	CREATE TABLE broken (a int, b int) USING mtpower WITH (parallel_workers = 1, fillfactor = 50); INSERT INTO broken SELECT g, g FROM generate_series(1, 1000) g});
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM one');
$node->safe_psql('postgres', 'UPDATE broken SET b = -b');
is(workers_of("CREATE INDEX broken_b ON broken USING $am (b)", 'HOT chains'), '1 of 1', 'broken HOT chains: one worker');
# A zone index has all versions; of the others older snapshots must not use it.
is($node->safe_psql('postgres', q{SELECT indcheckxmin FROM pg_index WHERE indexrelid = 'broken_b'::regclass}), $am =~ /zone/ ? 'f' : 't', 'which snapshots may use the index');
is($old->query_safe('SET enable_seqscan = off; SET mtpower.enable_directoryscan = off; SELECT count(*) FROM broken WHERE b BETWEEN 100 AND 199'), 100, 'an older one finds its rows');
$old->query_safe('COMMIT');
$old->quit;

# EXPLAIN counts what workers read and write.
$node->safe_psql('postgres', qq{
	CREATE FUNCTION rebuild() RETURNS void LANGUAGE plpgsql SET parallel_leader_participation = off AS 'BEGIN EXECUTE ''REINDEX INDEX i''; END'});
my $explained = $node->safe_psql('postgres', 'EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) SELECT rebuild()');
my ($hit) = $explained =~ /Buffers: shared hit=(\d+)/;
my $blocks = $node->safe_psql('postgres', q{SELECT pg_relation_size('m') / current_setting('block_size')::int});
cmp_ok($hit // 0, '>=', $blocks, "workers' buffers are the statement's");

# Expressions run as the table's owner there too, and restricted.
$node->safe_psql('postgres', q{
	CREATE ROLE o; GRANT ALL ON SCHEMA public TO o;
	CREATE TABLE owned (a int) WITH (parallel_workers = 1); INSERT INTO owned SELECT generate_series(1, 1000); ALTER TABLE owned OWNER TO o;
	CREATE FUNCTION as_owner(i int) RETURNS int IMMUTABLE PARALLEL SAFE LANGUAGE plpgsql AS $$BEGIN
		IF current_user <> 'o' THEN RAISE 'not the owner'; END IF; RETURN i; END$$});
is(workers_of("CREATE INDEX ON owned USING $am (as_owner(a))", 'expressions'), '1 of 1', "expressions run as the table's owner");

# ---------- faults ----------

sub clean
{
	my ($name) = @_;
	ok($node->poll_query_until('postgres', q{SELECT no_temp_files() AND count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'parallel worker'}),
		"$name: no worker and no file stays behind");
	is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_class WHERE relname = 'failed'}), '0', "$name: no index is left");
	is(workers_of("CREATE INDEX again ON m USING $am (t)", "$name, again"), '2 of 2', "$name: the next build has its workers");
	is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('again', true); DROP INDEX again}), '', "$name: ... and is right");
}

foreach my $memory ('64MB', "${smallest}kB")
{
	# The row is the last, so that runs are there.
	$node->safe_psql('postgres', "INSERT INTO m VALUES (100000)");
	my $err = said("SET parallel_leader_participation = off; SET maintenance_work_mem = '$memory'; CREATE INDEX failed ON m USING $am ((1 / (a - 100000)))",
		fails => 1, name => "an expression fails with $memory");
	like($err, qr/22012: division by zero.*parallel worker/s, "... in a worker");
	clean("error with $memory");
}

my $f = MtpFaults->new($node, 'm');
SKIP:
{
	skip 'no injection points', 1 if !$f->has_stops;
	my $worker = q{backend_type = 'parallel worker'};
	my @begin = ('SET parallel_leader_participation = off', "SET mtpower.debug_injection = 'build_worker=wait'");
	my $failed = "CREATE INDEX failed ON m USING $am (a)";

	# Workers stand at the beginning of the scan, the leader waits for them.
	foreach my $case (
		[ 'pg_cancel_backend', '57014', sub { my ($job) = @_; $node->safe_psql('postgres', 'SELECT pg_cancel_backend(' . $f->pid_of($job) . ')') } ],
		[ 'pg_terminate_backend', '57P01', sub { my ($job) = @_; $node->safe_psql('postgres', 'SELECT pg_terminate_backend(' . $f->pid_of($job) . ')') } ],
		[ 'a worker is terminated', '57P01', sub { my ($job, $pid) = @_; $node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)") } ])
	{
		my ($name, $state, $act) = @$case;
		$f->hold;
		my $job = $f->start(@begin, $failed);
		my ($pid) = $f->stopped($worker, 2);
		is($node->safe_psql('postgres', 'SELECT command, phase FROM pg_stat_progress_create_index'), $blink ? 'CREATE INDEX|building index: scanning table' : 'CREATE INDEX|building index: scanning table',
			"$name: it scans");
		is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE $worker AND query LIKE 'CREATE INDEX failed%' AND leader_pid = " . $f->pid_of($job)), '2',
			"$name: workers say what they do");
		$act->($job, $pid);
		like($f->finish($job), qr/$state/, "$name: error");
		$f->release;
		clean($name);
	}
	$f->hold;
	like($f->finish($f->start(@begin, "SET statement_timeout = '300ms'", $failed)), qr/57014/, 'statement_timeout');
	$f->release;
	clean('statement_timeout');

	# In the same session, after a savepoint.
	$f->hold;
	my $job = $f->start(@begin, q{DO $$BEGIN
		BEGIN SET LOCAL statement_timeout = 0; EXECUTE 'CREATE INDEX failed ON m USING } . $am . q{ ((1 / (a - 100000)))';
		EXCEPTION WHEN division_by_zero THEN CREATE INDEX caught ON m USING } . $am . q{ (a); END; END$$});
	$f->stopped($worker, 2);
	$f->release;
	is($f->finish($job), '', 'an error of a worker is caught, and the next build goes on');
	is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('caught', true); DROP INDEX caught}), '', '... and is right');
	clean('caught');

	# Both processes spill; one of them waits in the middle: nothing depends on who is first.
	foreach my $leads ('on', 'off')
	{
		$f->hold;
		$job = $f->start("SET parallel_leader_participation = $leads", "SET maintenance_work_mem = '${smallest}kB'", "SET mtpower.debug_injection = 'build_worker=wait'",
			"CREATE INDEX late ON m USING $am (t)");
		$f->stopped($worker, 2);
		$f->wait_for(q{SELECT phase ~ 'sort|upper' FROM pg_stat_progress_create_index}, 'the leader') if $leads eq 'on';
		$f->release;
		is($f->finish($job), '', "workers that come late, leader $leads");
		is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('late', true); DROP INDEX late}), '', '... the index is right');
	}

	# A crash in the middle.
	$f->hold;
	$job = $f->start(@begin, $failed);
	my ($pid) = $f->stopped($worker, 2);
	kill('KILL', $pid);
	eval { $job->{run}->finish };
	eval { $f->release };
	for (1 .. 1200)
	{
		last if slurp_file($node->logfile) =~ /all server processes terminated; reinitializing/ && takes_connections($node);
		select(undef, undef, undef, 0.05);
	}
	clean('kill -9');
}
my $log = slurp_file($node->logfile);
unlike($log, qr/TRAP|PANIC/, 'no assertion failed');
unlike($log, qr/temporary file leak|resource was not closed/, 'nothing leaked');

$node->stop;
done_testing();
