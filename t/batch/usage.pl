# What users see of a load: EXPLAIN, pg_stat_statements and pg_stat_wal count the index work,
# including the workers' share; views and pg_stat_activity show workers; the log shows batches;
# COPY's progress is true.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpVariant;

my $am = access_method();
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
my ($libdir) = $node->config_data('--pkglibdir');
my $pgss = -e "$libdir/pg_stat_statements.so";
my $libraries = 'mtpower' . ($pgss ? ', pg_stat_statements' : '');
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$libraries'
mtpower.workers = 1
mtpower.batch_memory = 16MB
mtpower.batch_size = 1MB
autovacuum = off
max_wal_size = 4GB
checkpoint_timeout = 1h
log_min_messages = debug1
});
$node->start;
$node->safe_psql('postgres', "CREATE EXTENSION mtpower; CREATE DATABASE other; @{[ verifying() ]}");
$node->safe_psql('postgres', q{CREATE EXTENSION pg_stat_statements}) if $pgss;
$node->safe_psql('other', q{CREATE EXTENSION mtpower});

my $rows = 200_000;
my ($loaded, $err);				# output of start_psql's session
my $source = "SELECT hashint4(i), hashint4(-i), md5(i::text) FROM generate_series(1, $rows) i";

sub make_table
{
	my ($name) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, b int, t text) USING mtpower;
		CREATE INDEX ${name}_a ON $name USING $am (a);
		CREATE INDEX ${name}_b ON $name USING $am (b);
		CREATE INDEX ${name}_t ON $name USING $am (t);
		CHECKPOINT});
}

sub by_workers
{
	my ($name) = @_;
	return $node->safe_psql('postgres', qq{
		SELECT coalesce(sum(entries_workers), 0) FROM mtpower.stat_batches WHERE index::text LIKE '$name%'});
}

# Blocks of a table and of its indexes.
sub pages_of
{
	my ($name) = @_;
	return $node->safe_psql('postgres', qq{
		SELECT sum(pg_relation_size(oid)) / current_setting('block_size')::int FROM pg_class WHERE relname ~ '^${name}(_.)?\$'});
}

# Runs a statement in a session; returns the bytes of WAL that came meanwhile, and the statement's output.
sub wal_of
{
	my ($statement) = @_;
	my $out = $node->safe_psql('postgres', qq{
		SELECT pg_current_wal_insert_lsn() AS lsn \\gset
		$statement;
		SELECT 'wal=' || pg_current_wal_insert_lsn() - :'lsn'});
	$out =~ /wal=(\d+)/ or die "no WAL position in: $out";
	return ($1, $out);
}

sub start_psql
{
	my ($sql, $user) = @_;
	return IPC::Run::start([ 'psql', '-XAt', ($user ? ('-U', $user) : ()), '-d', $node->connstr('postgres'), '-c', $sql ],
		'<', \undef, '>', \$loaded, '2>', \$err);
}

# Nobody else writes WAL; beside records there are page headers, and the commit's record may come later.
sub near
{
	my ($told, $wal, $what) = @_;
	ok($told > 0.95 * $wal && $told <= $wal, $what) or diag("told $told of $wal bytes");
}

# EXPLAIN (ANALYZE, BUFFERS, WAL), until workers have had a good share.
my $share = 0;
for (my $try = 1; $try <= 5 && $share < $rows / 4; $try++)
{
	make_table("explained$try");
	my ($wal, $out) = wal_of(
		"EXPLAIN (ANALYZE, BUFFERS, WAL, COSTS OFF, TIMING OFF) INSERT INTO explained$try $source");
	my ($told) = $out =~ /^Insert on.*?WAL: [^\n]*bytes=(\d+)/s;
	my ($dirtied) = $out =~ /^Insert on.*?Buffers: [^\n]*dirtied=(\d+)/s;
	$share = by_workers("explained$try");
	near($told, $wal, "EXPLAIN tells the WAL of an INSERT, $share of its entries applied by workers");
	# Each page was made, so dirtied, once at least, whoever did it.
	cmp_ok($dirtied, '>=', pages_of("explained$try"), 'and its buffers');
}
cmp_ok($share, '>=', $rows / 4, 'workers had a share');
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), '0', 'no memory is held afterwards');

# What workers did for a statement that failed is not the next one's.
make_table('failed');
my ($wal, $out) = wal_of(qq{
	DO \$\$
	BEGIN
		INSERT INTO failed SELECT hashint4(i), 1 / ($rows - i), md5(i::text) FROM generate_series(1, $rows) i;
	EXCEPTION WHEN division_by_zero THEN
		PERFORM pg_sleep(0.2);
	END \$\$;
	EXPLAIN (ANALYZE, WAL, COSTS OFF, TIMING OFF) INSERT INTO failed SELECT i, i, 'x' FROM generate_series(1, 1000) i});
my ($told) = $out =~ /^Insert on.*?WAL: [^\n]*bytes=(\d+)/s;
cmp_ok(by_workers('failed'), '>', 0, 'workers were at a load that failed');
cmp_ok($told, '<', 1_000_000, 'EXPLAIN of the next statement does not count it');

SKIP:
{
	skip 'there is no pg_stat_statements', 3 if !$pgss;

	make_table('counted');
	my $csv = $node->basedir . '/rows.csv';
	$node->safe_psql('postgres', qq{COPY ($source) TO '$csv' WITH (FORMAT csv)});
	for my $statement ("COPY counted FROM '$csv' WITH (FORMAT csv)", "INSERT INTO counted $source")
	{
		my $kind = substr($statement, 0, 4);
		$node->safe_psql('postgres', 'SELECT pg_stat_statements_reset(); CHECKPOINT');
		($wal) = wal_of($statement);
		near($node->safe_psql('postgres', qq{
			SELECT sum(wal_bytes) FROM pg_stat_statements WHERE query LIKE '$kind%counted%' AND rows = $rows}),
			$wal, "pg_stat_statements tells the WAL of $kind");
	}
	cmp_ok(by_workers('counted'), '>', 0, 'workers had a share');
}

# pg_stat_wal counts what workers wrote, and once.
make_table('once');
$node->safe_psql('postgres', q{SELECT pg_stat_reset_shared('wal')});
($wal) = wal_of("INSERT INTO once $source");
ok($node->poll_query_until('postgres', "SELECT wal_bytes > 0.95 * $wal FROM pg_stat_wal"), 'pg_stat_wal counts a load');
cmp_ok($node->safe_psql('postgres', 'SELECT wal_bytes FROM pg_stat_wal'), '<', 1.02 * $wal, 'and counts it once');
cmp_ok(by_workers('once'), '>', 0, 'workers had a share');

# stat_batches counts the indexes' part of it.
$node->safe_psql('postgres', 'CREATE TABLE without (a int, b int, t text) USING mtpower; CHECKPOINT');
my ($wal_rows) = wal_of("INSERT INTO without $source");
near($node->safe_psql('postgres', q{SELECT sum(wal_bytes) FROM mtpower.stat_batches WHERE index::text LIKE 'once%'}) + $wal_rows, $wal,
	'stat_batches tells the WAL of the indexes');

# Workers at work, seen from their own database and from another one.
make_table('watched');
my $loader = start_psql('INSERT INTO watched SELECT hashint4(i), hashint4(-i), md5(i::text) FROM (SELECT generate_series(1, 5000000)) AS x(i)');
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'INSERT INTO watched%'});
my $pid = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE query LIKE 'INSERT INTO watched%'});

ok($node->poll_query_until('postgres', qq{
	SELECT count(*) > 0 FROM mtpower.stat_workers w JOIN pg_stat_activity a USING (pid)
	WHERE w.loader_pid = $pid AND w.database = 'postgres' AND w.index::text LIKE 'watched%'
		AND w.phase = 'applying' AND w.task >= 0 AND w.entries > 0
		AND a.backend_type = 'mtpower worker' AND a.datname = 'postgres'
		AND a.query = format('index entries of process %s for index %s', $pid, w.index::oid)}),
	'stat_workers and pg_stat_activity show a worker');
ok($node->poll_query_until('postgres', q{
	SELECT sum(queued_bytes) > 0 FROM mtpower.stat_batches WHERE index::text LIKE 'watched%'}),
	'stat_batches shows what is queued');
ok($node->poll_query_until('other', qq{
	SELECT count(*) > 0 FROM mtpower.stat_workers WHERE loader_pid = $pid AND database = 'postgres' AND index IS NULL}),
	'a worker in another database: no name for its index');
is($node->safe_psql('other', q{
	SELECT count(*) FROM mtpower.stat_batches WHERE database = 'postgres' AND index IS NULL AND indexid > 0}) > 2, 1,
	'the same with the counters of indexes in another database');
$node->safe_psql('other', 'CREATE ROLE stranger LOGIN');
is($node->safe_psql('other', 'SET ROLE stranger; SELECT count(*) FROM mtpower.stat_workers'), '0', 'strangers do not see them');
is($node->safe_psql('other', 'SET ROLE stranger; SELECT count(*) FROM mtpower.stat_batches'), '0', 'neither');
ok($node->poll_query_until('postgres', qq{SELECT count(*) > 0 FROM mtpower.stat_workers WHERE loader_pid = $pid}), 'it goes on');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$loader->finish;
like($err, qr/canceling statement/, 'the load is cancelled');
ok($node->poll_query_until('postgres', 'SELECT held_bytes = 0 FROM mtpower.stat_memory'), 'and no memory held');

# What a worker can't have: the session's own lock on the table is in its way.
make_table('locked');
for (1 .. 10)
{
	$node->safe_psql('postgres', "BEGIN; LOCK TABLE locked; INSERT INTO locked $source; COMMIT");
	last if $node->safe_psql('postgres', q{SELECT sum(failed_lock) > 0 FROM mtpower.stat_batches WHERE index::text LIKE 'locked%'}) eq 't';
}
is($node->safe_psql('postgres', q{
	SELECT sum(failed_lock) > 0, sum(failed_file + failed_error + failed_exit), sum(entries_workers), sum(tasks_workers)
	FROM mtpower.stat_batches WHERE index::text LIKE 'locked%'}), 't|0|0|0', 'a table that is locked is left to the session');
ok($node->poll_query_until('postgres', q{
	SELECT count(*) FILTER (WHERE phase = 'idle' AND loader_pid IS NULL AND index IS NULL AND task IS NULL AND database = 'postgres') = count(*)
	FROM mtpower.stat_workers}), 'workers are idle in the end');

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 9 if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';

	# A worker held in its step: the session waits for it; then it is terminated, and the session takes its task over.
	make_table('held');
	$node->safe_psql('postgres', 'CREATE ROLE loader LOGIN; ALTER ROLE loader SET mtpower.debug_injection = \'\'; GRANT INSERT ON held TO loader');
	my $holder = $node->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(155)');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET mtpower.debug_injection = 'step_checked=wait'});
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	my $held;
	for (1 .. 20)
	{
		$loader = start_psql("INSERT INTO held $source", 'loader');
		$loader->pump_nb
			while !($held = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'mtpower worker' AND wait_event = 'advisory'})) && $loader->pumpable;
		last if $held;
		$loader->finish;
	}
	ok($held, 'a worker stands in its step');
	is($node->safe_psql('postgres', qq{SELECT phase, task >= 0, index::text ~ '^held_[abt]\$' FROM mtpower.stat_workers WHERE pid = $held}),
		'applying|t|t', 'as the view shows');
	is($node->safe_psql('postgres', "SET ROLE $_->[0]; SELECT count(*) FROM mtpower.stat_workers WHERE pid = $held"), $_->[1], "to $_->[0]")
	  foreach [ 'loader', 1 ], [ 'stranger', 0 ];
	ok($node->poll_query_until('postgres', q{
		SELECT wait_event_type = 'Extension' FROM pg_stat_activity
		WHERE query LIKE '%INSERT INTO held%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()}), 'the session waits for it');
	$node->safe_psql('postgres', 'ALTER SYSTEM RESET mtpower.debug_injection');
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($held)");
	$loader->finish;
	is($err, '', 'which is terminated, and the load ends');
	$holder->quit;
	is($node->safe_psql('postgres', q{
		SELECT sum(failed_exit), sum(tasks_taken_over), sum(waits) > 0 FROM mtpower.stat_batches WHERE index::text LIKE 'held%'}),
		'1|1|t', 'all of which is counted');
	is($node->safe_psql('postgres', q{SELECT count(*) > 0, bool_and(entries_workers + entries_backends = entries) FROM mtpower.stat_batches WHERE index::text LIKE 'held%'}),
		't|t', 'and every entry once');
	is($node->psql('postgres', q{SELECT verify_one(i) FROM unnest('{held_a,held_b,held_t}'::regclass[]) i}), 0, 'the indexes verify');
}

# COPY's progress: all rows and bytes are counted when the file is read; then the row goes, and entries are applied.
my $progress = $node->basedir . '/progress.fifo';
system('mkfifo', $progress) == 0 or die 'mkfifo';
make_table('progressed');
$loader = start_psql("COPY progressed FROM '$progress' WITH (FORMAT csv)");
open(my $fifo, '>', $progress) or die "fifo: $!";
$fifo->autoflush(1);
print $fifo "$_,$_,x\n" foreach 1 .. 50_000;
ok($node->poll_query_until('postgres', q{
	SELECT tuples_processed > 40000 AND tuples_excluded = 0 AND command = 'COPY FROM' AND type = 'FILE' AND relid = 'progressed'::regclass
	FROM pg_stat_progress_copy}), 'progress of a COPY whose entries are queued');
cmp_ok($node->safe_psql('postgres', q{SELECT sum(queued_bytes) FROM mtpower.stat_batches WHERE index::text LIKE 'progressed%'}),
	'>', 1_000_000, 'which they are');
close($fifo);
$loader->finish;
is($err, '', 'it ends');
is($node->safe_psql('postgres', 'SELECT count(*) FROM progressed'), '50000', 'with all rows');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_copy'), '0', 'nothing is left of its progress');

# A line in the log for each batch, when it is submitted and when it is done.
my $log = slurp_file($node->logfile);
my $index = $node->safe_psql('postgres', q{SELECT 'progressed_a'::regclass::oid});
my $submitted = () = $log =~ /DEBUG:  mtpower: submitted \d+ entries of index $index in \d+ runs/g;
my $applied = () = $log =~ /DEBUG:  mtpower: applied \d+ entries of index $index in \d+ tasks, \d+ ms after submission/g;
cmp_ok($submitted, '>', 0, 'the log shows batches submitted');
is($applied, $submitted, 'and applied');
is($applied, $node->safe_psql('postgres', q{SELECT batches FROM mtpower.stat_batches WHERE index = 'progressed_a'::regclass}),
	'so many as the view counts');

# A dropped database takes its counters along.
$node->safe_psql('other', qq{
	CREATE TABLE t (a int) USING mtpower; CREATE INDEX ON t USING $am (a);
	INSERT INTO t SELECT generate_series(1, 1000)});
is($node->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_batches WHERE database = 'other'}), '1', 'counters in another database');
$node->safe_psql('postgres', 'DROP DATABASE other');
is($node->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_batches WHERE database IS DISTINCT FROM 'postgres'}), '0',
	'they go with it');

$node->stop;
done_testing();
