# The SQL tests once more, beside a standby that replays them under wal_consistency_checking, which compares every page
# with what redo makes of it.  ("all" in a configuration file means all of core's: it is read before libraries are loaded.)
use strict;
use warnings;
use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $out = "$PostgreSQL::Test::Utils::tmp_check/regress_replay";
my ($setup, @tests) = map { basename($_, '.sql') } sort glob("$top/sql/*.sql");

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$primary->append_conf('postgresql.conf', slurp_file("$top/test/server.conf"));
$primary->append_conf('postgresql.conf', "wal_consistency_checking = 'all, mtpower'\nmax_connections = 20");
$primary->start;
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
mkdir $out or die "cannot create $out: $!";

# The standby comes after the test that creates the extension, which would print a NOTICE about it.
regress('--encoding=UTF8', '--no-locale', $setup);
$primary->backup('first');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'first', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_slot_name = 'standby'");
$standby->start;
regress('--use-existing', @tests);

# The comparison takes place.
my $from = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$primary->safe_psql('contrib_regression', q{
	CREATE TABLE few (a int) USING mtpower;
	CREATE INDEX few_a ON few USING mtpower_blink (a);
	CREATE INDEX few_h ON few USING mtpower_hash (a);
	INSERT INTO few SELECT generate_series(1, 10)});
my $to = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
my ($records, $errors) = run_command([ 'pg_waldump', '--bkp-details', '--rmgr=custom155', '--path=' . $primary->data_dir . '/pg_wal',
		"--start=$from", "--end=$to" ]);
like($records, qr/for WAL verification/, 'records of mtpower carry pages to compare') or diag($errors);

# Indexes that remain, for both servers to verify at the end.
$primary->safe_psql('contrib_regression', q{
	CREATE TABLE remains (a int, b text) USING mtpower;
	CREATE INDEX remains_a ON remains USING mtpower_blink (a);
	CREATE INDEX remains_b ON remains USING mtpower_blink (b);
	CREATE INDEX remains_h ON remains USING mtpower_hash (a) WITH (initial_buckets = 1);
	CREATE INDEX remains_hab ON remains USING mtpower_hash (a, b);
	INSERT INTO remains SELECT i * 7919 % 50000, md5(i::text) FROM generate_series(1, 50000) i;
	DELETE FROM remains WHERE a % 3 = 0;
	VACUUM remains;
	COPY (SELECT a + 1, b FROM remains) TO PROGRAM 'cat > remains.copy';
	COPY remains FROM 'remains.copy'});
my $end = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');

ok($standby->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$end'"), 'all of it is replayed')
  or diag("the standby's log ends with:\n" . substr(slurp_file($standby->logfile), -2000));
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|FATAL:  (?!the database system is starting up)/,
	'redo agrees with every page');
foreach my $node ($primary, $standby)
{
	is($node->psql('contrib_regression', "SELECT mtpower.verify_index('$_', true)"), 0, $node->name . ": $_ verifies")
	  foreach qw(remains_a remains_b remains_h remains_hab);
}
is($standby->safe_psql('contrib_regression', 'SELECT count(*), sum(a) FROM remains'),
	$primary->safe_psql('contrib_regression', 'SELECT count(*), sum(a) FROM remains'), 'the same rows');

$standby->stop;
$primary->stop;
done_testing();

sub regress
{
	my $ok = run_log([ $ENV{PG_REGRESS}, "--inputdir=$top", "--outputdir=$out", '--bindir=', '--host=' . $primary->host,
			'--port=' . $primary->port, '--dbname=contrib_regression', @_ ]);
	ok($ok, 'the SQL tests pass') or diag(-e "$out/regression.diffs" ? slurp_file("$out/regression.diffs") : 'no differences written');
}
