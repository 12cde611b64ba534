# Directory scans with a zone index and directories find what a sequential scan finds: alone, in
# nested loops, beside changes, and after a restart.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 64MB
shared_buffers = 128MB
autovacuum = off
max_parallel_workers_per_gather = 0
enable_bitmapscan = off
});
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
	CREATE TABLE t (id int, ts timestamp, x int, pad text) USING mtpower;
	INSERT INTO t SELECT g, '2026-01-01'::timestamp + g * interval '1 minute', g % 100, repeat('x', 40)
	FROM generate_series(1, 30000) g;
	CREATE INDEX t_zone ON t USING mtpower_zone (id, ts);
	SELECT mtpower.set_directory('t', 'id', 'x');
	CREATE TABLE probes AS SELECT g * 97 AS id FROM generate_series(0, 310) g;
	VACUUM ANALYZE t, probes;
});

# lines QUERY: of its plan, with ANALYZE
sub lines
{
	return $node->safe_psql('postgres', "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) $_[0]");
}

# Whole scans ask for all directories.
my $all = 'SELECT count(*) FROM t WHERE x = 200';
foreach (1 .. 300)
{
	last if lines($all) =~ / 0 scanned/;
	sleep 0.1;
}
like(lines($all), qr/ 0 scanned/, 'all pages have directories');
like(lines('SELECT * FROM t WHERE id = 777'),
	qr/Zone Index: t_zone\n *Zones: 1 of \d+ pairs\n *Pages: 1 by directory, [01] skipped, 0 scanned/,
	'a look-up goes from the index to a pair, and from its directory to the row');

# check WHAT: compares with sequential scans.
sub check
{
	my $what = shift;
	my @clauses = (
		(map { "id = " . (1 + int rand 31000) } 1 .. 20),
		(map { my $from = int rand 30000; "id BETWEEN $from AND $from + 500 AND x < 10" } 1 .. 10),
		(map { my $at = int rand 30000; "ts > '2026-01-01'::timestamp + $at * interval '1 minute' AND ts < '2026-01-01'::timestamp + ($at + 300) * interval '1 minute' AND x = 7" } 1 .. 10),
		'id IS NULL', 'id = ANY (ARRAY[3, 1500, 29999])', 'id < 0', 'id > 29990', 'id > 29990 AND x IS NULL');
	my $loops = "SELECT count(*), sum(x) FROM probes JOIN t USING (id)";
	my $queries = join('', map { "SELECT '$_->[0]', string_agg(t::text, ',') FROM t WHERE $_->[1];" } map { [ $_ =~ s/'/''/gr, $_ ] } @clauses) .
		"SET enable_hashjoin = off; SET enable_mergejoin = off; $loops; $loops;";
	my $pruned = $node->safe_psql('postgres', $queries);
	my $whole = $node->safe_psql('postgres', "SET mtpower.enable_directoryscan = off; $queries");
	is($pruned, $whole, $what);
}
srand(21);
check('the same rows');
my $loop = lines('SELECT count(*) FROM probes JOIN t USING (id)');
unlike($loop, qr/Hash/, 'a look-up is cheaper than a hash table') or diag($loop);
like($loop, qr/Zones: 1 of /, 'look-ups of a loop');

# Some directories go, entries widen, rows move.
$node->safe_psql('postgres', q{
	UPDATE t SET id = 30001 + id WHERE id % 1000 = 0;
	UPDATE t SET x = NULL WHERE id % 501 = 0;
	DELETE FROM t WHERE id BETWEEN 9000 AND 9900;
	INSERT INTO t SELECT NULL, ts, x, pad FROM t WHERE id < 10;
});
check('the same after changes');
$node->safe_psql('postgres', 'VACUUM t');
check('the same after VACUUM');
$node->safe_psql('postgres', 'INSERT INTO t SELECT g, now(), 7, NULL FROM generate_series(9000, 9900) g');
check('the same with pages filled again');

# A cursor keeps to its snapshot, while the pages that it comes to change.
my $wanted = 'id BETWEEN 100 AND 3000 AND x < 50';
my $connstr = $node->connstr('postgres');
my @counts = split(/\n/, $node->safe_psql('postgres', qq{
	SELECT count(*) FROM t WHERE $wanted;
	BEGIN;
	DECLARE d CURSOR FOR SELECT id FROM t WHERE $wanted;
	MOVE 10 FROM d;
	\\! psql -qX -d "$connstr" -c "DELETE FROM t WHERE id BETWEEN 500 AND 1500" -c "INSERT INTO t SELECT g, now(), 1, NULL FROM generate_series(500, 600) g" -c "VACUUM t"
	FETCH ALL FROM d}));
my $before = shift @counts;
is(scalar(@counts), $before - 10, 'a cursor has the rows of its snapshot');
check('others have those of today');

$node->restart;
check('the same after a restart, without directories');
$node->safe_psql('postgres', q{SELECT mtpower.verify_index('t_zone', true)});
$node->stop;
done_testing();
