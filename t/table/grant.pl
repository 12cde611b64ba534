# CREATE INDEX on an expression that detoasts, and loads into such an index, run while another
# session grants and revokes. Detoasting opens the TOAST table, which may rebuild the table's
# relation cache entry in the middle of the scan.
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
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE EXTENSION amcheck;
	CREATE TABLE t (a int, b text) USING mtpower;
	ALTER TABLE t ALTER b SET STORAGE EXTERNAL;
	INSERT INTO t SELECT g, repeat(md5(g::text), 200) FROM generate_series(1, 400) g;
	CREATE TABLE stop (a int);
	CREATE TABLE grants (n int);
});

my $granter = IPC::Run::start(
	[ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-c', q{
	DO $$
	DECLARE n int := 0;
	BEGIN
		WHILE NOT EXISTS (SELECT FROM stop) LOOP
			GRANT SELECT ON t TO PUBLIC;
			COMMIT;
			REVOKE SELECT ON t FROM PUBLIC;
			COMMIT;
			n := n + 1;
		END LOOP;
		INSERT INTO grants VALUES (n);
	END $$} ], '>', \my $out, '2>', \my $err);

my $failures = 0;
my $message = '';
foreach my $i (1 .. 6)
{
	foreach my $how ('', 'CONCURRENTLY')
	{
		foreach my $am ([ 'btree', 'bt_index_check' ], [ 'mtpower_blink', 'mtpower.verify_index' ], [ 'mtpower_hash', 'mtpower.verify_index' ])
		{
			my ($rc, undef, $stderr) = $node->psql('postgres', "CREATE INDEX $how t_b ON t USING $am->[0] (md5(b));");
			if ($rc == 0)
			{
				($rc, undef, $stderr) = $node->psql('postgres', "SELECT $am->[1]('t_b', true)");
			}
			if ($rc != 0)
			{
				$failures++;
				$message = $stderr;
			}
			$node->psql('postgres', 'DROP INDEX IF EXISTS t_b');
		}
	}
}
# A load into such indexes, whose entries are queued and applied beside the same.
$node->safe_psql('postgres', q{
	SET mtpower.batch_min_rows = 0;
	SET mtpower.batch_size = '64kB';
	CREATE INDEX t_b ON t USING mtpower_blink (md5(b));
	CREATE INDEX t_h ON t USING mtpower_hash (md5(b));
	INSERT INTO t SELECT g, repeat(md5(g::text), 200) FROM generate_series(401, 4000) g;
	UPDATE t SET b = reverse(b) WHERE a % 2 = 0});
is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('t_b', true), mtpower.verify_index('t_h', true)}), '|', 'a load into the indexes beside grants');
$node->safe_psql('postgres', 'INSERT INTO stop VALUES (1)');
ok($granter->finish, 'the granting session ran to its end');
is($err, '', 'and had no error');
is("$failures $message", '0 ', 'no index build failed');
cmp_ok($node->safe_psql('postgres', 'SELECT n FROM grants'), '>', 20, 'there were grants beside the builds');

$node->stop;
done_testing();
