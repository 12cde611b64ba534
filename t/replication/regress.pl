# The SQL tests run beside a standby that replays them under wal_consistency_checking, which
# compares every page with what redo makes of it. ("all" in a configuration file means all of
# core's: it is read before libraries are loaded.) Each test has a database of its own and leaves
# there what it would drop at its end, so that all of it is compared.
use strict;
use warnings;
use File::Basename;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;

my $top = "$FindBin::Bin/../..";
my $in = "$PostgreSQL::Test::Utils::tmp_check/regress_replay";
my ($setup, @tests) = map { basename($_, '.sql') } sort glob("$top/sql/*.sql");

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--locale=C' ]);
$primary->append_conf('postgresql.conf', slurp_file("$top/test/server.conf"));
$primary->append_conf('postgresql.conf', q{
wal_consistency_checking = 'all, mtpower'
max_connections = 20
log_statement = none
autovacuum = off
shared_buffers = 64MB
max_wal_size = 2GB
});
$primary->start;
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});

# ---------- the tests ----------

mkdir $_ or die "cannot create $_: $!" foreach $in, "$in/sql", "$in/expected", "$in/out";

# Copies a test without the DROPs at its end.
my $drop = qr/^\s*(DROP\b.*;|SET client_min_messages\b.*|RESET search_path;|--.*)?$/;

sub without_drops
{
	my ($test) = @_;
	my @sql = split /\n/, slurp_file("$top/sql/$test.sql");
	my $first;
	while (@sql && $sql[-1] =~ $drop)
	{
		my $line = pop @sql;
		$first = $line if $line ne '';
	}
	append_to_file("$in/sql/$test.sql", join("\n", @sql) . "\n");
	foreach my $expected (glob("$top/expected/$test.out $top/expected/${test}_?.out"))
	{
		my $out = slurp_file($expected);
		my $at = defined $first ? rindex($out, "\n$first\n") : -1;
		append_to_file("$in/expected/" . basename($expected), $at < 0 ? $out : substr($out, 0, $at + 1));
	}
	return;
}

sub regress
{
	my ($db, @args) = @_;
	my $ok = run_log([ $ENV{PG_REGRESS}, "--inputdir=$in", ($primary->pg_version >= 16 ? "--expecteddir=$in" : ()), "--outputdir=$in/out", '--bindir=', '--host=' . $primary->host,
			'--port=' . $primary->port, "--dbname=$db", @args ]);
	ok($ok, "the SQL tests pass: $args[-1]") or diag(-e "$in/out/regression.diffs" ? slurp_file("$in/out/regression.diffs") : 'no differences written');
	return;
}

without_drops($_) foreach $setup, @tests;
# The standby comes after the test that creates the extension, which would print a NOTICE about it.
regress('regress', '--encoding=UTF8', '--no-locale', $setup);
my $standby = standby_of($primary, 'standby', "primary_slot_name = 'standby'\n");

# Copied through WAL, page by page, or as files
my $strategy = 0;
foreach my $test (@tests)
{
	$primary->safe_psql('postgres', "CREATE DATABASE $test TEMPLATE regress STRATEGY " . ($strategy++ % 2 ? 'wal_log' : 'file_copy'));
	regress($test, '--use-existing', $test);
}
# The comparison of pages takes place.
my $from = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
$primary->safe_psql('regress', q{
	CREATE TABLE few (a int) USING mtpower;
	CREATE INDEX few_a ON few USING mtpower_blink (a);
	CREATE INDEX few_h ON few USING mtpower_hash (a);
	INSERT INTO few SELECT generate_series(1, 10)});
my $to = $primary->safe_psql('postgres', 'SELECT pg_current_wal_lsn()');
my ($records, $errors) = run_command([ 'pg_waldump', '--bkp-details', '--rmgr=custom155', '--path=' . $primary->data_dir . '/pg_wal',
		"--start=$from", "--end=$to" ]);
like($records, qr/for WAL verification/, 'records of mtpower carry pages to compare') or diag($errors);


# ---------- what is left ----------

# Its function is not as immutable as it says.
$primary->safe_psql('verify', 'DROP INDEX verify.liar_a, verify.liar_part, verify.liar_order');
my ($tables, $indexes) = same_servers('after the SQL tests', $primary, $standby);
cmp_ok($indexes, '>', 250, 'so many indexes of mtpower');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP|FATAL:  (?!the database system is starting up)/, 'redo agrees with every page');
$standby->stop;
$primary->stop;
done_testing();
