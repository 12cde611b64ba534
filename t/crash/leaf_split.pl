# A crash or an error comes between the two records of a split, also of one that makes many pages
# of a leaf. All rows are found, on the server and on a standby, and the split is finished.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions qw(wait_for_restart);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
restart_after_crash = on
log_error_verbosity = verbose
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION incomplete(i regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b,
		mtpower.page_info(i, b) p WHERE p.flags @> '{incomplete_split}' $$;
CREATE FUNCTION inner_incomplete(i regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b,
		mtpower.page_info(i, b) p WHERE p.flags @> '{incomplete_split}' AND p.level > 0 $$;
});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

my $memory = 'SELECT held_bytes FROM mtpower.stat_memory';

# An index with a root, full leaves, and (for long keys) full inner pages.
sub make_table
{
	my ($name, $key, $rows) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, b text COLLATE "C" GENERATED ALWAYS AS ($key) STORED);
		INSERT INTO $name SELECT g * 100 FROM generate_series(1, $rows) g;
		CREATE INDEX ${name}_b ON $name USING mtpower_blink (b) WITH (fillfactor = 100)});
}

$node->safe_psql('postgres', q{CREATE FUNCTION to_char_(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(a::text, 10, '0') $$;
	CREATE FUNCTION long_(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(a::text, 10, '0') || md5(a::text) || md5('a' || a) || md5('b' || a) || md5('c' || a) || md5('d' || a) || md5('e' || a) || md5('f' || a) || md5('g' || a) || md5('h' || a) || md5('i' || a) || md5('j' || a) || md5('k' || a) || md5('l' || a) $$});

$node->safe_psql('postgres', q{CREATE FUNCTION wide_(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT long_(a) || long_(a + 1) || long_(a + 2) || long_(a + 3) || long_(a + 4) $$});

sub verify
{
	my ($server, $name, $what) = @_;
	my ($out, $err);
	is($server->psql('postgres', "SELECT mtpower.verify_index('${name}_b', true)", stderr => \$err), 0, "$name: $what: index verifies") or diag($err);
}

# What the index is called; its key and rows; one row, or a batch, that splits a page; the injection point; mtpower.batch_min_rows
foreach my $case (
	[ 'one_leaf', 'long_(a)', 60, 'INSERT INTO one_leaf VALUES (3001)', 'leaf_split' ],
	[ 'batch_leaf', 'to_char_(a)', 2000, 'INSERT INTO batch_leaf SELECT 90001 + g % 99 FROM generate_series(1, 3000) g', 'leaf_split' ],
	[ 'root_leaf', 'to_char_(a)', 150, 'INSERT INTO root_leaf SELECT g FROM generate_series(1, 3000) g', 'leaf_split' ],
	[ 'one_inner', 'long_(a)', 300, 'INSERT INTO one_inner SELECT 3001 + g FROM generate_series(1, 90) g', 'inner_split' ],
	[ 'batch_inner', 'long_(a)', 300, 'INSERT INTO batch_inner SELECT 3001 + g FROM generate_series(1, 1000) g', 'inner_split' ],
	[ 'root_full', 'wide_(a)', 1, 'INSERT INTO root_full SELECT 100 + g FROM generate_series(1, 60) g', 'root_full', 0 ])
{
	my ($name, $key, $rows, $insert, $point, $min) = (@$case, 10);
	my ($out, $err);
	make_table($name, $key, $rows);
	$node->safe_psql('postgres', "CREATE TABLE copy_$name (LIKE $name INCLUDING ALL)");

	# An error exactly there, then back to a savepoint
	is($node->psql('postgres', qq{
		\\set ON_ERROR_STOP 0
		\\set VERBOSITY sqlstate
		SET mtpower.batch_min_rows = $min;
		BEGIN;
		INSERT INTO $name VALUES (7);
		SAVEPOINT s;
		SET LOCAL mtpower.debug_injection = '$point=disk_full';
		$insert;
		ROLLBACK TO s;
		SELECT mtpower.verify_index('${name}_b', true);
		INSERT INTO $name VALUES (8);
		COMMIT;
		$memory}, on_error_stop => 0, stdout => \$out, stderr => \$err), 0, "$name: going on after an error between the records");
	like($err, qr/53100/, "$name: the error has its SQLSTATE");
	is($out, "\n0", "$name: no memory is held");
	verify($node, $name, 'error');
	# The row 8 has passed the inner page, and finished its split.
	cmp_ok($node->safe_psql('postgres', "SELECT incomplete('${name}_b')"), '>', 0, "$name: a split is incomplete")
		if $point eq 'leaf_split';

	# The same insert finishes it
	is($node->psql('postgres', "SET mtpower.batch_min_rows = $min; $insert", stderr => \$err), 0, "$name: the insert now works") or diag($err);
	verify($node, $name, 'next insert');
	$node->safe_psql('postgres', "TRUNCATE $name; INSERT INTO $name SELECT g * 100 FROM generate_series(1, $rows) g; REINDEX INDEX ${name}_b");

	# A crash exactly there
	$node->psql('postgres', "SET mtpower.batch_min_rows = $min; SET mtpower.debug_injection = '$point=panic'; $insert", stderr => \$err);
	like($err, qr/crash at injection point|terminat|closed/, "$name: the server crashed");
	wait_for_restart($node);
	cmp_ok($node->safe_psql('postgres', "SELECT " . ($point eq 'inner_split' ? 'inner_' : '') . "incomplete('${name}_b')"), '>', 0, "$name: replay leaves the split incomplete");
	verify($node, $name, 'after the crash');
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM $name WHERE b > ''"), $rows, "$name: all rows are found");
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	verify($standby, $name, 'standby');
	is($standby->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM $name WHERE b > ''"), $rows, "$name: all rows are found on the standby");
}

# Splits that nobody finished are finished on the primary, and on a promoted standby.
$node->stop;
$standby->promote;
foreach my $server ($standby, $node)
{
	$node->start if $server == $node;
	my $where = $server == $node ? 'primary' : 'promoted standby';
	foreach my $insert (
		'INSERT INTO one_leaf VALUES (3001)',
		'INSERT INTO batch_leaf SELECT 90001 + g % 99 FROM generate_series(1, 3000) g',
		'INSERT INTO root_leaf SELECT g FROM generate_series(1, 3000) g',
		'INSERT INTO one_inner SELECT 3001 + g FROM generate_series(1, 90) g',
		'INSERT INTO batch_inner SELECT 3001 + g FROM generate_series(1, 1000) g',
		'INSERT INTO root_full SELECT 100 + g FROM generate_series(1, 60) g')
	{
		my ($name) = $insert =~ /INTO (\w+)/;
		my $err;
		is($server->psql('postgres', "SET mtpower.batch_min_rows = 10; $insert", stderr => \$err), 0, "$name: insert on the $where") or diag($err);
		$server->safe_psql('postgres', "INSERT INTO $name SELECT g * 100 + 50 FROM generate_series(0, 2000) g");
		verify($server, $name, $where);
		is($server->safe_psql('postgres', "SELECT incomplete('${name}_b')"), 0, "$name: no split is incomplete on the $where");
		$server->safe_psql('postgres', "DELETE FROM $name; VACUUM $name");
		verify($server, $name, "emptied on the $where");
	}
}
$standby->stop;

# Both levels at once: a leaf without downlink, and a root without one, which split when it took another leaf's.  The repair, by
# each kind of writer, crashes in its turn; after replay the next one brings it to an end.
foreach my $writer (
	[ 'by_single', 'INSERT INTO by_single VALUES (3003), (9003)' ],
	[ 'by_batch', 'INSERT INTO by_batch SELECT 3 + g * 100 FROM generate_series(1, 200) g' ],
	[ 'by_vacuum', 'VACUUM by_vacuum' ])
{
	my ($name, $sql) = @$writer;
	my $repaired = $name ne 'by_vacuum';
	my ($out, $err);

	# A root of level 1, and leaves below it, all of them full
	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, b text COLLATE "C" GENERATED ALWAYS AS (long_(a)) STORED);
		CREATE INDEX ${name}_b ON $name USING mtpower_blink (b) WITH (fillfactor = 100);
		DO \$\$
		BEGIN
			FOR g IN 1 .. 10000 LOOP
				INSERT INTO $name VALUES (g * 100);
				EXIT WHEN (SELECT count(*) FROM generate_series(1, pg_relation_size('${name}_b') / current_setting('block_size')::int - 1) b,
					mtpower.page_info('${name}_b', b) p WHERE p.level = 1 AND p.free_bytes < 500) = 1;
			END LOOP;
		END \$\$;});
	$node->psql('postgres', "SET mtpower.debug_injection = 'leaf_split=error'; INSERT INTO $name VALUES (3001)", stderr => \$err);
	like($err, qr/error at injection point "leaf_split"/, "$name: a leaf has no downlink");
	$node->psql('postgres', "SET mtpower.debug_injection = 'inner_split=error'; INSERT INTO $name VALUES (9001)", stderr => \$err);
	like($err, qr/error at injection point "inner_split"/, "$name: a root has none either");
	is($node->safe_psql('postgres', "SELECT incomplete('${name}_b'), inner_incomplete('${name}_b')"), '2|1', "$name: two levels are incomplete");
	verify($node, $name, 'two levels incomplete');
	if ($repaired)
	{
		$node->psql('postgres', "SET mtpower.batch_min_rows = 10; SET mtpower.debug_injection = 'split_repair=panic'; $sql", stderr => \$err);
		like($err, qr/crash at injection point|terminat|closed/, "$name: the server crashed while it repaired");
		wait_for_restart($node);
	}
	else
	{
		$node->safe_psql('postgres', "DELETE FROM $name WHERE a BETWEEN 2000 AND 10000");
		$node->stop('immediate');
		$node->start;
	}
	is($node->safe_psql('postgres', "SELECT incomplete('${name}_b'), inner_incomplete('${name}_b')"), '2|1', "$name: replay leaves two levels incomplete");
	verify($node, $name, 'after replay');
	is($node->psql('postgres', "SET mtpower.batch_min_rows = 10; SET statement_timeout = '60s'; $sql", on_error_stop => 0, stderr => \$err), 0, "$name works") or diag($err);
	verify($node, $name, 'afterwards');
	# VACUUM deletes leaves, and so comes to the root; the leaf is none that it has to change.
	is($node->safe_psql('postgres', "SELECT incomplete('${name}_b'), inner_incomplete('${name}_b')"), $repaired ? '0|0' : '1|0', "$name: what is incomplete");
	$node->safe_psql('postgres', "INSERT INTO $name SELECT g * 50 FROM generate_series(1, 2000) g");
	verify($node, $name, 'more rows');
	is($node->safe_psql('postgres', "SELECT incomplete('${name}_b')"), 0, "$name: in the end nothing is incomplete");
	$node->safe_psql('postgres', "DELETE FROM $name; VACUUM $name");
	verify($node, $name, 'emptied');
}

# One leaf receives 50,000 entries, in its middle: equal keys, ascending, descending and alternating ones
$node->safe_psql('postgres', q{
	CREATE TABLE k (a int, b text COLLATE "C");
	CREATE INDEX k_b ON k USING mtpower_blink (b);
	CREATE INDEX k_a ON k USING mtpower_blink (a);
	CREATE INDEX k_ab ON k USING mtpower_blink (a, b);});
foreach my $keys ('5000001', '5000001 + g', '9000000 - g', '7000000 + g % 2')
{
	$node->safe_psql('postgres', q{TRUNCATE k; INSERT INTO k SELECT g * 1000000, lpad(g::text, 8) FROM generate_series(1, 100) g;
		SELECT mtpower.stat_reset()});
	is($node->safe_psql('postgres', "SELECT type, items FROM mtpower.page_info('k_$_', 1)"), 'leaf|100', "k_$_ is one leaf") foreach 'a', 'b', 'ab';
	$node->safe_psql('postgres', "INSERT INTO k SELECT a, lpad((a / 1000000)::text, 8) || a % 1000000 FROM (SELECT $keys AS a FROM generate_series(1, 50000) g) x");
	$node->safe_psql('postgres', "SELECT mtpower.verify_index('k_$_', true)") foreach 'a', 'b', 'ab';
	is($node->safe_psql('postgres', "SELECT count(*) FROM k WHERE a >= 0"), 50100, "50,000 keys $keys are there");
	# The array's subscripts are K.
	cmp_ok($node->safe_psql('postgres', "SELECT sum(splits[k]) FROM mtpower.stat_batches, generate_series(3, array_upper(splits, 1)) k WHERE index = 'k_$_'::regclass"),
		'>', 0, "keys $keys: some splits of k_$_ made more than two pages") foreach 'a', 'b', 'ab';
}
is($node->safe_psql('postgres', $memory), 0, 'no memory is held');
$node->stop;
done_testing();
