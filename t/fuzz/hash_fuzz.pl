# Pages of hash indexes are damaged in every way, as blink_fuzz.pl does it with B-link indexes.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFuzz;

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

# Full buckets with a stash
my $int = { name => 'fz_int', key => '(a) WITH (fillfactor = 100, initial_buckets = 3)', columns => 'a int', values => 'g, g', rows => 5000, changed => 'a = a + 1', asked => [
	[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 5100, 3) g JOIN fz_int ON a = g' ],
	[ 'bitmaps', 'bitmap', 'SELECT count(*), sum(k) FROM generate_series(1, 5100, 37) g JOIN fz_int ON a = g' ]
] };

# One with heavy hashes
my $heavy = { name => 'fz_heavy', key => '(x, y)', columns => 'x text, y int', values => q{g, CASE WHEN g % 3 > 0 THEN 'x' || g % 2 ELSE md5(g::text) END, 1},
	rows => 4500, changed => 'y = y + 1', asked => [
	[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 4500, 7) g JOIN fz_heavy ON x = md5(g::text) AND y = 1' ],
	[ 'heavy', 'index', q{SELECT count(*), sum(k) FROM fz_heavy WHERE x = 'x0' AND y = 1} ],
	[ 'bitmap', 'bitmap', q{SELECT count(*), sum(k) FROM fz_heavy WHERE x = 'x1' AND y = 1} ]
] };

fuzz_kinds(map { fuzz_kind(am => 'mtpower_hash', step => 2, known => \&known, %$_) } $int, $heavy);
done_testing();
