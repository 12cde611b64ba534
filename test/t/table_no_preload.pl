# A server that lost the preload: mtpower tables say so, everything else goes on, and nothing is lost.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE m (a int) USING mtpower;
	INSERT INTO m VALUES (1), (2);
	CREATE TABLE h (a int);
	INSERT INTO h VALUES (1);
});

$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->restart;
foreach my $sql ('SELECT * FROM m', 'INSERT INTO m VALUES (3)', 'TRUNCATE m', 'VACUUM m', 'CREATE INDEX ON m (a)',
	'ALTER TABLE m SET ACCESS METHOD heap', 'CREATE TABLE n (a int) USING mtpower', q{SELECT mtpower.adopt('h')},
	q{SELECT mtpower.release('m')}, 'SELECT * FROM mtpower.release_all()', 'COPY m FROM stdin')
{
	my ($rc, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, qr/ERROR:  55000: mtpower must be loaded via "shared_preload_libraries".*HINT:  Add "mtpower"/s, $sql);
}
is($node->safe_psql('postgres', 'INSERT INTO h VALUES (2); SELECT sum(a) FROM h'), '3', 'heap tables work');

$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->restart;
is($node->safe_psql('postgres', 'SELECT sum(a) FROM m'), '3', 'with the preload the table is there again');

$node->stop;
done_testing();
