# Pairs of table pages get page directories: a load's fresh pages, and pairs that scans ask for,
# by workers and without. Functions of users run with their owner's rights or not at all. Requests
# under way are dropped cleanly when the table, the database, the worker or the columns go.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $dir = MtpFaults::compile('demand');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
autovacuum = off
fsync = off
});
$node->start;
my $functions = q{
CREATE EXTENSION mtpower;
CREATE FUNCTION demand_count(regclass, VARIADIC int2[]) RETURNS void LANGUAGE c STRICT AS 'demand';
CREATE FUNCTION directory_ask(regclass, int, int) RETURNS void LANGUAGE c STRICT AS 'demand';
CREATE FUNCTION directory_frames(regclass) RETURNS text LANGUAGE c STRICT AS 'demand';
CREATE FUNCTION directory_pairs(regclass) RETURNS int LANGUAGE c STRICT AS 'demand';
};
$node->safe_psql('postgres', $functions);
my $faults = MtpFaults->new($node, 't');
my $rows = 60000;

# The rows come by COPY, from a file.
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
append_to_file($file, join('', map { "$_\t" . ($_ * 7919 % $rows) . "\t" . ($_ % 3 ? "text $_" : '\N') . "\n" } 1 .. $rows));

sub sql { my (@sql) = @_; return $node->safe_psql('postgres', join(';', @sql)); }
sub stat_of { my ($what) = @_; return sql("SELECT $what FROM mtpower.stat_directories"); }
sub pairs { my ($table) = @_; return sql("SELECT directory_pairs('$table')"); }
sub frames { my ($table) = @_; return sql("SELECT directory_frames('$table')"); }

# Nothing is queued, and no worker is at it.
sub settled
{
	$faults->wait_for(q{SELECT queued = 0 AND NOT EXISTS (SELECT FROM mtpower.stat_workers WHERE phase = 'directories') FROM mtpower.stat_directories}, 'all directories');
	return;
}

sub table
{
	my ($name, @then) = @_;
	sql("DROP TABLE IF EXISTS $name", "CREATE TABLE $name (a int, b int, c text) USING mtpower", @then);
	return;
}
my $copy = "COPY t FROM '$file'";

foreach my $workers (1, 0)
{
	my $with = $workers ? 'with a worker' : 'without workers';
	sql("ALTER SYSTEM SET mtpower.workers = $workers");
	$node->restart;

	# ---------- loads ----------

	table('t', "SELECT mtpower.set_directory('t', 'b', 'a')");
	sql('SELECT mtpower.stat_reset()');
	sql($copy);
	settled() if $workers;
	my $n = pairs('t');
	is(frames('t'), "b,a:$n", "$with a load's pages have directories of the columns that its owner chose");
	is(stat_of('built'), $n, 'each was built once');
	is(stat_of('concat(failed, unfit)'), '00', 'and none in vain');
	sql($copy);
	settled() if $workers;
	is(frames('t'), 'b,a:' . pairs('t'), 'a second load, too');
	sql("DELETE FROM t WHERE a % 2 = 0", 'COMMIT; VACUUM (TRUNCATE off) t');
	is(frames('t'), 'b,a:' . pairs('t'), 'rows that go leave them');

	table('t');
	sql('SELECT mtpower.stat_reset()');
	sql($copy);
	is(frames('t'), 'none:' . pairs('t'), "$with a table that nobody has asked for any gets none");
	is(stat_of('concat(asked, built)'), '00', 'and no worker is told');
	sql("SELECT demand_count('t', 2::int2), demand_count('t', 2::int2)", 'COMMIT; TRUNCATE t; ' . $copy);
	settled() if $workers;
	is(frames('t'), 'b:' . pairs('t'), 'where scans have asked for a column it is that one');
	sql("SELECT mtpower.set_directory('t', NULL)", 'COMMIT; TRUNCATE t', $copy);
	settled() if $workers;
	is(frames('t'), 'none:' . pairs('t'), 'but not if the owner wants none');

	table('t', "SELECT mtpower.set_directory('t', 'c')");
	sql('SELECT mtpower.stat_reset()');
	is(sql('BEGIN; TRUNCATE t', $copy, 'SELECT asked FROM mtpower.stat_directories', 'COMMIT'), 0, "$with nobody is told of a new file's pages before the commit");
	settled() if $workers;
	is(frames('t'), 'c:' . pairs('t'), "$with a new file's pages have them when the transaction has committed");
	sql('BEGIN; CREATE TABLE u (a int, b int, c text) USING mtpower', "SELECT mtpower.set_directory('u', 'c')", "COPY u FROM '$file'", 'ROLLBACK');
	settled() if $workers;
	is(sql("SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory' AND relation IS NULL"), 0, 'and none are left of one that was rolled back');

	# Partitions are loaded side by side.
	sql('CREATE TABLE parted (a int, b int, c text) PARTITION BY HASH (b)',
		(map { "CREATE TABLE parted_$_ PARTITION OF parted FOR VALUES WITH (MODULUS 5, REMAINDER $_) USING mtpower" } 0 .. 4), "SELECT mtpower.set_directory('parted', 'a')", "COPY parted FROM '$file'");
	settled() if $workers;
	is(frames("parted_$_"), 'a:' . pairs("parted_$_"), "$with a partition's pages have them") foreach 0 .. 4;
	sql('DROP TABLE parted');

	# ---------- asked for ----------

	table('t', $copy, "SELECT mtpower.set_directory('t', 'a')");
	$n = pairs('t');
	sql('SELECT mtpower.stat_reset()');
	sql("SELECT directory_ask('t', 0, $n - 1)");
	settled() if $workers;
	is(frames('t') =~ /\ba:(\d+)/ ? $1 : 0, $workers ? $n : int($n / 16), $workers ? 'a worker builds what a scan asks for' : 'a scan builds one pair in 16');
	if (!$workers)
	{
		sql("SELECT directory_ask('t', 0, $n - 1) FROM generate_series(1, 300)");
		is(frames('t'), "a:$n", 'and all of them in the end');
	}
	sql("SELECT mtpower.set_directory('t', 'b')");
	sql("SELECT directory_ask('t', 0, $n - 1) FROM generate_series(1, 300)");
	settled() if $workers;
	is(frames('t'), "b:$n", "$with those of other columns are replaced");
	sql("INSERT INTO t VALUES (1, 1, 'one')");
	is(frames('t') =~ s/ .*//r, 'b:' . ($n - 1), 'a row that comes takes one away');
	my $odd = $n + 100 + $n % 2;	# so that the one that is missing is a 16th one now and then
	sql("SELECT directory_ask('t', 0, $odd) FROM generate_series(1, 300)");
	settled() if $workers;
	is(frames('t'), "b:$n", 'and pairs that there are not have none');

	# ---------- functions that are not to be trusted ----------

	sql('DROP TABLE IF EXISTS t', 'CREATE TYPE mood AS ENUM (\'sad\', \'ok\', \'happy\')', 'CREATE TABLE t (a int[], b mood, c int4range) USING mtpower',
		"INSERT INTO t SELECT ARRAY[i % 77, i], (enum_range(NULL::mood))[1 + i % 3], int4range(i, i + 5) FROM generate_series(1, 5000) i");
	$n = pairs('t');
	foreach my $column (qw(a b c))
	{
		sql("SELECT mtpower.set_directory('t', '$column')");
		sql("SELECT directory_ask('t', 0, $n - 1) FROM generate_series(1, 50)");
		settled() if $workers;
		like(frames('t'), $workers ? qr/^$column:$n$/ : qr/^none:$n$/, "$with column $column, whose comparison calls others or reads catalogs, " . ($workers ? 'is sorted' : 'is not'));
	}
	sql('DROP TABLE t', 'DROP TYPE mood');
}

# ---------- directories of other columns ----------

# Without workers nobody replaces these: arrays are compared by functions that call others.
sql('CREATE TABLE t (a int, b int[], c text) USING mtpower', "INSERT INTO t SELECT i, ARRAY[i], repeat('x', 100) FROM generate_series(1, 20000) i", "SELECT mtpower.set_directory('t', 'a')");
sql("SELECT directory_ask('t', 0, 1000) FROM generate_series(1, 300)");
is(frames('t'), 'a:' . pairs('t'), 'a table has directories');
my $heat = sub { return sql("SELECT sum(heat) FROM mtpower.buffer_content WHERE relation = 't'::regclass AND kind = 'directory'"); };
my $torn = sub { return sql("SELECT torn FROM mtpower.stat_buffer WHERE kind = 'directory'"); };
my $cold = $heat->();
sql('SELECT count(*) FROM t WHERE a = 3') foreach 1 .. 5;
my $warm = $heat->();
cmp_ok($warm, '>', $cold, 'scans that they answer warm them');
sql("SELECT mtpower.set_directory('t', 'b')");
my $was = $torn->();
sql('SELECT count(*) FROM t WHERE b = ARRAY[3]') foreach 1 .. 5;
cmp_ok($heat->(), '<=', $warm, 'those that ask for other columns do not');
is($torn->() - $was, 0, 'and do not take them for torn');
is(frames('t'), 'a:' . pairs('t'), 'though they are all there');
sql('DROP TABLE t');
sql('ALTER SYSTEM SET mtpower.workers = 1');
$node->restart;

# ---------- functions of users ----------

sql(q{
CREATE ROLE owner;
CREATE TYPE pair AS (x int, y int);
CREATE TABLE seen (who text, path text);
GRANT INSERT ON seen TO PUBLIC;
CREATE FUNCTION pair_cmp(p pair, q pair) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF current_user <> 'owner' THEN RAISE EXCEPTION 'run as %', current_user; END IF;
	IF current_setting('search_path') NOT IN ('', '""') THEN RAISE EXCEPTION 'with search_path %', current_setting('search_path'); END IF;
	IF p.x = 4711 OR q.x = 4711 THEN
		CREATE TEMP TABLE trap (a int);
	END IF;
	RETURN CASE WHEN p.x < q.x THEN -1 WHEN p.x > q.x THEN 1 ELSE 0 END;
END $$;
CREATE FUNCTION pair_lt(pair, pair) RETURNS bool LANGUAGE sql AS 'SELECT pair_cmp($1, $2) < 0';
CREATE FUNCTION pair_eq(pair, pair) RETURNS bool LANGUAGE sql AS 'SELECT pair_cmp($1, $2) = 0';
CREATE OPERATOR <<< (FUNCTION = pair_lt, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR === (FUNCTION = pair_eq, LEFTARG = pair, RIGHTARG = pair);
CREATE OPERATOR CLASS pair_ops DEFAULT FOR TYPE pair USING btree AS OPERATOR 1 <<<, OPERATOR 3 ===, FUNCTION 1 pair_cmp(pair, pair);
CREATE TABLE t (p pair, a int) USING mtpower;
INSERT INTO t SELECT ROW(i, i)::pair, i FROM generate_series(1, 3000) i;
ALTER TABLE t OWNER TO owner;
SELECT mtpower.set_directory('t', 'p');
});
my $n = pairs('t');
sql('SELECT mtpower.stat_reset()');
sql("SELECT directory_ask('t', 0, $n - 1)") foreach 1, 2;	# the first pair of all finds no slab
settled();
is(frames('t'), "p:$n", "a user's function is run by a worker, as the table's owner, with an empty search_path");
is(stat_of('failed'), 0, 'and without an error');
sql('INSERT INTO t VALUES (ROW(4711, 1)::pair, 1)');
my $offset = -s $node->logfile;
sql("SELECT directory_ask('t', 0, $n - 1)");
settled();
is(stat_of('failed'), 1, 'an error is counted');
like(slurp_file($node->logfile, $offset), qr/cannot create temporary table within security-restricted operation/, 'and logged: it may do no more than in maintenance commands');
unlike(frames('t'), qr/empty/, 'it leaves no empty directory');
like(frames('t'), qr/none:1\b/, 'but a pair without one');
is(sql('SELECT count(*) FROM t'), 3001, 'and nobody who reads the table meets it');

# ---------- no room ----------

$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 1MB');
$node->restart;
# Of two columns they need frames of 4 kB.
sql('DROP TABLE t', 'CREATE TABLE t (a int, b int, c text) USING mtpower', "SELECT mtpower.set_directory('t', 'a', 'b')", 'SELECT mtpower.stat_reset()');
sql($copy) foreach 1 .. 3;
settled();
is(sql("SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory'"), 256, 'where there is room for fewer, a load fills what is free');
cmp_ok(stat_of('dropped'), '>', 0, 'and gives up');
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 0');
$node->restart;
sql($copy, "SELECT directory_ask('t', 0, 10)");
is(stat_of('concat(asked, built)'), '00', 'without a buffer nothing happens');
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 64MB');
$node->restart;

# ---------- databases ----------

$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', "$functions; CREATE TABLE t (a int, b int, c text) USING mtpower; SELECT mtpower.set_directory('t', 'a'); $copy; $copy");
is($node->psql('postgres', 'ALTER DATABASE other RENAME TO another'), 0, 'a database may be renamed while a worker is there');
$node->safe_psql('another', $copy);
is($node->psql('postgres', 'DROP DATABASE another'), 0, 'and be dropped');
settled();
pass('what is queued of it goes with it');
sql('DROP TABLE t', 'CREATE TABLE t (a int, b int, c text) USING mtpower', "SELECT mtpower.set_directory('t', 'a')", $copy);
$faults->wait_for(q{SELECT directory_frames('t') = 'a:' || directory_pairs('t')}, 'all directories');
pass('as a load in another database shows');

# ---------- stopped in the middle ----------

SKIP:
{
	skip 'injection points are in servers with assertions only', 16 if !$faults->has_stops;
	my $ask = sub { my ($point) = @_;
		table('t', 'ALTER TABLE t SET (fillfactor = 60)', $copy, "SELECT mtpower.set_directory('t', 'a')");	# updated rows stay on their page
		settled();
		$faults->hold;
		$faults->stop_all("$point=wait");
		sql("SET mtpower.debug_injection = ''", "SELECT directory_ask('t', 0, 1000)");
		return ($faults->stopped($MtpFaults::WORKER))[0];
	};
	my $go = sub { $faults->stop_all(''); $faults->release; };

	my $worker = $ask->('directory_build');
	is(sql("SELECT backend_xmin IS NULL AND backend_xid IS NULL FROM pg_stat_activity WHERE pid = $worker"), 't', 'a worker that builds holds no snapshot');
	is(sql("SELECT string_agg(DISTINCT mode, ' ') FROM pg_locks WHERE pid = $worker AND relation = 't'::regclass"), 'AccessShareLock', 'and the lock that readers take');
	like(frames('t'), qr/empty:1\b/, 'its directory is reserved');
	sql(q{UPDATE t SET c = c WHERE ctid = '(0,1)'});	# a scan of the table would ask for it again
	unlike(frames('t'), qr/empty/, 'a row that comes to its pages takes it away');
	$go->();
	settled();
	my $pairs = pairs('t');
	like(frames('t'), qr/^none:1 a:\d+/, 'and it is not filled then');

	$worker = $ask->('directory_build');
	sql("SELECT pg_terminate_backend($worker)");
	$faults->wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $worker)", "the worker's end");
	unlike(frames('t'), qr/empty/, 'a worker that is terminated leaves no empty directory');
	$go->();
	sql("SELECT directory_ask('t', 0, 1000)");
	settled();
	is(frames('t'), 'a:' . pairs('t'), 'the next one builds it');

	# Pages that come while a worker is at earlier ones of the same load
	my $some = sub { return "INSERT INTO t SELECT i, i, repeat('x', 100) FROM generate_series(1, $_[0]) i"; };
	table('t', $some->(10), "SELECT mtpower.set_directory('t', 'a')");
	$faults->hold;
	$faults->stop_all('admit_opened=wait');
	sql("SET mtpower.debug_injection = ''", "SELECT directory_ask('t', 0, 0)");
	is(scalar($faults->stopped($MtpFaults::WORKER)), 1, 'a worker has opened a table of one pair');
	sql("SET mtpower.debug_injection = ''", $some->(1000));
	my $last = pairs('t') - 1;
	sql("SET mtpower.debug_injection = ''", "SELECT directory_ask('t', 0, $last)");
	$faults->release;	# and no reload, which would end its turn
	settled();
	$faults->stop_all('');
	is(frames('t'), 'a:' . ($last + 1), 'those that it has grown by have directories, too');

	$ask->('admit_opened');
	my $drop = $faults->start('DROP TABLE t');
	$faults->wait_for("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock')", 'DROP TABLE to wait');
	sql('SELECT mtpower.stat_reset()');
	$go->();
	is($faults->finish($drop), '', 'DROP TABLE comes through');
	settled();
	cmp_ok(stat_of('built'), '<=', 64, 'after a part of the turn');
	is(sql("SELECT count(*) FROM mtpower.buffer_content WHERE relation IS NULL AND kind = 'directory'"), 0, 'and no directory is left of it');

	# A turn ends by the clock, also where each pair takes long: here the first one.
	$ask->('directory_build');
	sql('SELECT mtpower.stat_reset()');
	$drop = $faults->start('DROP TABLE t');
	$faults->wait_for("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock')", 'DROP TABLE to wait');
	sql('SELECT pg_sleep(0.1)');	# five times as long as a turn, at least
	$faults->release;
	is($faults->finish($drop), '', 'who waits for the table gets it');
	$faults->stop_all('');
	settled();
	cmp_ok(stat_of('built'), '<=', 1, 'after the pair that a worker was at when its time was over');

	# Nor while it waits does the worker hold anything.
	sql('CREATE TABLE t (a int, b int, c text) USING mtpower', $copy, "SELECT mtpower.set_directory('t', 'a')");
	settled();
	sql('SELECT mtpower.stat_reset()');
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
	$locker->query_safe("SELECT directory_ask('t', 0, 1000)");
	$faults->wait_for('SELECT dropped > 0 FROM mtpower.stat_directories', 'the worker to give up');
	$locker->query_safe('COMMIT');
	is(frames('t'), 'none:' . pairs('t'), 'a table that stays locked is given up');
	$locker->quit;
	sql("SELECT directory_ask('t', 0, 1000)");
	settled();
	is(frames('t'), 'a:' . pairs('t'), 'until somebody asks again');
}
$faults->log_is_clean;
unlike(slurp_file($node->logfile), qr/was terminated by signal/, 'no process crashed');

done_testing();
