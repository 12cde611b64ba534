# COPY in functions and procedures, by each protocol, foreign tables, materialized views, rewrites
# and rules fill tables. Whatever queues entries has applied them at its end; whatever does not
# inserts them at once. A statement's timeout counts for its index work.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);
use MtpLoad;
use MtpVariant;

my $am = access_method();
# Entries of mtpower's own indexes are queued on heap tables, too.
my $on = $am eq 'btree' ? 'USING mtpower' : '';
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 100
mtpower.batch_size = 64kB
mtpower.workers = 1
autovacuum = off
});
$node->start;
my $csv = $node->basedir . '/rows.csv';
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE TABLE t (k int, txt text) USING mtpower;
CREATE INDEX t_k ON t USING $am (k);
CREATE INDEX t_txt ON t USING $am (txt);
CREATE TABLE o (LIKE t) $on;
CREATE INDEX o_k ON o USING $am (k);
COPY (SELECT g, md5(g::text) FROM generate_series(1, 3000) g) TO '$csv' (FORMAT csv);
CREATE FUNCTION find(lo int) RETURNS bigint LANGUAGE sql SET enable_seqscan = off AS 'SELECT count(*) FROM t WHERE k >= lo';
CREATE FUNCTION load() RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN COPY t FROM '$csv' (FORMAT csv); RETURN find(1); END \$\$;
CREATE FUNCTION load_sql() RETURNS bigint LANGUAGE sql AS \$\$ COPY t FROM '$csv' (FORMAT csv); SELECT find(1) \$\$;
CREATE FUNCTION load_fails() RETURNS bigint LANGUAGE plpgsql AS \$\$ BEGIN
	BEGIN
		COPY t FROM '$csv' (FORMAT csv);
		PERFORM 1 / (3000 - find(1));
	EXCEPTION WHEN division_by_zero THEN RETURN find(1); END;
	RETURN NULL;
END \$\$;
CREATE FUNCTION make(name text) RETURNS bigint LANGUAGE plpgsql AS \$\$
DECLARE n bigint;
BEGIN
	EXECUTE format('CREATE TABLE %I USING mtpower AS SELECT * FROM t WHERE k BETWEEN 1 AND 2000', name);
	EXECUTE format('CREATE INDEX ON %I USING $am (k)', name);
	EXECUTE format('INSERT INTO %I SELECT * FROM t WHERE k <= 2000', name);
	PERFORM set_config('enable_seqscan', 'off', true);
	EXECUTE format('SELECT count(*) FROM %I WHERE k > 0', name) INTO n;
	PERFORM set_config('enable_seqscan', 'on', true);
	RETURN n;
END \$\$;
CREATE PROCEDURE loads() LANGUAGE plpgsql AS \$\$ BEGIN
	COPY t FROM '$csv' (FORMAT csv); COMMIT; COPY t FROM '$csv' (FORMAT csv); ROLLBACK; COPY t FROM '$csv' (FORMAT csv); COMMIT;
END \$\$;
});

# Runs SQL on empty tables; then compares its output, the rows of t found by index, and the entries of t_k and o_k that came in batches.
sub check
{
	my ($what, $sql, $output, $rows, $batched) = @_;
	my $out = $node->safe_psql('postgres', "TRUNCATE t, o; SELECT mtpower.stat_reset()\\g /dev/null\n$sql");
	is($out, $output, "$what: output");
	is($node->safe_psql('postgres', 'SELECT find(-2147483648)'), $rows, "$what: rows");
	is($node->safe_psql('postgres', q{SELECT string_agg(coalesce(s.entries, 0)::text, ' ' ORDER BY i) FROM unnest(ARRAY['o_k', 't_k']) i LEFT JOIN mtpower.stat_batches s ON s.index = i::regclass}),
		$batched, "$what: in batches");
	is_clean($node, $what);
	return;
}

check('COPY in a function', 'SELECT load()', '3000', 3000, '0 3000');
check('COPY in an SQL function', 'SELECT load_sql()', '3000', 3000, '0 3000');
check('COPY in a function, for each row of an INSERT', 'INSERT INTO o SELECT load(), g::text FROM generate_series(1, 3) g; SELECT string_agg(k::text, \' \' ORDER BY txt) FROM o', '3000 6000 9000', 9000, '0 9000');
check('COPY in a function, into the table of the INSERT', 'INSERT INTO t SELECT -g, load()::text FROM generate_series(1, 3) g; SELECT string_agg(txt, \' \' ORDER BY k DESC) FROM t WHERE k < 0', '3000 6000 9000', 9003, '0 9000');
check('COPY in a function, rolled back', 'INSERT INTO o SELECT load_fails(), g::text FROM generate_series(1, 150) g; SELECT sum(k) FROM o', '0', 0, '16 450000');
check('COPY in a procedure', 'CALL loads()', '', 6000, '0 9000');
check('COPY in DO', "DO \$\$ BEGIN COPY t FROM '$csv' (FORMAT csv); END \$\$", '', 3000, '0 3000');
check('COPY twice in one string', "COPY t FROM '$csv' (FORMAT csv)\\; COPY t FROM '$csv' (FORMAT csv)\\; SELECT find(1);", '6000', 6000, '0 6000');
check('a loop over INSERT … RETURNING',
	q{DO $$ DECLARE r record; n int = 0; BEGIN
		FOR r IN INSERT INTO t SELECT g, 'x' FROM generate_series(1, 500) g RETURNING k LOOP
			INSERT INTO o VALUES (r.k, find(1)::text);
		END LOOP; END $$; SELECT DISTINCT txt FROM o}, '500', 500, '0 400');
check('tables made in functions, beside queued rows', 'INSERT INTO t SELECT g, make(\'made_\' || g)::text FROM generate_series(1, 3) g WHERE load() > 0; SELECT string_agg(txt, \' \' ORDER BY k) FROM t WHERE length(txt) < 9; DROP TABLE made_1, made_2, made_3',
	'4000 8002 12004', 9003, '0 9000');
check('a rule', 'CREATE RULE also AS ON INSERT TO o DO ALSO INSERT INTO t VALUES (new.k, new.txt); INSERT INTO o SELECT g, \'x\' FROM generate_series(1, 1000) g; DROP RULE also ON o', '', 1000, '900 900');
check('a temporary table', "CREATE TEMP TABLE tmp (LIKE t) USING mtpower; CREATE INDEX ON tmp USING $am (k); COPY tmp FROM '$csv' (FORMAT csv); INSERT INTO t TABLE tmp; SET enable_seqscan = off; SELECT count(*) FROM tmp WHERE k > 0",
	'3000', 3000, '0 2900');

# What builds its indexes afterwards queues nothing; what changes rows does.
check('rewrites', "COPY t FROM '$csv' (FORMAT csv); SELECT mtpower.stat_reset() \\g /dev/null\nALTER TABLE t ALTER k TYPE bigint; ALTER TABLE t ADD r float DEFAULT random(); ALTER TABLE t SET ACCESS METHOD heap; ALTER TABLE t SET ACCESS METHOD mtpower; "
	. 'VACUUM FULL t; CLUSTER t USING t_txt; ALTER TABLE t DROP r, ALTER k TYPE int; SELECT find(1)', '3000', 3000, '0 0');
check('materialized views', qq{
	INSERT INTO t SELECT g, 'x' FROM generate_series(1, 1000) g;
	CREATE MATERIALIZED VIEW mv USING mtpower AS SELECT k, count(*) AS n FROM t GROUP BY k;
	CREATE UNIQUE INDEX ON mv (k);
	CREATE INDEX mv_n ON mv USING $am (n, k);
	INSERT INTO t SELECT g, 'x' FROM generate_series(1, 3000) g;
	REFRESH MATERIALIZED VIEW mv;
	SELECT count(*) FROM mtpower.stat_batches WHERE index = 'mv_n'::regclass;
	INSERT INTO t SELECT g, 'x' FROM generate_series(2001, 5000) g;
	REFRESH MATERIALIZED VIEW CONCURRENTLY mv;
	SELECT entries FROM mtpower.stat_batches WHERE index = 'mv_n'::regclass;
	SET enable_seqscan = off;
	SELECT n, count(*), sum(k) FROM mv WHERE n > 0 GROUP BY n ORDER BY n;
	SELECT verify_one('mv_n');
	DROP MATERIALIZED VIEW mv}, "0\n2900\n1|3000|9501500\n2|2000|3001000\n", 7000, '0 6700');

# Foreign tables: their rows come in through a statement here, or through statements of another session.
SKIP:
{
	skip 'file_fdw or postgres_fdw is not installed', 1 if $node->psql('postgres', 'CREATE EXTENSION file_fdw; CREATE EXTENSION postgres_fdw') != 0;
	$node->safe_psql('postgres', qq{
		CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
		CREATE FOREIGN TABLE file (k int, txt text) SERVER files OPTIONS (filename '$csv', format 'csv');
		CREATE SERVER loop FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '} . $node->host . qq{', port '} . $node->port . qq{', dbname 'postgres');
		CREATE USER MAPPING FOR CURRENT_USER SERVER loop;
		CREATE FOREIGN TABLE far (k int, txt text) SERVER loop OPTIONS (table_name 't', batch_size '1000');
		CREATE FOREIGN TABLE far_o (k int, txt text) SERVER loop OPTIONS (table_name 'o', batch_size '500');
		CREATE TABLE p (k int, txt text) PARTITION BY RANGE (k);
		CREATE FOREIGN TABLE p_far PARTITION OF p FOR VALUES FROM (1) TO (2001) SERVER loop OPTIONS (table_name 'o', batch_size '500');
		CREATE TABLE p_near PARTITION OF p FOR VALUES FROM (2001) TO (9999) USING mtpower;
		CREATE INDEX p_near_k ON p_near USING $am (k);});
	check('from a file', 'INSERT INTO t TABLE file', '', 3000, '0 2900');
	check('from a foreign table', "COPY t FROM '$csv' (FORMAT csv); INSERT INTO o SELECT * FROM far", '', 3000, '2900 3000');
	check('into a foreign table', 'INSERT INTO far TABLE file; SELECT count(*) FROM far', '3000', 3000, '0 3000');
	check('into a foreign table and back, in one transaction', 'BEGIN; INSERT INTO far TABLE file; INSERT INTO o SELECT * FROM far; INSERT INTO far SELECT k + 3000, txt FROM o; COMMIT', '', 6000, '2900 6000');
	check('COPY into a partition that is a foreign table', "COPY p FROM '$csv' (FORMAT csv); SELECT count(*), (SELECT count(*) FROM p_near) FROM p; SELECT entries FROM mtpower.stat_batches WHERE index = 'p_near_k'::regclass", "3000|1000\n1000", 0, $node->pg_version < 16 ? '0 0' : '2000 0');
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SELECT (SELECT count(*) FROM o WHERE k > 0), (SELECT count(*) FROM p_near WHERE k > 0)'), '2000|1000', 'and all of it is found');
}

# By each protocol
foreach my $mode (qw(simple extended prepared))
{
	$node->safe_psql('postgres', 'TRUNCATE t; SELECT mtpower.stat_reset()');
	my $script = $node->basedir . "/script_$mode";
	append_to_file($script, "COPY t FROM '$csv' (FORMAT csv);\nINSERT INTO t SELECT k + 10000, txt FROM t WHERE k <= 3000;\nDELETE FROM t WHERE k > 0;\n");
	command_ok([ 'pgbench', '-n', '-M', $mode, '-t', 2, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], "loads, protocol $mode");
	is($node->safe_psql('postgres', q{SELECT entries FROM mtpower.stat_batches WHERE index = 't_k'::regclass}), 2 * (3000 + 2900), "loads, protocol $mode: in batches");
	is_clean($node, "loads, protocol $mode");
}

# A statement's timeout is over when its transaction commits: index work must not be left until then.
$node->safe_psql('postgres', qq{
	CREATE TABLE slow (k int, txt text) USING mtpower;
	CREATE FUNCTION slow_cmp(int, int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
		\$\$ BEGIN PERFORM pg_sleep(0.002); RETURN btint4cmp(\$1, \$2); END \$\$;
	CREATE OPERATOR CLASS slow_ops FOR TYPE int USING $am AS
		OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 slow_cmp(int, int);
	CREATE INDEX slow_k ON slow USING $am (k slow_ops);});
foreach my $mode (qw(simple extended))
{
	my $script = $node->basedir . "/slow_$mode";
	append_to_file($script, "COPY slow FROM '$csv' (FORMAT csv);\n");
	my $start = time;
	my ($out, $err);
	{
		local $ENV{PGOPTIONS} = '-c statement_timeout=500';
		IPC::Run::run([ 'pgbench', '-n', '-M', $mode, '-t', 1, '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ], '<', \undef, '>', \$out, '2>', \$err);
	}
	like($err, qr/canceling statement due to statement timeout/, "timeout in index work, protocol $mode");
	cmp_ok(time - $start, '<', 5, "timeout in index work, protocol $mode: soon");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM slow'), 0, "timeout in index work, protocol $mode: nothing is visible");
	is_clean($node, "timeout in index work, protocol $mode");
}

log_is_clean($node);
$node->stop;
done_testing();
