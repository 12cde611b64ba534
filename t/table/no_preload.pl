# A server loses the preload: mtpower tables, and statements that need indexes of mtpower, say so;
# everything else goes on, and nothing is lost.
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
	CREATE TABLE hashed (a int);
	CREATE INDEX hashed_a ON hashed USING mtpower_hash (a);
	INSERT INTO hashed VALUES (1), (2);
	CREATE TABLE treed (a int);
	CREATE INDEX treed_a ON treed USING mtpower_blink (a);
	INSERT INTO treed VALUES (1), (2);
});

$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->restart;
foreach my $sql ('SELECT * FROM m', 'INSERT INTO m VALUES (3)', 'TRUNCATE m', 'VACUUM m', 'CREATE INDEX ON m (a)',
	'ALTER TABLE m SET ACCESS METHOD heap', 'CREATE TABLE n (a int) USING mtpower', q{SELECT mtpower.adopt('h')},
	q{SELECT mtpower.release('m')}, 'SELECT * FROM mtpower.release_all()', q{SELECT mtpower.set_directory('m', 'a')},
	q{SELECT mtpower.directory('m')}, 'COPY m FROM stdin',
	(map { ("SELECT * FROM $_ WHERE a = 2", "VACUUM $_", "INSERT INTO $_ VALUES (3)", "REINDEX TABLE $_", "SELECT mtpower.verify_index('${_}_a')") } 'hashed', 'treed'),
	'CREATE INDEX ON h USING mtpower_hash (a)', 'CREATE INDEX ON h USING mtpower_blink (a)')
{
	my ($rc, undef, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	like($err, qr/ERROR:  55000: mtpower must be loaded via "shared_preload_libraries".*HINT:  Add "mtpower"/s, $sql);
}
is($node->safe_psql('postgres', 'INSERT INTO h VALUES (2); SELECT sum(a) FROM h'), '3', 'heap tables work');
is($node->safe_psql('postgres', 'SELECT x.a FROM h x JOIN h y USING (a) WHERE x.a = 2 ORDER BY x.a; SELECT max(a) FROM h'), "2\n2",
	'so do their operators, though access methods of mtpower know them');
is($node->safe_psql('postgres', "SELECT sum(a) FROM $_"), '3', "$_ can be read without its index") foreach 'hashed', 'treed';

$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->restart;
is($node->safe_psql('postgres', 'SELECT sum(a) FROM m'), '3', 'with the preload the table is there again');
is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT a FROM $_ WHERE a = 2; SELECT mtpower.verify_index('${_}_a', true)"), "2\n", "so is $_") foreach 'hashed', 'treed';

$node->stop;
done_testing();
