# CREATE EXTENSION reminds of the preload on standbys, if some are connected.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 'logical');
$primary->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$primary->start;
my $reminder = qr/NOTICE:  standbys need mtpower in "shared_preload_libraries" as well/;

my ($rc, $out, $err) = $primary->psql('postgres', 'CREATE EXTENSION mtpower');
is($rc, 0, 'CREATE EXTENSION without standbys');
is($err, '', 'no reminder without standbys');
$primary->safe_psql('postgres', 'DROP EXTENSION mtpower');

# A subscriber is no standby.
$primary->safe_psql('postgres', q{
	CREATE TABLE t (a int);
	CREATE PUBLICATION p FOR TABLE t;});
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->start;
$subscriber->safe_psql('postgres', 'CREATE TABLE t (a int); CREATE SUBSCRIPTION s CONNECTION '
	. "'" . $primary->connstr . " dbname=postgres application_name=s' PUBLICATION p");
$primary->wait_for_catchup('s');
($rc, $out, $err) = $primary->psql('postgres', 'CREATE EXTENSION mtpower');
is($err, '', 'no reminder for a subscriber');
$primary->safe_psql('postgres', 'DROP EXTENSION mtpower');

my $backup = 'base';
$primary->backup($backup);
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, $backup, has_streaming => 1);
$standby->start;
$primary->wait_for_catchup($standby);
($rc, $out, $err) = $primary->psql('postgres', 'CREATE EXTENSION mtpower');
is($rc, 0, 'CREATE EXTENSION with a standby');
like($err, $reminder, 'a standby is reason for the reminder');
like($err, qr/DETAIL:  1 standby is connected\./, 'it counts standbys, not subscribers');
like($err, qr/HINT:  Install mtpower on each standby/, 'it says what to do');

# The extension arrives on the standby, which has the library, and its functions say that they can't run there.
$primary->safe_psql('postgres', 'CREATE TABLE m (a int) USING mtpower; INSERT INTO m VALUES (1), (2)');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT sum(a) FROM m'), '3', 'the standby reads a mtpower table');
($rc, $out, $err) = $standby->psql('postgres', q{SELECT mtpower.release('m')});
like($err, qr/ERROR:  cannot execute mtpower\.release\(\) in a read-only transaction/, 'no release on a standby');

# Tables of mtpower alone bring no WAL record of mtpower: a standby that lacks the library replays them, and says why it
# can't read them.
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

$subscriber->stop;
$standby->stop;
$primary->stop;
done_testing();
