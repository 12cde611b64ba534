# Rows that come out of order: what is found is right, a look-up of eight writers with jitter reads
# few pages, and the planner leaves the index when the order is gone.
use strict;
use warnings;
use MtpSessions;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
shared_buffers = 128MB
jit = off
max_parallel_workers_per_gather = 0
mtpower.enable_directoryscan = off
});
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');

# plan_of QUERY [SETTINGS]: with ANALYZE
sub plan_of
{
	my ($query, $settings) = @_;
	return $node->safe_psql('postgres', ($settings // '') . "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $query");
}

# found TABLE CLAUSE: how many pairs a search finds, by a directory scan's plan
sub found
{
	my ($table, $clause) = @_;
	my $plan = plan_of("SELECT * FROM $table WHERE $clause", 'SET mtpower.enable_directoryscan = on; SET enable_bitmapscan = off;');
	return $plan =~ /Zones: (\d+) of/ ? $1 : undef;
}

# Eight writers: `at` is the time of the row, up to five seconds before it is written.  A thousand rows come in a second.
$node->safe_psql('postgres', q{
	CREATE TABLE feed (at float8, written float8, pad text) USING mtpower;
	CREATE INDEX feed_at ON feed USING mtpower_zone (at);
	CREATE SEQUENCE clock CACHE 1;
});
my $script = PostgreSQL::Test::Utils::tempdir . '/write.sql';
append_to_file($script, q{INSERT INTO feed SELECT now - random() * 5, now, repeat('x', 60) FROM (SELECT nextval('clock') / 1000.0 AS now FROM generate_series(1, 10) g OFFSET 0) s;});
$node->command_ok([ 'pgbench', '-n', '-c', '8', '-t', '750', '-f', $script, $node->connstr('postgres') ], 'eight writers');
$node->safe_psql('postgres', 'VACUUM ANALYZE feed');
is($node->safe_psql('postgres', 'SELECT count(*) FROM feed'), 60000, 'all rows are there');
my @ratios;
foreach my $at (12, 21.5, 30, 38.2, 47)
{
	# What the writers have written from then on until a row of that time can no longer come
	my $written = $node->safe_psql('postgres', "SELECT count(DISTINCT (ctid::text::point)[0]::int / 2) FROM feed WHERE written BETWEEN $at AND $at + 5");
	my $found = found('feed', "at = $at") // 'no scan by zones';
	push @ratios, "$found of $written" unless $found =~ /^\d+$/ && $found <= 2 * $written;
}
is("@ratios", '', "a look-up reads at most twice what the writers wrote meanwhile");
like(plan_of('SELECT * FROM feed WHERE at BETWEEN 30 AND 30.1'), qr/Bitmap Index Scan on feed_at/, 'and the planner takes it');

# check TABLE: compares with sequential scans.
sub check
{
	my ($table) = @_;
	my $queries = join('', map {
		my $from = int rand 100000;
		"SELECT count(*), sum(a) FROM $table WHERE a BETWEEN $from AND $from + 50; SELECT count(*) FROM $table WHERE a = $from;"
	} 1 .. 20);
	my $right = $node->safe_psql('postgres', "SET enable_bitmapscan = off; $queries");
	is($node->safe_psql('postgres', $queries), $right, "$table: the planner's choice finds all");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; $queries"), $right, "$table: the index finds all");
}

# So many rows of a hundred stand anywhere.
srand(8);
my %index;
foreach my $percent (0, 1, 10, 50, 100)
{
	my $table = "percent_$percent";
	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (a int, pad text) USING mtpower;
		CREATE INDEX ON $table USING mtpower_zone (a);
		SELECT setseed(0.21);
		INSERT INTO $table SELECT CASE WHEN random() * 100 < $percent THEN (random() * 100000)::int ELSE g END, repeat('x', 60) FROM generate_series(1, 100000) g;
		VACUUM ANALYZE $table;
	});
	check($table);
	$index{$percent} = plan_of("SELECT * FROM $table WHERE a BETWEEN 50000 AND 50050") =~ /Bitmap Index Scan/ ? 'index' : 'table';
	$node->safe_psql('postgres', "DELETE FROM $table WHERE a % 5 = 0; VACUUM $table; INSERT INTO $table SELECT (random() * 100000)::int FROM generate_series(1, 1000)");
	check($table);
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_class c WHERE relname = '${table}_a_idx' AND mtpower.verify_index(oid, true)::text = ''"), 1, "$table: the index is sound");
}
is($index{0}, 'index', 'in order: by the index');
is($index{$_}, 'table', "$_ % out of order: by the table") foreach 50, 100;
$node->stop;
done_testing();
