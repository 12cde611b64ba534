# Indexes of format 1 are read and changed, and their leaves become those of today as they are split: replay after a crash, which compares each page with the
# one that was changed, agrees. Pages of today are edited to what they would have been: bodies whole, and at multiples of 8.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDamage;

my ($node, $bs) = damage_node();
$node->append_conf('postgresql.conf', "fsync = off\nwal_consistency_checking = 'mtpower'\nmtpower.batch_min_rows = 10");
$node->restart;
page_fields(lower => [ 12, 'S' ], upper => [ 14, 'S' ], type => [ 24, 'C' ], format => [ 25, 'C' ], base => [ 40, 'Q' ], shift => [ 48, 'C' ], norm => [ 49, 'C' ],
	nnodes => [ 52, 'S' ], cap => [ 54, 'S' ], highkey => [ 56, 'S' ], garbage => [ 58, 'S' ]);

# The bytes of a tuple on a page
sub tuple { my ($page, $at) = @_; return substr($$page, $at, peek($page, $at + 6, 'S') & 0x1FFF); }

# A narrow item's tuple: what the directory has of it goes between header and rest.
sub widened
{
	my ($page, $head, $body) = @_;
	my $norm = get($page, 'norm');
	my $cut = $norm & 0x20 ? 4 : 8;
	my $value = get($page, 'base') + ($head << get($page, 'shift'));
	my $kind = $norm & 0x0F;
	my $width = { 1 => 2, 2 => 4, 3 => 8, 4 => 4, 5 => 8 }->{$kind} // 1;
	$value = ~$value if $norm & 0x40;
	$value ^= 1 << 63 if $kind <= 3;
	return substr($body, 0, 6) . pack('S', unpack('S', substr($body, 6, 2)) + $cut) . substr(pack('Q', $value), 0, $width) . "\0" x ($cut - $width) . substr($body, 8);
}

# Makes a leaf one of format 1.
sub age_leaf
{
	my ($page) = @_;
	my $old = $$page;
	my $upper = $bs;
	my $narrow = 0;
	my $put = sub {
		my ($tuple) = @_;
		$tuple .= "\0" x (-length($tuple) % 8);
		my $info = unpack('S', substr($tuple, 6, 2));
		substr($tuple, 6, 2) = pack('S', ($info & ~0x1FFF) | length($tuple));
		$upper -= length($tuple);
		substr($$page, $upper, length($tuple)) = $tuple;
		return $upper;
	};
	put($page, 'highkey', $put->(tuple(\$old, get(\$old, 'highkey')))) if get($page, 'highkey');
	foreach my $node (0 .. get($page, 'nnodes') - 1)
	{
		my $at = 64 + 5 * get($page, 'cap') + 96 * $node;
		foreach my $slot (0 .. peek($page, 64 + 4 * get($page, 'cap') + $node, 'C') - 1)
		{
			my $off = peek($page, $at + 64 + 2 * $slot, 'S');
			my $tuple = tuple(\$old, $off & ~3);
			if ($off & 2)
			{
				$tuple = widened(\$old, peek($page, $at + 4 * $slot, 'L'), $tuple);
				$narrow++;
			}
			poke($page, $at + 64 + 2 * $slot, 'S', $put->($tuple) | $off & 1);
		}
	}
	die 'no room' if $upper < get($page, 'lower');
	put($page, 'upper', $upper);
	put($page, 'garbage', 0);
	put($page, 'norm', get($page, 'norm') & ~0x30);
	return $narrow;
}

# Indexes and the values of their tables' rows
my @cases = (
	{ id => 'ints', columns => 'a', values => 'g, g % 7, md5(g::text)', narrow => 1 },
	{ id => 'texts', columns => 't', values => 'g, g % 7, md5(g::text)', narrow => 0 },
	{ id => 'two', columns => 'b DESC, a', values => 'g, g % 7, md5(g::text)', narrow => 1 },
	{ id => 'mixed', columns => 'a, t', values => 'g * 100000, g % 7, left(md5(g::text), g % 30)', narrow => 1 },
	{ id => 'wide', columns => 'a8', values => 'g, g % 7, md5(g::text)', narrow => 1 },
	{ id => 'included', columns => 'a8 DESC) INCLUDE (b', values => 'g, g % 7, md5(g::text)', narrow => 1 },
	{ id => 'spread', columns => 'a8, a', values => 'g * 20000, g % 7, md5(g::text)', narrow => 1 });

foreach my $c (@cases)
{
	$node->safe_psql('postgres', qq{
		CREATE TABLE $c->{id} (a int, b int2, t text COLLATE "C", a8 int8 GENERATED ALWAYS AS (a::int8 * 1000) STORED);
		INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(1, 6000, 2) g;
		INSERT INTO $c->{id} VALUES (NULL, NULL, NULL), (NULL, 3, 'x'), (3, NULL, NULL);
		CREATE INDEX $c->{id}_a ON $c->{id} USING mtpower_blink ($c->{columns}) WITH (fillfactor = 40, deduplicate_items = off)});
	$c->{blocks} = $node->safe_psql('postgres', "SELECT pg_relation_size('$c->{id}_a') / $bs");
}
my %narrow;
edit_index(sub {
	my ($c, $read) = @_;
	my %pages;
	foreach my $block (0 .. $c->{blocks} - 1)
	{
		my $page = $pages{$block} = $read->($block);
		poke($page, 64 + 20, 'L', 0) if $block == 0;	# no lists
		$narrow{ $c->{id} } += age_leaf($page) if get($page, 'type') == 2;
		put($page, 'format', 1);
	}
	return \%pages;
}, @cases);

# The index is sound, and gives what its table has.
sub sound
{
	my ($c, $what) = @_;
	my ($err, %got);
	is($node->psql('postgres', "SELECT mtpower.verify_index('$c->{id}_a', true)", stderr => \$err), 0, "$c->{id}: sound $what") or diag($err);
	(my $first = $c->{columns}) =~ s/\W.*//;
	foreach my $way ('seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan')
	{
		my $off = join(' ', map { "SET enable_$_ = " . ($_ eq $way ? 'on;' : 'off;') } 'seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan');
		$off .= ' SET enable_indexscan = on;' if $way eq 'indexonlyscan';
		$got{$way} = $node->safe_psql('postgres', "$off SELECT md5(string_agg(concat($first), ',' ORDER BY $first)), count(*) FROM $c->{id} WHERE $first IS NOT NULL;
			SELECT count(*) FROM $c->{id} WHERE $first IS NULL");
	}
	is($got{$_}, $got{seqscan}, "$c->{id}: $_ $what") foreach 'indexscan', 'indexonlyscan', 'bitmapscan';
	return;
}

# The formats of its pages of the tree, and how many there are of each
sub formats
{
	my ($c) = @_;
	return $node->safe_psql('postgres', "SELECT format, count(*) FROM generate_series(0, pg_relation_size('$c->{id}_a') / $bs - 1) b, mtpower.page_info('$c->{id}_a', b) p
		WHERE p.type = 'leaf' GROUP BY 1 ORDER BY 1");
}

foreach my $c (@cases)
{
	cmp_ok($narrow{ $c->{id} }, $c->{narrow} ? '>' : '==', 0, "$c->{id}: " . ($c->{narrow} ? 'items' : 'no items') . ' were narrow');
	like(formats($c), qr/^1\|\d+$/, "$c->{id}: leaves of format 1");
	sound($c, 'as it was');

	# Changes in place: leaves stay what they are.
	$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(2, 6000, 40) g;
		DELETE FROM $c->{id} WHERE a % 5 = 1; SET enable_seqscan = off; SELECT count(*) FROM $c->{id} WHERE a > 0; VACUUM (INDEX_CLEANUP ON) $c->{id}");
	$node->safe_psql('postgres', "INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(4, 6000, 40) g");
	like(formats($c), qr/^1\|\d+$/, "$c->{id}: they stay that");
	sound($c, 'changed');
}
$node->stop('immediate');
$node->start;
sound($_, 'replayed') foreach @cases;

# Splits, of single entries and of batches
foreach my $c (@cases)
{
	$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(6, 3000, 2) g, generate_series(1, 4)");
	like(formats($c), qr/^2\|\d+$/m, "$c->{id}: some leaves are of today");
	sound($c, 'split');
	$node->safe_psql('postgres', "INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(1000, 6000) g, generate_series(1, 3); UPDATE $c->{id} SET b = b + 1 WHERE a % 9 = 2");
	sound($c, 'split by batches');
}
$node->stop('immediate');
$node->start;
foreach my $c (@cases)
{
	sound($c, 'replayed again');
	$node->safe_psql('postgres', "DELETE FROM $c->{id} WHERE a % 3 > 0; VACUUM (INDEX_CLEANUP ON) $c->{id}; INSERT INTO $c->{id} SELECT $c->{values} FROM generate_series(1, 6000) g");
	sound($c, 'in the end');
	$node->safe_psql('postgres', "REINDEX INDEX $c->{id}_a");
	sound($c, 'rebuilt');
}
done_testing();
