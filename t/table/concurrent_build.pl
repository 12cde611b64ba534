# CREATE INDEX CONCURRENTLY and REINDEX CONCURRENTLY run on an mtpower table under inserts,
# updates (HOT and not) and deletes, without parallel workers and with them. Every index that comes
# out is complete.
use strict;
use warnings;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
fsync = off
autovacuum_naptime = 1s
max_worker_processes = 16
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (a int PRIMARY KEY, b int, c int) USING mtpower WITH (fillfactor = 60, parallel_workers = 2);
	INSERT INTO t SELECT g, g, g FROM generate_series(1, 2000) g;
	CREATE INDEX t_b ON t (b);
	CREATE INDEX t_l ON t USING mtpower_blink (b);
	CREATE INDEX t_h ON t USING mtpower_hash (b) WITH (initial_buckets = 1, fillfactor = 10);
});

my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set a random(1, 2000)
\set b random(1, 100000)
\set n random(2001, 20000)
UPDATE t SET c = c + 1 WHERE a = :a;
BEGIN;
UPDATE t SET c = c + 1 WHERE a = :a;
UPDATE t SET b = :b WHERE a = :a + 1;
SAVEPOINT s;
UPDATE t SET c = c + 1 WHERE a = :a + 1;
ROLLBACK TO s;
END;
INSERT INTO t VALUES (:n, :b, :n) ON CONFLICT (a) DO UPDATE SET c = excluded.c;
DELETE FROM t WHERE a = :n - 1 AND a > 2000;
});
# What any deadlock with REINDEX would roll back is no failure of the load.
my $load = IPC::Run::start(
	[ 'pgbench', '-n', '-c', '4', '-T', '8', '-f', $script, '--max-tries=10', $node->connstr('postgres') ],
	'>', $node->basedir . '/load.out', '2>', $node->basedir . '/load.err');

my ($rounds, $builds, $failures, $message) = (1, 0, 0, '');
my $until = time() + 7;
while (time() < $until)
{
	foreach my $sql ('REINDEX INDEX CONCURRENTLY t_b', 'CREATE INDEX CONCURRENTLY t_c ON t (c)',
		'CREATE INDEX CONCURRENTLY t_bc ON t ((b + c)) WHERE a % 2 = 0', 'REINDEX INDEX CONCURRENTLY t_l',
		'CREATE INDEX CONCURRENTLY t_lc ON t USING mtpower_blink (c)', 'REINDEX INDEX CONCURRENTLY t_h', 'CREATE INDEX CONCURRENTLY t_hc ON t USING mtpower_hash (c, b) WHERE a % 2 = 0',
		'CREATE INDEX CONCURRENTLY t_lbc ON t USING mtpower_blink ((b + c)) WHERE a % 2 = 0', 'REINDEX TABLE CONCURRENTLY t')
	{
		my ($rc, undef, $stderr) = $node->psql('postgres', "SET log_min_messages = debug1; SET max_parallel_maintenance_workers = " . $rounds % 3 . ";\n$sql");
		($rc, undef, $stderr) = $node->psql('postgres', q{
			SELECT CASE WHEN a.amname = 'btree' THEN bt_index_check(c.oid, true) ELSE mtpower.verify_index(c.oid, true) END
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam
			WHERE i.indrelid = 't'::regclass}) if $rc == 0;
		$builds++;
		next if $rc == 0;
		$failures++;
		$message = "$sql: $stderr";
	}
	$node->psql('postgres', 'DROP INDEX t_c, t_bc, t_lc, t_hc, t_lbc');
	$rounds++;
}
ok($load->finish, 'the load ran to its end') or diag(slurp_file($node->basedir . '/load.err'));
cmp_ok($builds, '>=', 4, 'there were builds');
my %parallel = map { $_ => 1 } slurp_file($node->logfile) =~ /building index "(t_\w+?)(?:_ccnew)?" with 1 of 1 parallel workers/g;
is(join(' ', grep { $parallel{$_} } qw(t_h t_hc t_l t_lbc t_lc)), 't_h t_hc t_l t_lbc t_lc', 'each of ours was built with a worker');
is("$failures $message", '0 ', 'every build succeeded and every index is complete');

foreach my $other ('t_b', 't_l')
{
	my $bad = $node->safe_psql('postgres', qq{
		BEGIN;
		DROP INDEX $other;
		SET enable_seqscan = off;
		SET enable_bitmapscan = off;
		SELECT count(*) FROM (SELECT a FROM t WHERE b >= 0 ORDER BY b) i FULL JOIN (SELECT a FROM t WHERE a >= 0) p USING (a)
		WHERE i IS NULL OR p IS NULL;
		ROLLBACK});
	is($bad, '0', "without $other two indexes lead to the same rows");
}

$node->stop;
done_testing();
