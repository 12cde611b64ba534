# A list of TIDs on a leaf is damaged in every way: its size, key, number of TIDs, first TID and
# differences, and what the index says of lists. verify_index names the block; scans, changes,
# loads and VACUUM give the right answer or an error, and never crash or hang. Then come damages at
# random. FLIPS, SEED and KINDS as in blink_fuzz.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFuzz;

# ---------- lists (src/page/list.h) ----------

# The items of a leaf, in order: where the directory has their offsets, and their bodies.
sub items
{
	my ($bytes, $block) = @_;
	my ($cap, $nnodes) = (field($bytes, $block, 54, 2), field($bytes, $block, 52, 2));
	my @items;
	foreach my $node (0 .. $nnodes - 1)
	{
		my $offs = 64 + 5 * $cap + 96 * $node + 64;
		push @items, map { { slot => $offs + 2 * $_, body => field($bytes, $block, $offs + 2 * $_, 2) & ~3 } } 0 .. field($bytes, $block, 64 + 4 * $cap + $node, 1) - 1;
	}
	return @items;
}

# What an item holds, if it is a list: where its parts are, its TIDs as numbers, and its differences as a string of bits, with where each begins and how
# long it is.
sub list_of
{
	my ($bytes, $block, $item) = @_;
	my $body = $item->{body};
	my $info = field($bytes, $block, $body + 6, 2);
	my $count = field($bytes, $block, $body + 4, 2);
	return if !($info & 0x2000) || !($count & 0x2000);
	my %list = (block => $block, body => $body, slot => $item->{slot}, info => $info, size => $info & 0x1FFF, n => $count & 0x0FFF);
	$list{key} = field($bytes, $block, $body, 2) << 16 | field($bytes, $block, $body + 2, 2);
	my $at = $list{head} = $body + $list{key};
	my $code = (field($bytes, $block, $at, 2) << 16 | field($bytes, $block, $at + 2, 2)) << 11 | field($bytes, $block, $at + 4, 2);
	$list{tids} = [$code];
	@list{qw(s k)} = ((field($bytes, $block, $at + 8, 1) & 7) + 4, (field($bytes, $block, $at + 8, 1) >> 3) + 3);
	$list{from} = $at + 9;
	$list{bits} = unpack('b*', substr($bytes, $block * block_size() + $list{from}, $body + $list{size} - $list{from}));
	my $number = ($code >> 11) << $list{s} | $code & 0x7FF;
	my $bit = 0;
	foreach (2 .. $list{n})
	{
		substr($list{bits}, $bit) =~ /^(0*)1/ or die 'no difference';
		my $zeros = length($1);
		my $more = $zeros ? $list{k} + $zeros - 1 : $list{k};
		push @{ $list{at} }, $bit;
		push @{ $list{len} }, $zeros + 1 + $more;
		my $delta = oct('0b' . reverse(substr($list{bits}, $bit + $zeros + 1, $more)));
		$delta |= 1 << $more if $zeros;
		$bit += $zeros + 1 + $more;
		$number += $delta;
		push @{ $list{tids} }, ($number >> $list{s}) << 11 | $number & (1 << $list{s}) - 1;
	}
	$list{end} = $bit;
	die 'differences end elsewhere' if int(($bit + 7) / 8) * 8 != length($list{bits}) || substr($list{bits}, $bit) =~ /1/;
	return \%list;
}

# The lists of all leaves, by block.
sub lists
{
	my ($bytes) = @_;
	my %lists;
	foreach my $block (1 .. length($bytes) / block_size() - 1)
	{
		next if field($bytes, $block, 24, 1) != 2;
		my @lists = grep { $_ } map { list_of($bytes, $block, $_) } items($bytes, $block);
		$lists{$block} = \@lists if @lists;
	}
	return \%lists;
}

sub key_of { my ($bytes, $l) = @_; return substr($bytes, $l->{block} * block_size() + $l->{body} + 8, $l->{key} - 8); }

# The parts of a TID at an offset of a block
sub tid_at { my ($block, $at, $code) = @_; return ([ $block, $at, 2, $code >> 27 ], [ $block, $at + 2, 2, $code >> 11 & 0xFFFF ], [ $block, $at + 4, 2, $code & 0x7FF ]); }

# The bytes that change where the list's differences have other bits from number `at` on.
sub with_bits
{
	my ($l, $at, $new) = @_;
	my $bits = $l->{bits};
	substr($bits, $at, length($new)) = $new;
	my ($was, $is) = map { [ unpack('C*', pack('b*', $_)) ] } $l->{bits}, $bits;
	return map { [ $l->{block}, $l->{from} + $_, 1, $is->[$_] ] } grep { $was->[$_] != $is->[$_] } 0 .. $#$was;
}

# A difference of k bits at most
sub short_bits { my ($l, $delta) = @_; return '1' . reverse(sprintf('%0*b', $l->{k}, $delta)); }

# ---------- damage ----------

sub known
{
	my ($bytes, $all) = @_;
	my $lists = lists($bytes);
	# A list in the middle of a leaf in the middle; if possible, the next item is a list of the same key.
	my @middle = grep { field($bytes, $_, 28, 4) != 0xFFFFFFFF && field($bytes, $_, 32, 4) != 0xFFFFFFFF && @{ $lists->{$_} } > 4 } sort { $a <=> $b } keys %$lists;
	die 'no leaf with lists in the middle' if !@middle;
	my @fit = grep { $_->{n} > 3 && $_->{size} % 8 && $_->{end} % 8 } map { @{ $lists->{$_} }[ 2 .. $#{ $lists->{$_} } ] } @middle;
	my ($l) = ((grep { $_->{n} > 50 } @fit), @fit);
	my ($block, $body, $head, $at, $len) = @$l{qw(block body head at len)};
	my @short = grep { $len->[$_] == $l->{k} + 1 } 0 .. $#$at;
	my $value = sub { return oct('0b' . reverse(substr($l->{bits}, $at->[ $_[0] ] + 1, $l->{k}))); };
	my $parameters = sub { return [ $block, $head + 8, 1, $_[0] - 4 | $_[1] - 3 << 3 ]; };
	my $data = $body + ($l->{info} & 0x8000 ? 16 : 8);
	my $n = sub { return [ $block, $body + 4, 2, 0x2000 | $_[0] ]; };
	my $size = sub { return [ $block, $body + 6, 2, $l->{info} & ~0x1FFF | $_[0] ]; };
	my $key = sub { return [ $block, $body + 2, 2, $_[0] ]; };
	my @cases = (
		[ 'key too large', $key->($l->{key} + 8) ], [ 'key too small', $key->($l->{key} - 8) ], [ 'key not aligned', $key->($l->{key} + 2) ], [ 'key a little too large', $key->($l->{key} + 4) ],
		[ 'key of no bytes', $key->(0) ], [ 'key beyond the tuple', $key->($l->{size} + 7 & ~7) ], [ 'key far beyond the page', $key->(0xFFF8) ], [ 'key of 4 GB', [ $block, $body, 2, 0xFFFF ] ],
		[ 'no TID', $n->(0) ], [ 'one TID', $n->(1) ], [ 'a TID too many', $n->($l->{n} + 1) ], [ 'a TID missing', $n->($l->{n} - 1) ], [ 'more TIDs than there can be', $n->(0xFFF) ],
		[ 'first TID without offset', [ $block, $head + 4, 2, 0 ] ], [ 'first TID with an impossible offset', [ $block, $head + 4, 2, 2000 ] ],
		[ 'first TID far beyond the table', [ $block, $head, 2, 0x1000 ] ], [ 'first TID without block', [ $block, $head, 2, 0xFFFF ], [ $block, $head + 2, 2, 0xFFFF ] ],
		[ 'first TID of the row before', [ $block, $head + 4, 2, ($l->{tids}[0] & 0x7FF) + 1 ] ],
		[ 'a TID twice', with_bits($l, $at->[ $short[0] ], short_bits($l, 0)) ],
		[ 'a TID that is another', with_bits($l, $at->[-1] + $len->[-1] - 1, 1 - substr($l->{bits}, $at->[-1] + $len->[-1] - 1, 1)) ],
		[ 'a difference that does not end', with_bits($l, $at->[1], '0' x ($l->{end} - $at->[1])) ],
		[ 'the last difference does not end', with_bits($l, $at->[-1], '0' x $len->[-1]) ],
		[ 'a bit behind the last difference', with_bits($l, length($l->{bits}) - 1, '1') ],
		[ 'offsets of a bit less', $parameters->($l->{s} - 1, $l->{k}) ],
		[ 'differences of a bit more', $parameters->($l->{s}, $l->{k} + 1) ], [ 'differences of a bit less', $parameters->($l->{s}, $l->{k} - 1) ],
		[ 'the largest parameters', $parameters->(11, 34) ], [ 'the smallest parameters', $parameters->(4, 3) ],
		[ 'a byte behind the last difference', $size->($l->{size} + 1) ], [ 'a byte less', $size->($l->{size} - 1) ], [ 'eight bytes less', $size->($l->{size} - 8) ],
		[ 'as small as its key', $size->($l->{key}) ], [ 'as small as a header', $size->(8) ], [ 'no size', $size->(0) ], [ 'eight bytes more', $size->($l->{size} + 8) ], [ 'larger than the page', $size->(0x1FFF) ],
		[ 'all TIDs dead, which are alive', [ $block, $head + 6, 2, $l->{n} ] ], [ 'the first TID dead, which is alive', [ $block, $head + 6, 2, 1 ] ],
		[ 'more dead TIDs than TIDs', [ $block, $head + 6, 2, $l->{n} + 1 ] ], [ 'very many dead TIDs', [ $block, $head + 6, 2, 0xFFFF ] ],
		[ 'no list, but a TID of its header', [ $block, $body + 6, 2, $l->{info} & ~0x2000 ] ], [ 'a pivot instead of a list', [ $block, $body + 4, 2, $l->{n} ] ],
		[ 'a pivot with a TID', [ $block, $body + 4, 2, 0x1001 ] ],
		[ 'nulls', [ $block, $body + 6, 2, $l->{info} ^ 0x8000 ] ],
		[ 'another key', [ $block, $data, 1, field($bytes, $block, $data, 1) ^ 0x0C ] ], [ 'a key that differs late', [ $block, $data + 3, 1, field($bytes, $block, $data + 3, 1) ^ 1 ] ],
		[ 'lists in an index that has none', [ 0, 64 + 20, 4, 0 ] ], [ 'a list on a page of the first format', [ $block, 25, 1, 1 ] ]);

	# Within a block that changes nothing.
	push @cases, [ 'offsets of a bit more', $parameters->($l->{s} + 1, $l->{k}) ] if $l->{tids}[0] >> 11 != $l->{tids}[-1] >> 11;

	# Of three TIDs the middle one is the first, and the third stays what it was.
	my ($two) = grep { my $i = $_; $len->[$i] == $l->{k} + 1 && $len->[ $i + 1 ] == $l->{k} + 1 && $value->($i) + $value->($i + 1) < 1 << $l->{k} } 0 .. $#$at - 1;
	push @cases, [ 'a TID twice, and one missing', with_bits($l, $at->[$two], short_bits($l, 0) . short_bits($l, $value->($two) + $value->($two + 1))) ] if defined $two;

	# The bits at the end are one difference: it goes beyond the last block.
	my $beyond = '0' x (32 + $l->{s} - $l->{k}) . '1' x ($l->{s} + 32);
	my ($i) = grep { my $rest = length($l->{bits}) - $at->[$_] - length($beyond); $rest >= 0 && $rest < 8 } 0 .. $#$at;
	push @cases, [ 'a difference beyond the last block', $n->($i + 2), with_bits($l, $at->[$i], substr($beyond . '0' x 8, 0, length($l->{bits}) - $at->[$i])) ] if defined $i;

	# A list that begins as another one of its key, on the same page; its last entry is that one's first.
	foreach my $b (sort { $a <=> $b } keys %$lists)
	{
		my @l = @{ $lists->{$b} };
		my ($j) = grep { key_of($bytes, $l[$_]) eq key_of($bytes, $l[ $_ + 1 ]) } 0 .. $#l - 1;
		next if !defined $j;
		push @cases, [ 'TIDs of another list', tid_at($b, $l[ $j + 1 ]{head}, $l[$j]{tids}[0]) ];
		last;
	}

	# The TIDs of a leaf's last list, whose key goes on at the right, are above the high key's.
	foreach my $b (@middle)
	{
		my $last = $lists->{$b}[-1];
		my $high = field($bytes, $b, 56, 2);
		# A pivot with a TID, which stands at its end
		next if (field($bytes, $b, $high + 4, 2) & 0x1000) == 0;
		my $tid = $high + (field($bytes, $b, $high + 6, 2) & 0x1FFF) - 8;
		my $code = (field($bytes, $b, $tid, 2) << 16 | field($bytes, $b, $tid + 2, 2)) << 11 | field($bytes, $b, $tid + 4, 2);
		push @cases, [ 'TIDs above the high key', tid_at($b, $last->{head}, $last->{tids}[0] + ($code - $last->{tids}[0]) + 2048) ];
		last;
	}
	my %made = map { $_->[0] => 1 } @cases;
	my @missing = grep { !$made{$_} } 'offsets of a bit more', 'a TID twice, and one missing', 'a difference beyond the last block', 'TIDs of another list', 'TIDs above the high key';
	die "no place for: @missing" if $all && @missing;
	return @cases;
}

# ---------- indexes ----------

# Few keys, of which each has many lists, and one more than a leaf of them; many keys with short ones; wide keys; nulls and two columns.
my $few = { name => 'fz_few', key => '(a)', columns => 'a int, filler text', values => q{g, CASE WHEN hashint4(g) & 7 > 1 THEN 3 ELSE (hashint4(g) >> 3 & 65535) % 7 END, repeat('x', 200)}, rows => 24000, changed => 'filler = filler', asked => [
	[ 'forward', 'index', q{SELECT count(*), sum(hashint4extended(k, 0)), md5(string_agg(a::text, ',')) FROM (SELECT a, k FROM fz_few ORDER BY a) s} ],
	[ 'backward', 'only', q{SELECT count(*), md5(string_agg(a::text, ',')) FROM (SELECT a FROM fz_few WHERE a < 100000 ORDER BY a DESC) s} ],
	[ 'point', 'index', 'SELECT count(*), sum(hashint4extended(k, 0)) FROM fz_few WHERE a = 3' ],
	[ 'bitmap', 'bitmap', 'SELECT count(*), sum(hashint4extended(k, 0)) FROM fz_few WHERE a BETWEEN 2 AND 5' ],
	[ 'array', 'index', q{SELECT count(*), sum(hashint4extended(k, 0)) FROM fz_few WHERE a = ANY ('{0, 2, 4, 5}')} ]
] };
my $short = { name => 'fz_short', key => '(t, b NULLS FIRST)', columns => 't text COLLATE "C", b int', values => q{g, md5((g / 8)::text), CASE WHEN g / 4 % 2 = 0 THEN g / 8 % 5 END}, rows => 4000, changed => 'b = b', asked => [
	[ 'forward', 'only', q{SELECT count(*), md5(string_agg(concat(t, b), ',')) FROM (SELECT t, b FROM fz_short ORDER BY t, b NULLS FIRST) s} ],
	[ 'backward', 'index', q{SELECT count(*), sum(hashint4extended(k, 0)), md5(string_agg(concat(t, b), ',')) FROM (SELECT t, b, k FROM fz_short ORDER BY t DESC, b DESC NULLS LAST) s} ],
	[ 'points', 'index', 'SELECT count(*), sum(hashint4extended(k, 0)) FROM generate_series(1, 500, 3) g JOIN fz_short ON t = md5(g::text)' ],
	[ 'both', 'index', 'SELECT count(*), sum(hashint4extended(k, 0)) FROM generate_series(1, 500, 3) g JOIN fz_short ON t = md5(g::text) AND b = g % 5' ],
	[ 'bitmap', 'bitmap', q{SELECT count(*), sum(hashint4extended(k, 0)) FROM fz_short WHERE t BETWEEN '3' AND 'c'} ]
] };
fuzz_kinds(map { my $all = $_ == $few; fuzz_kind(am => 'mtpower_blink', step => 4, known => sub { known($_[0], $all) }, verified => 1, %$_) } $few, $short);
done_testing();
