# Hash indexes whose pages are damaged in every way, as blink_fuzz.pl does it with B-link indexes.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFuzz;

my $seed = $ENV{SEED} || 1;
note "seed $seed";
srand($seed);
fuzz_node(q{
	CREATE TABLE others (a int, b text COLLATE "C", c int);
	INSERT INTO others SELECT g, md5(g::text), g FROM generate_series(1, 3000) g;
	CREATE INDEX others_a ON others USING mtpower_blink (a);
	CREATE INDEX others_b ON others USING mtpower_hash (b)});
my @foreign = qw(others_a others_b);

sub kind
{
	my ($name, $key, $columns, $values, $rows, $changed, @asked) = @_;
	my $fill = "INSERT INTO $name SELECT $values FROM generate_series(1, $rows) g";
	return {
		index => "${name}_x", table => $name, older => "${name}_old_x", foreign => \@foreign, asked => \@asked, known => \&known,
		create => "CREATE TABLE $name (k int, $columns); CREATE INDEX ${name}_x ON $name USING mtpower_hash $key; SET mtpower.batching = off; $fill;
			CREATE TABLE ${name}_old (LIKE $name); INSERT INTO ${name}_old SELECT * FROM $name WHERE k % 3 = 0;
			CREATE INDEX ${name}_old_x ON ${name}_old USING mtpower_hash $key;
			DELETE FROM $name WHERE k BETWEEN $rows / 3 AND $rows / 2; VACUUM $name; ANALYZE $name",
		done => [
			[ 'insert', "SET mtpower.batching = off; INSERT INTO $name SELECT $values FROM generate_series(1, $rows, $rows / 60) g" ],
			[ 'load', "SET mtpower.batching = on; SET mtpower.batch_min_rows = 0; INSERT INTO $name SELECT $values FROM generate_series(1, $rows, 2) g" ],
			[ 'update', "UPDATE $name SET $changed WHERE k % 40 = 0" ],
			[ 'delete', "DELETE FROM $name WHERE k BETWEEN $rows / 10 AND $rows / 4" ],
			[ 'vacuum', "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) $name" ]
		]
	};
}

# What has crashed the server, hung or called the index by no name before it was checked.
sub known
{
	my ($bytes) = @_;
	my $page = primary_of($bytes);
	my $size = block_size();
	return (
		[ 'TIDs without offset', map { [ $page, $size - 10 * $_ - 2, 2, 0 ] } 0 .. 99 ],
		[ 'TIDs far beyond the table', map { [ $page, $size - 10 * $_ - 6, 2, 0x1000 ] } 0 .. 99 ],
		[ 'a next page far beyond the end', [ $page, 40, 4, 0x10000000 ] ],
		[ 'itself as the next page', [ $page, 40, 4, $page ] ],
		[ 'itself as its source', [ $page, 44, 4, $page ] ],
		[ 'buckets that begin with the metapage', [ 0, 116, 4, 0 ] ],
		[ 'buckets far beyond the end', [ 0, 116, 4, 0x10000000 ] ],
		[ 'too many entries', [ $page, 48, 2, 60000 ] ]);
}

# Full buckets with a stash; one with heavy hashes.
my %kinds = (
	int => kind('fz_int', '(a) WITH (fillfactor = 100, initial_buckets = 3)', 'a int', 'g, g', 5000, 'a = a + 1',
		[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 5100, 3) g JOIN fz_int ON a = g' ],
		[ 'bitmaps', 'bitmap', 'SELECT count(*), sum(k) FROM generate_series(1, 5100, 37) g JOIN fz_int ON a = g' ]),
	heavy => kind('fz_heavy', '(x, y)', 'x text, y int', q{g, CASE WHEN g % 3 > 0 THEN 'x' || g % 2 ELSE md5(g::text) END, 1}, 4500, 'y = y + 1',
		[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 4500, 7) g JOIN fz_heavy ON x = md5(g::text) AND y = 1' ],
		[ 'heavy', 'index', q{SELECT count(*), sum(k) FROM fz_heavy WHERE x = 'x0' AND y = 1} ],
		[ 'bitmap', 'bitmap', q{SELECT count(*), sum(k) FROM fz_heavy WHERE x = 'x1' AND y = 1} ]));
fuzz($kinds{$_}, 100) foreach split / /, $ENV{KINDS} || 'int heavy';
done_testing();
