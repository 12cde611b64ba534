# Tables of mtpower write no WAL record of mtpower. A standby without the library replays them,
# and says why it cannot read them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$primary->start;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

# The extension arrives on the standby, which has the library, and its functions say that they can't run there.
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE TABLE m (a int) USING mtpower; INSERT INTO m VALUES (1), (2)');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT sum(a) FROM m'), '3', 'the standby reads a mtpower table');
my ($rc, $out, $err) = $standby->psql('postgres', q{SELECT mtpower.release('m')});
like($err, qr/ERROR:  cannot execute mtpower\.release\(\) in a read-only transaction/, 'no release on a standby');

$standby->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$standby->restart;
$primary->safe_psql('postgres', 'INSERT INTO m VALUES (3); CREATE TABLE h AS SELECT 1 AS a');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT a FROM h'), '1', 'a standby without the library goes on');
($rc, $out, $err) = $standby->psql('postgres', 'SELECT * FROM m');
like($err, qr/ERROR:  mtpower must be loaded via "shared_preload_libraries"/, 'but can not read the table');
$standby->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$standby->restart;
is($standby->safe_psql('postgres', 'SELECT sum(a) FROM m'), '6', 'until it has the library');

$standby->stop;
$primary->stop;
done_testing();
