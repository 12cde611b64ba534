# Without the preload CREATE EXTENSION and every use of mtpower say what is missing, and adding it
# repairs everything.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->start;

my ($rc, $out, $err) = $node->psql('postgres', '\set VERBOSITY verbose
CREATE EXTENSION mtpower;');
isnt($rc, 0, 'CREATE EXTENSION fails without the preload');
like($err, qr/ERROR:  55000: mtpower must be loaded via "shared_preload_libraries"/, 'it says why');
like($err, qr/HINT:  Add "mtpower" to "shared_preload_libraries"/, 'it says what to do');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_namespace WHERE nspname = 'mtpower'}), '0',
	'nothing is left behind');

($rc, $out, $err) = $node->psql('postgres', q{LOAD 'mtpower'});
is($rc, 0, 'LOAD by a superuser does no harm');
isnt($node->psql('postgres', q{LOAD 'mtpower'; CREATE EXTENSION mtpower}), 0,
	'LOAD is no substitute for the preload');

$node->append_conf('postgresql.conf', q{shared_preload_libraries = 'mtpower'});
$node->restart;
is($node->psql('postgres', 'CREATE EXTENSION mtpower'), 0, 'it can be created with the preload');

$node->safe_psql('postgres', 'CREATE ROLE plain LOGIN; CREATE DATABASE other OWNER plain');
($rc, $out, $err) = $node->psql('other', 'CREATE EXTENSION mtpower', extra_params => [ '-U', 'plain' ]);
like($err, qr/permission denied to create extension "mtpower"/, 'only a superuser creates it');

$node->stop;
done_testing();
