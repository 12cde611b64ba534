# Pages of a B-link index are edited while the server is down. verify_index finds each damage and
# says where.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDamage;

my ($node, $bs) = damage_node();

# ---------- pages (src/page/page.h) ----------

page_fields(type => [ 24, 'C' ], format => [ 25, 'C' ], flags => [ 26, 'S' ], left => [ 28, 'L' ], right => [ 32, 'L' ],
	level => [ 36, 'S' ], base => [ 40, 'Q' ], norm => [ 49, 'C' ], nitems => [ 50, 'S' ], nnodes => [ 52, 'S' ], cap => [ 54, 'S' ],
	highkey => [ 56, 'S' ], garbage => [ 58, 'S' ], page_id => [ 62, 'S' ]);

# Where things are: the first level's head and the count of a node, the head and the body offset of an item.
sub count_at { my ($page, $node) = @_; return 64 + 4 * get($page, 'cap') + $node; }
sub node_at { my ($page, $node) = @_; return 64 + 5 * get($page, 'cap') + 96 * $node; }

# The item of this rank: [node, slot, offset of its head, offset of its body's offset, body].
sub item
{
	my ($page, $rank) = @_;
	my $node = 0;
	while ($rank >= peek($page, count_at($page, $node), 'C')) { $rank -= peek($page, count_at($page, $node++), 'C'); }
	my $head = node_at($page, $node) + 4 * $rank;
	my $off = node_at($page, $node) + 64 + 2 * $rank;
	return { node => $node, slot => $rank, head => $head, off => $off, body => peek($page, $off, 'S') & ~3 };
}

# Downlinks and TIDs are a block in two halves, and an offset.
sub tid_block { my ($page, $body) = @_; return peek($page, $body, 'S') << 16 | peek($page, $body + 2, 'S'); }
sub set_tid
{
	my ($page, $body, $block, $offset) = @_;
	poke($page, $body, 'S', $block >> 16);
	poke($page, $body + 2, 'S', $block & 0xFFFF);
	poke($page, $body + 4, 'S', $offset) if defined $offset;
}

# Takes an item out as a deletion does.
sub take_out
{
	my ($page, $rank) = @_;
	my $it = item($page, $rank);
	my $n = peek($page, count_at($page, $it->{node}), 'C');
	my $start = node_at($page, $it->{node});
	for my $i ($it->{slot} .. $n - 2)
	{
		poke($page, $start + 4 * $i, 'L', peek($page, $start + 4 * ($i + 1), 'L'));
		poke($page, $start + 64 + 2 * $i, 'S', peek($page, $start + 64 + 2 * ($i + 1), 'S'));
	}
	poke($page, count_at($page, $it->{node}), 'C', $n - 1);
	poke($page, 64 + 4 * $it->{node}, 'L', peek($page, $start + 4 * ($n - 2), 'L'));
	put($page, 'nitems', get($page, 'nitems') - 1);
	my $by = get($page, 'norm') & 0x20 ? 4 : 8;
	put($page, 'garbage', get($page, 'garbage') + ((peek($page, $it->{body} + 6, 'S') & 0x1FFF) + $by - 1 & -$by));
	return;
}

# ---------- cases ----------

# Each case has a table and an index of its own: three levels of leaves with the even integers, in key order as the rows.
# edit gets a function that reads a block, and the blocks of some pages; it returns { block => page }.
# want is [block, offset] of the damage, or only the block; undef if nothing is to be found.
my (@cases, %seen);

sub case
{
	my ($name, $deep, $detail, $edit, %more) = @_;
	push @cases, { name => $name, deep => $deep, detail => $detail, edit => $edit, id => 'c' . @cases, %more };
	return $cases[-1];
}

# The leaf in the middle of the tree, its parent, and the position of its downlink.
sub middle
{
	my ($read) = @_;
	my $meta = $read->(0);
	my ($root, $level) = (peek($meta, 64 + 8, 'L'), peek($meta, 64 + 12, 'L'));
	my ($blk, $page, $pos) = ($root, $read->($root), undef);
	my $parent;
	while ($level-- > 0)
	{
		$parent = $blk;
		$pos = int(get($page, 'nitems') / 2);
		$blk = tid_block($page, item($page, $pos)->{body});
		$page = $read->($blk);
	}
	return ($blk, $parent, $pos, $root);
}

# Their leaves are narrow: the directory has the keys.  With the first of these so they are, and bodies have b; with the second one the bodies have
# both, since a and b share what a body would leave out.
my @cut = (include => 'INCLUDE (b)');
my @wide = (include => 'INCLUDE (b, c)');

# A leaf edited in place; offset of the damage in $_[1].
sub leaf_case
{
	my ($name, $deep, $detail, $offset, $edit, %more) = @_;
	return case($name, $deep, $detail, sub {
		my ($read) = @_;
		my ($leaf, $parent, $pos) = middle($read);
		my $page = $read->($leaf);
		$edit->($page, $read, $leaf);
		return ({ $leaf => $page }, $leaf, $offset);
	}, %more);
}

leaf_case('a head', 0, qr/head in the directory differs from its item's key|heads in the directory are out of order/, 8, sub {
	my ($page) = @_;
	my $it = item($page, 7);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') ^ 1 << 4);
}, @wide);
leaf_case('a key in the directory', 0, qr/heads in the directory are out of order/, 9, sub {
	my ($page) = @_;
	my $it = item($page, 7);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') ^ 1 << 4);
});
leaf_case('two slots swapped', 0, qr/heads in the directory are out of order/, 6, sub {
	my ($page) = @_;
	my ($x, $y) = (item($page, 4), item($page, 5));
	my @h = map { peek($page, $_->{head}, 'L') } ($x, $y);
	my @o = map { peek($page, $_->{off}, 'S') } ($x, $y);
	poke($page, $x->{head}, 'L', $h[1]); poke($page, $y->{head}, 'L', $h[0]);
	poke($page, $x->{off}, 'S', $o[1]); poke($page, $y->{off}, 'S', $o[0]);
});
sub swap_bodies
{
	my ($page) = @_;
	my ($x, $y) = (item($page, 4), item($page, 5));
	my @o = map { peek($page, $_->{off}, 'S') } ($x, $y);
	poke($page, $x->{off}, 'S', $o[1]); poke($page, $y->{off}, 'S', $o[0]);
	return;
}
leaf_case('two bodies swapped', 0, qr/head in the directory differs from its item's key/, 5, \&swap_bodies, @wide);
leaf_case('two narrow bodies swapped', 1, qr/but its row has other values/, 5, \&swap_bodies);
leaf_case('first level of the directory', 0, qr/first level differs from its second/, 0, sub {
	my ($page) = @_;
	poke($page, 64 + 4, 'L', peek($page, 64 + 4, 'L') + 1);
});
leaf_case('count of a node', 0, qr/directory/, undef, sub { my ($page) = @_; poke($page, count_at($page, 1), 'C', 40); });
leaf_case('number of items', 0, qr/directory does not have as many items/, 0, sub { my ($page) = @_; put($page, 'nitems', get($page, 'nitems') - 1); });
leaf_case('body offset', 0, qr/not an item/, 4, sub { my ($page) = @_; poke($page, item($page, 3)->{off}, 'S', 48); });
sub turn_narrow { my ($page) = @_; poke($page, item($page, 3)->{off}, 'S', peek($page, item($page, 3)->{off}, 'S') ^ 2); return; }
leaf_case('unknown slot flag', 0, qr/unknown flags/, 4, \&turn_narrow, key => '(a::float8)');
leaf_case('whole body taken for a narrow one', 0, qr/Entry is longer than its values/, 4, \&turn_narrow, @wide);
leaf_case('key denied, one column', 0, qr/not an item/, 4, \&turn_narrow);
leaf_case('key denied, two columns', 0, qr/differs from its item's key/, 4, \&turn_narrow, @cut);
leaf_case('narrow body with nulls', 0, qr/not an item/, 4, sub {
	my ($page) = @_;
	my $at = item($page, 3)->{body} + 6;
	poke($page, $at, 'S', peek($page, $at, 'S') | 0x8000);
}, @cut);
leaf_case('narrow body that is a list', 0, qr/not an item/, 4, sub {
	my ($page) = @_;
	my $at = item($page, 3)->{body} + 6;
	poke($page, $at, 'S', peek($page, $at, 'S') | 0x2000);
}, @cut);
leaf_case('narrow body that is large', 0, qr/not an item/, 4, sub { my ($page) = @_; poke($page, item($page, 3)->{body} + 6, 'S', 64); }, @cut);
leaf_case('narrow body that is short', 0, qr/free space|entry is damaged/, undef, sub { my ($page) = @_; poke($page, item($page, 3)->{body} + 6, 'S', 8); }, @cut);
leaf_case('body at a wrong multiple', 0, qr/not an item/, 4, sub {
	my ($page) = @_;
	poke($page, item($page, 3)->{off}, 'S', peek($page, item($page, 3)->{off}, 'S') - 4);
}, @wide);
leaf_case('tuple size', 0, qr/not an item|free space/, undef, sub { my ($page) = @_; poke($page, item($page, 3)->{body} + 6, 'S', 8191); });
leaf_case('right link', 0, qr/Right link leads to block/, 0, sub {
	my ($page, $read) = @_;
	put($page, 'right', get($read->(get($page, 'right')), 'right'));
});
leaf_case('right link back to itself', 0, qr/Page is its own sibling|Right link leads/, 0, sub { my ($page, $read, $leaf) = @_; put($page, 'right', $leaf); });
leaf_case('right link out of the file', 0, qr/Right link leads/, 0, sub { my ($page) = @_; put($page, 'right', 1000000); });
leaf_case('left link', 0, qr/Left link leads to block/, 0, sub {
	my ($page, $read) = @_;
	put($page, 'left', get($read->(get($page, 'left')), 'left'));
});
leaf_case('left link lost', 0, qr/Left link leads to block -1/, 0, sub { my ($page) = @_; put($page, 'left', 0xFFFFFFFF); });
leaf_case('high key too high', 0, qr/High key differs from the separator/, 0, sub {
	my ($page) = @_;
	my $at = get($page, 'highkey') + 8;
	poke($page, $at, 'l', peek($page, $at, 'l') + 100);
});
leaf_case('high key too low', 0, qr/High key differs from the separator/, 0, sub {
	my ($page) = @_;
	my $at = get($page, 'highkey') + 8;
	poke($page, $at, 'l', peek($page, $at, 'l') - 100);
});
# An item that belongs to a neighbour, on a page that is in order by itself.  Where the page has no downlink yet, the neighbour alone tells.
leaf_case('first item too low', 0, qr/Item is not above the separator/, 1, sub {
	my ($page) = @_;
	my $at = item($page, 0)->{body} + 8;
	poke($page, $at, 'l', peek($page, $at, 'l') - 2);
}, @wide);
leaf_case('window too low', 0, qr/Item is not above the separator/, 1, sub { my ($page) = @_; put($page, 'base', get($page, 'base') - 2); });
sub raise_last
{
	my ($page) = @_;
	my $it = item($page, get($page, 'nitems') - 1);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') + 2);
	poke($page, 64 + 4 * $it->{node}, 'L', peek($page, $it->{head}, 'L'));
	return $it;
}
leaf_case('last item too high', 0, qr/Item is above the page's high key/, undef, sub {
	my ($page) = @_;
	my $it = raise_last($page);
	poke($page, $it->{body} + 8, 'l', peek($page, $it->{body} + 8, 'l') + 2);
}, @wide);
leaf_case('last narrow item too high', 0, qr/Item is above the page's high key/, undef, sub { my ($page) = @_; raise_last($page); });
case('first item too low, no downlink', 0, qr/Item is not above the high key of the left sibling/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my ($page, $up) = ($read->($leaf), $read->($parent));
	my $right = get($page, 'right');
	my $next = $read->($right);
	my $at = item($next, 0)->{body} + 8;
	take_out($up, $pos + 1);
	put($page, 'flags', get($page, 'flags') | 2);
	poke($next, $at, 'l', peek($next, $at, 'l') - 2);
	return ({ $leaf => $page, $parent => $up, $right => $next }, $right, 1);
}, @wide);
leaf_case('high key gone', 0, qr/high key and right link don't agree/, 0, sub { my ($page) = @_; put($page, 'highkey', 0); });
leaf_case('page type', 0, qr/Downlink leads to block/, undef, sub { });
$cases[-1]{edit} = sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($leaf);
	put($page, 'type', 4);
	return ({ $leaf => $page }, $parent, $pos + 1);
};
leaf_case('unknown page type', 0, qr/page type is unknown/, 0, sub { my ($page) = @_; put($page, 'type', 9); });
leaf_case('unknown format', 0, qr/page format is unknown/, 0, sub { my ($page) = @_; put($page, 'format', 77); });
leaf_case('page identifier', 0, qr/page identifier is wrong/, 0, sub { my ($page) = @_; put($page, 'page_id', 1); });
leaf_case('kind of normalized keys', 0, qr/differs from its item|Normalized keys are of kind|heads/, undef,
	sub { my ($page) = @_; put($page, 'norm', 3); }, @wide);
foreach my $c ([ 'one column' ], [ 'two columns', @cut ])
{
	my ($columns, @index) = @$c;
	# What the code says of bodies: 16, some are narrow; 32, they stand at multiples of 4
	foreach my $bits (16, 32, 48)
	{
		leaf_case("bodies of another kind: $bits, $columns", 0, qr/not an item|bounds are out of order|unknown flags|Normalized keys are of kind|free space|differs from/, undef,
			sub { my ($page) = @_; put($page, 'norm', get($page, 'norm') ^ $bits); }, @index);
	}
	leaf_case("bodies of a kind that is not format 1's, $columns", 0, qr/bodies are of a kind that the page cannot have/, 0, sub { my ($page) = @_; put($page, 'format', 1); }, @index);
}
leaf_case('bodies at multiples of 4 that are of 8', 0, qr/Normalized keys are of kind/, 0, sub { my ($page) = @_; put($page, 'norm', get($page, 'norm') | 32); }, @wide);
leaf_case('incomplete split that is complete', 0, qr/marked as split/, 0, sub { my ($page) = @_; put($page, 'flags', get($page, 'flags') | 2); });
leaf_case('root flag', 0, qr/Root page has a sibling/, 0, sub { my ($page) = @_; put($page, 'flags', get($page, 'flags') | 1); });
leaf_case('zeroed page', 0, qr/Page is zero/, 0, sub { my ($page) = @_; $$page = "\0" x $bs; });

# Keys in order, heads right, bounds kept: only the table tells.
leaf_case('entry taken out', 1, qr/Row with TID \(\d+,\d+\) has no entry/, 10, sub { my ($page) = @_; take_out($page, 9); });
leaf_case('entry of another row', 1, qr/Entry leads to TID \(0,1\), but its row has other values/, 10,
	sub { my ($page) = @_; set_tid($page, item($page, 9)->{body}, 0, 1); });
leaf_case('entry of no row', 1, qr/Entry leads to TID \(0,280\), but no row has this TID/, 10,
	sub { my ($page) = @_; set_tid($page, item($page, 9)->{body}, 0, 280); });
leaf_case('entry of no block', 1, qr/Entry leads to TID \(60000,1\), but no row has this TID/, 10,
	sub { my ($page) = @_; set_tid($page, item($page, 9)->{body}, 60000, 1); });
leaf_case('entry with another key', 1, qr/but its row has other values/, 10, sub {
	my ($page) = @_;
	my $it = item($page, 9);
	poke($page, $it->{body} + 8, 'l', peek($page, $it->{body} + 8, 'l') + 1);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') + 1);
}, @wide);
leaf_case('narrow entry with another key', 1, qr/but its row has other values/, 10, sub {
	my ($page) = @_;
	my $it = item($page, 9);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') + 1);
});
leaf_case('another INCLUDE column', 1, qr/but its row has other values/, 10, sub {
	my ($page) = @_;
	my $it = item($page, 9);
	poke($page, $it->{body} + 12, 'l', peek($page, $it->{body} + 12, 'l') + 1);
}, @wide);
leaf_case('another INCLUDE column of a narrow entry', 1, qr/but its row has other values/, 10, sub {
	my ($page) = @_;
	my $it = item($page, 9);
	poke($page, $it->{body} + 8, 'l', peek($page, $it->{body} + 8, 'l') + 1);
}, @cut);
# Entries that VACUUM and HOT updates must not leave behind
leaf_case('entry of an unused line pointer', 1, qr/Entry leads to TID \(0,3\), but its row's line pointer is unused/, 10,
	sub { my ($page) = @_; set_tid($page, item($page, 9)->{body}, 0, 3); }, after => [ 'DELETE FROM %1$s WHERE a = 6', 'VACUUM (INDEX_CLEANUP ON) %1$s' ]);
leaf_case('entry of a heap-only version', 1, qr/Entry leads to TID \(17,114\), but it leads to a heap-only version of a row/, 10,
	sub { my ($page) = @_; set_tid($page, item($page, 9)->{body}, 17, 114); }, after => [ q{UPDATE %1$s SET b = 0 WHERE ctid = '(17,1)'} ]);
leaf_case('living entry marked dead', 1, qr/is alive, but its entry marked dead/, 10, sub {
	my ($page) = @_;
	poke($page, item($page, 9)->{off}, 'S', peek($page, item($page, 9)->{off}, 'S') | 1);
});

sub first_leaf
{
	my ($read) = @_;
	my ($leaf) = middle($read);
	my $left;
	while (($left = get($read->($leaf), 'left')) != 0xFFFFFFFF) { $leaf = $left; }
	return $leaf;
}
case('left link of the first leaf', 0, qr/Leftmost page of level 0 has a left sibling/, sub {
	my ($read) = @_;
	my $leaf = first_leaf($read);
	my $page = $read->($leaf);
	put($page, 'left', get($page, 'right'));
	return ({ $leaf => $page }, $leaf, 0);
});
case('metapage that leads to the root of before', 0, qr/Root page has a sibling/, sub {
	my ($read) = @_;
	my $leaf = first_leaf($read);
	my $page = $read->(0);
	poke($page, 64 + 8, 'L', $leaf);
	poke($page, 64 + 12, 'L', 0);
	return ({ 0 => $page }, $leaf, 0);
});
case('downlink to another leaf', 0, qr/Downlink leads to block \d+, whose items are beyond the separators/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($parent);
	set_tid($page, item($page, $pos)->{body}, get($read->(get($read->($leaf), 'right')), 'right'));
	return ({ $parent => $page }, $parent, $pos + 1);
});
case('downlink to the parent', 0, qr/Downlink leads to block \d+, which is not on level/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($parent);
	set_tid($page, item($page, $pos)->{body}, $parent);
	return ({ $parent => $page }, $parent, $pos + 1);
});
case('downlink out of the file', 0, qr/Downlink leads to block \d+, which is no page of the tree/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($parent);
	set_tid($page, item($page, $pos)->{body}, 1000000);
	return ({ $parent => $page }, $parent, $pos + 1);
});
case('separator', 0, qr/High key differs from the separator/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($parent);
	my $it = item($page, $pos);
	poke($page, $it->{body} + 8, 'l', peek($page, $it->{body} + 8, 'l') - 2);
	poke($page, $it->{head}, 'L', peek($page, $it->{head}, 'L') - 2);
	poke($page, 64 + 4 * $it->{node}, 'L', peek($page, $it->{head}, 'L'))
	  if $it->{slot} == peek($page, count_at($page, $it->{node}), 'C') - 1;
	return ({ $parent => $page }, get($read->($leaf), 'left'), 0);
});
case('level', 0, qr/level/, sub {
	my ($read) = @_;
	my ($leaf, $parent, $pos) = middle($read);
	my $page = $read->($parent);
	put($page, 'level', get($page, 'level') + 1);
	return ({ $parent => $page }, undef, undef);
});
case('root block in the metapage', 0, qr/Metapage leads to block/, sub {
	my ($read) = @_;
	my ($leaf) = middle($read);
	my $page = $read->(0);
	poke($page, 64 + 8, 'L', $leaf);
	return ({ 0 => $page }, 0, 0);
});
case('root out of the file', 0, qr/Metapage leads to root block 4000000/, sub {
	my ($read) = @_;
	my $page = $read->(0);
	poke($page, 64 + 8, 'L', 4000000);
	return ({ 0 => $page }, 0, 0);
});
case('zeroed metapage', 0, qr/Metapage is zero/, sub { my $page = "\0" x $bs; return ({ 0 => \$page }, 0, 0); });
case('magic number', 0, qr/not one of mtpower_blink/, sub {
	my ($read) = @_;
	my $page = $read->(0);
	poke($page, 64, 'L', 1);
	return ({ 0 => $page }, 0, 0);
});
case('index cut short', 0, qr/no page of the tree/, sub { return (undef, undef, undef) });
# What a crash between the two records of a split leaves is no damage: without the downlink, the left page says so.
sub incomplete_case
{
	my ($name, $missing) = @_;
	case($name, 1, undef, sub {
		my ($read) = @_;
		my ($leaf, $parent, $pos) = middle($read);
		my $up = $read->($parent);
		my %changed = ($parent => $up);
		foreach (1 .. $missing)
		{
			my $page = $read->($leaf);
			take_out($up, $pos + 1);
			put($page, 'flags', get($page, 'flags') | 2);
			$changed{$leaf} = $page;
			$leaf = get($page, 'right');
		}
		return (\%changed, undef, undef);
	});
	$cases[-1]{repair} = $missing;
}
incomplete_case('one downlink missing', 1);
incomplete_case('three downlinks missing', 3);
case('nothing', 1, undef, sub { return ({}, undef, undef) });

# ---------- doing it ----------

my $sql = '';
foreach my $c (@cases)
{
	$c->{include} //= '';
	$c->{key} //= 'a';
	my $more = $c->{include} =~ /c/ ? ', c int8 DEFAULT 0' : '';
	$sql .= "CREATE TABLE $c->{id} (a int, b int$more) WITH (fillfactor = 50); CREATE INDEX $c->{id}_a ON $c->{id} USING mtpower_blink ($c->{key}) $c->{include} WITH (fillfactor = 50);"
	  . " INSERT INTO $c->{id} SELECT 2 * g, g FROM generate_series(1, 4000) g; REINDEX INDEX $c->{id}_a;\n";
}
$node->safe_psql('postgres', $sql);
foreach my $c (@cases) { $node->safe_psql('postgres', sprintf($_, $c->{id})) foreach @{ $c->{after} // [] }; }
edit_index(sub {
	my ($c, $read) = @_;
	my $pages;
	($pages, $c->{block}, $c->{offset}) = $c->{edit}->($read);
	return $pages;
}, @cases);

foreach my $c (@cases)
{
	next if finds_damage($c) || !$c->{repair};

	# Whoever writes there finishes it.
	my $flagged = "SELECT count(*) FROM generate_series(0, pg_relation_size('$c->{id}_a') / $bs - 1) n, mtpower.page_info('$c->{id}_a', n) p"
	  . q{ WHERE 'incomplete_split' = ANY (p.flags)};
	is($node->safe_psql('postgres', $flagged), $c->{repair}, "$c->{name}: page_info shows it");
	is($node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*) FROM $c->{id} WHERE a BETWEEN 1000 AND 7000"), '3001',
		"$c->{name}: readers need nothing");
	$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO $c->{id} SELECT 2 * g + 1 FROM generate_series(1, 4000, 3) g");
	is($node->safe_psql('postgres', $flagged), '0', "$c->{name}: writers finish it");
	$node->safe_psql('postgres', "SELECT mtpower.verify_index('$c->{id}_a', true)");
}

$node->safe_psql('postgres', q{
	CREATE TABLE wide (a text, b numeric, c text COLLATE "C");
	INSERT INTO wide SELECT md5(g::text), g / 7.0, repeat(md5(g::text), g % 50) FROM generate_series(1, 3000) g;
	CREATE INDEX wide_abc ON wide USING mtpower_blink (a, b, c);
	CREATE INDEX wide_ca ON wide USING mtpower_blink (c, a) INCLUDE (b);
	CREATE TABLE narrow AS SELECT g / 3 AS a, md5(g::text) AS b, g::int8 AS c FROM generate_series(1, 6000) g;
	CREATE INDEX narrow_ab ON narrow USING mtpower_blink (a, b);
	CREATE INDEX narrow_ca ON narrow USING mtpower_blink (c, a)});
damage_at_random(sub { my ($length) = @_; return $bs + int(rand($length - $bs)); },
	wide_abc => 'SELECT 1', wide_ca => 'SELECT 1',
	narrow_ab => 'SET enable_seqscan = off; SELECT count(*), count(b) FROM narrow WHERE a > 10',
	narrow_ca => 'SET enable_seqscan = off; SELECT count(*), count(a) FROM narrow WHERE c > 10');

done_testing();
