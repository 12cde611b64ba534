# Pages of B-link indexes are damaged in every way in the buffers: bits, bytes, numbers that lead
# elsewhere, pages that are zero, exchanged, old, or another index's, files cut short. After each
# damage the index is asked in all ways, changed, loaded, vacuumed and verified. Each answer is
# right, or an error that names index and block, or verify_index finds the damage. Nothing crashes
# or hangs.
#
# FLIPS (100) chooses how many at random, or all: each bit of the headers and directories of a
# page of each kind and each byte of its entries. SEED, KINDS.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFuzz;

my $int = { name => 'fz_int', key => '(a)', columns => 'a int', values => 'g, g * 2', rows => 2500, changed => 'a = a + 1', asked => [
	[ 'forward', 'index', q{SELECT count(*), md5(string_agg((a + k - k)::text, ',')) FROM (SELECT a, k FROM fz_int WHERE a > 0 ORDER BY a) s} ],
	[ 'backward', 'only', q{SELECT count(*), md5(string_agg(a::text, ',')) FROM (SELECT a FROM fz_int WHERE a < 100000 ORDER BY a DESC) s} ],
	[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 5000, 23) g JOIN fz_int ON a = g' ],
	[ 'bitmap', 'bitmap', 'SELECT count(*), sum(k) FROM fz_int WHERE a BETWEEN 100 AND 4000' ],
	[ 'array', 'index', q{SELECT count(*), sum(k) FROM fz_int WHERE a = ANY ('{2, 100, 102, 2000, 2222, 4000, 4999, 5000}')} ]
] };

my $wide = { name => 'fz_wide', key => '(x, y) INCLUDE (z)', columns => 'x text COLLATE "C", y int, z numeric',
	values => q{g, CASE WHEN g % 50 > 0 THEN repeat(md5((g / 2)::text), 1 + g % 8) END, CASE WHEN g % 30 > 0 THEN g % 7 END, g / 7.0},
	rows => 1500, changed => 'y = y + 1', asked => [
	[ 'forward', 'only', q{SELECT count(*), md5(string_agg(concat(x, y), ',')), sum(z) FROM (SELECT x, y, z FROM fz_wide ORDER BY x, y) s} ],
	[ 'backward', 'index', q{SELECT count(*), md5(string_agg(concat(x, y), ',')) FROM (SELECT x, y FROM fz_wide ORDER BY x DESC, y DESC) s} ],
	[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 1500, 17) g JOIN fz_wide ON x = repeat(md5((g / 2)::text), 1 + g % 8)' ],
	[ 'both', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 1500, 17) g JOIN fz_wide ON x = repeat(md5((g / 2)::text), 1 + g % 8) AND y = g % 7' ],
	[ 'nulls', 'only', 'SELECT count(*), sum(z) FROM fz_wide WHERE x IS NULL' ],
	[ 'bitmap', 'bitmap', q{SELECT count(*), sum(k) FROM fz_wide WHERE x BETWEEN '3' AND 'c'} ]
] };

my $num = { name => 'fz_num', key => '(n DESC NULLS FIRST)', columns => 'n numeric', values => 'g, CASE WHEN g % 20 > 0 THEN (g % 150) / 3.0 END',
	rows => 2500, changed => 'n = n + 1', asked => [
	[ 'forward', 'only', q{SELECT count(*), md5(string_agg(n::text, ',')) FROM (SELECT n FROM fz_num ORDER BY n DESC NULLS FIRST) s} ],
	[ 'backward', 'index', q{SELECT count(*), md5(string_agg(n::text, ',')) FROM (SELECT n FROM fz_num ORDER BY n NULLS LAST) s} ],
	[ 'points', 'index', 'SELECT count(*), sum(k) FROM generate_series(1, 150, 7) g JOIN fz_num ON n = g / 3.0' ],
	[ 'bitmap', 'bitmap', 'SELECT count(*), sum(k) FROM fz_num WHERE n BETWEEN 2 AND 30' ]
] };

# What has crashed the server, or hung, before it was checked.
sub known
{
	my ($bytes) = @_;
	my ($leaf, $inner) = (leaf_of($bytes), inner_of($bytes));
	my ($off, $body) = first_body($bytes, $leaf, 3);
	my (undef, $down) = first_body($bytes, $inner, 1);
	my $data = $body + (field($bytes, $leaf, $body + 6, 2) & 0x8000 ? 16 : 8);
	return (
		[ 'an item beyond the page', [ $leaf, $off, 2, 0xFFF8 ] ],
		[ 'an item in the header', [ $leaf, $off, 2, 8 ] ],
		[ 'more nodes than there is room for', [ $leaf, 52, 2, 60000 ] ],
		[ 'a node with too many items', [ $leaf, 64 + 4 * field($bytes, $leaf, 54, 2), 1, 200 ] ],
		[ 'a high key beyond the page', [ $leaf, 56, 2, 0xFFF8 ] ],
		[ 'right link to itself', [ $leaf, 32, 4, $leaf ] ],
		[ 'right link to the left', [ $leaf, 32, 4, field($bytes, $leaf, 28, 4) ] ],
		[ 'right link to the metapage', [ $leaf, 32, 4, 0 ] ],
		[ 'right link far beyond the end', [ $leaf, 32, 4, 0x10000000 ] ],
		[ 'left link to itself', [ $leaf, 28, 4, $leaf ] ],
		[ 'root on an impossible level', [ 0, 76, 4, 200 ] ],
		[ 'root far beyond the end', [ 0, 72, 4, 0x10000000 ] ],
		[ 'a downlink far beyond the end', [ $inner, $down, 2, 0x1000 ] ],
		[ 'marked as split', [ $leaf, 26, 2, field($bytes, $leaf, 26, 2) | 2 ] ],
		[ 'a tuple larger than the page', [ $leaf, $body + 6, 2, field($bytes, $leaf, $body + 6, 2) | 0x1FFF ] ],
		[ 'an entry that looks like a pivot', [ $leaf, $body + 6, 2, field($bytes, $leaf, $body + 6, 2) | 0x2000 ] ],
		[ 'a value that is elsewhere', [ $leaf, $data, 2, 0x0101 ], [ $leaf, $data + 2, 4, 0x7FFFFFFF ] ],
		[ 'a TID without offset', [ $leaf, $body + 4, 2, 0 ] ],
		[ 'a TID far beyond the table', [ $leaf, $body, 2, 0x1000 ] ],
		[ 'a page that looks new', [ $leaf, 14, 2, 0 ] ]);
}
fuzz_kinds(map { fuzz_kind(am => 'mtpower_blink', step => 4, known => \&known, %$_) } $int, $wide, $num);
done_testing();
