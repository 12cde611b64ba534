# Pages of a hash index are edited while the server is down. verify_index finds each damage and
# says where, and statements that meet such a page raise an error.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDamage;

my ($node, $bs) = damage_node();

# ---------- pages (src/hash/README.md) ----------

page_fields(lower => [ 12, 'S' ], type => [ 24, 'C' ], format => [ 25, 'C' ], flags => [ 26, 'S' ], bucket => [ 28, 'L' ], lo => [ 32, 'L' ], hi => [ 36, 'L' ],
	next => [ 40, 'L' ], source => [ 44, 'L' ], n => [ 48, 'S' ], nheavy => [ 60, 'C' ], page_id => [ 62, 'S' ], filter => [ 64, 'L' ],
	heavy_hash => [ 96, 'L' ], heavy_first => [ 100, 'L' ],
	magic => [ 64, 'L' ], version => [ 68, 'L' ], initial => [ 72, 'L' ], level => [ 76, 'L' ], split => [ 80, 'L' ], per_bucket => [ 88, 'L' ],
	reserved => [ 104, 'L' ], nextents => [ 108, 'L' ], extent_bucket => [ 112, 'L' ], extent_block => [ 116, 'L' ]);
my $nowhere = 0xFFFFFFFF;

sub entry_at { my ($i) = @_; return $bs - 10 * ($i + 1); }
sub fp_at { my ($page, $i) = @_; return (get($page, 'type') == 17 ? 144 : 64) + $i; }
sub set_tid
{
	my ($page, $i, $block, $offset) = @_;
	poke($page, entry_at($i) + 4, 'S', $block >> 16);
	poke($page, entry_at($i) + 6, 'S', $block & 0xFFFF);
	poke($page, entry_at($i) + 8, 'S', $offset);
}
sub hash_of { my ($page, $i) = @_; return peek($page, entry_at($i), 'S') << 16 | peek($page, entry_at($i) + 2, 'S'); }
sub put_extent
{
	my ($page, $i, $bucket, $block) = @_;
	poke($page, 112 + 8 * $i, 'L', $bucket);
	poke($page, 116 + 8 * $i, 'L', $block);
}
# Another hash, with its fingerprint
sub set_hash
{
	my ($page, $i, $hash) = @_;
	poke($page, entry_at($i), 'S', $hash >> 16);
	poke($page, entry_at($i) + 2, 'S', $hash & 0xFFFF);
	poke($page, fp_at($page, $i), 'C', ($hash & 255) || 1);
}

# ---------- cases ----------

# Each case has a table and an index of its own.  What gets edited: 'meta', a 'bucket' (the first one that the shape has), its first 'stash' page, or the first page
# of its heavy 'chain'.  edit gets the page, a function that reads a block, and the block; the damage is found there, at this offset, unless it says otherwise.
my @cases;
sub case
{
	my ($name, $what, $deep, $detail, $offset, $edit, %more) = @_;
	push @cases, { name => $name, what => $what, deep => $deep, detail => $detail, offset => $offset, edit => $edit, id => 'c' . @cases, %more };
}

case('zeroed metapage', 'meta', 0, qr/Page is zero/, undef, sub { ${ $_[0] } = "\0" x $bs });
case('magic number', 'meta', 0, qr/not one of mtpower_hash/, 0, sub { put($_[0], 'magic', 1) });
case('version', 'meta', 0, qr/File version is 7/, 0, sub { put($_[0], 'version', 7) });
case('no buckets', 'meta', 0, qr/no valid number of buckets/, 0, sub { put($_[0], 'initial', 0) });
case('level', 'meta', 0, qr/no valid number of buckets/, 0, sub { put($_[0], 'level', 40) });
case('more buckets than room', 'meta', 0, qr/buckets, and room for/, 0, sub { put($_[0], 'level', 1) });
case('next bucket to split', 'meta', 0, qr/buckets, and room for/, 0, sub { put($_[0], 'split', 10000) });
case('fewer buckets', 'meta', 0, qr/Bucket is 0 with hashes/, 0, sub { put($_[0], 'initial', get($_[0], 'initial') - 1) }, block => 1);
case('no entries allowed', 'meta', 0, qr/allows no entries/, 0, sub { put($_[0], 'per_bucket', 0) });
case('no extents', 'meta', 0, qr/no valid extents/, 0, sub { put($_[0], 'nextents', 0) });
case('too many extents', 'meta', 0, qr/no valid extents/, 0, sub { put($_[0], 'nextents', 441) });
case('extents without number', 'meta', 0, qr/no valid extents/, 0, sub { put($_[0], 'nextents', 0x7FFFFFFF) });
case('extent of the metapage', 'meta', 0, qr/outside of any file/, 0, sub { put($_[0], 'extent_block', 0) });
case('extent elsewhere', 'meta', 0, qr/Bucket is 1 with hashes \w+ to \w+ instead of 0/, 0, sub { put($_[0], 'extent_block', 2) }, block => 2);
case('extents that do not ascend', 'meta', 0, qr/do not ascend/, 0, sub { put($_[0], 'nextents', 2); put_extent($_[0], 1, 0, 5000) });
case('extents that overlap', 'meta', 0, qr/Extents of the metapage overlap/, 0, sub { put($_[0], 'nextents', 2); put_extent($_[0], 1, 1, get($_[0], 'extent_block')) });
case('an extent in the middle of another', 'meta', 0, qr/Extents of the metapage overlap/, 0,
	sub { my ($page) = @_; put($page, 'nextents', 2); put($page, 'extent_block', 2); put_extent($page, 1, 1, 1) });
case('extent out of the file', 'meta', 0, qr/block 1000000, which is no page/, 0, sub { put($_[0], 'extent_block', 1000000) });

foreach my $what ('bucket', 'stash')
{
	case("$what: zeroed page", $what, 0, qr/Page is zero/, 0, sub { ${ $_[0] } = "\0" x $bs });
	case("$what: mark", $what, 0, qr/not a page of mtpower/, 0, sub { put($_[0], 'page_id', 1) });
	case("$what: unknown type", $what, 0, qr/of unknown type/, 0, sub { put($_[0], 'type', 3) });
	case("$what: unknown format", $what, 0, qr/unknown format/, 0, sub { put($_[0], 'format', 9) });
	case("$what: unknown flags", $what, 0, qr/unknown flags/, 0, sub { put($_[0], 'flags', 0x8000) });
	case("$what: too many entries", $what, 0, qr/more entries than it has room for/, 0, sub { put($_[0], 'n', 800) });
	case("$what: number of entries", $what, 0, qr/free space|do not agree|entries/i, 0, sub { put($_[0], 'n', get($_[0], 'n') - 1) });
	case("$what: interval", $what, 0, qr/end before they begin/, 0, sub { put($_[0], 'lo', 200); put($_[0], 'hi', 100) });
	case("$what: link to the metapage", $what, 0, qr/link leads to the metapage/, 0, sub { put($_[0], 'next', 0) });
	case("$what: link out of the file", $what, 0, qr/block 1000000, which is no page/, 0, sub { put($_[0], 'next', 1000000) });
	case("$what: link to a bucket", $what, 0, qr/block \d+, which is a bucket's own/, 0, sub { my ($page, $read, $block) = @_; put($page, 'next', $block == 1 ? 2 : 1) });
	case("$what: fingerprint", $what, 0, qr/fingerprint does not match/, 6, sub { poke($_[0], fp_at($_[0], 5), 'C', (peek($_[0], fp_at($_[0], 5), 'C') ^ 2) || 4) });
	case("$what: entry of another bucket", $what, 0, qr/belongs to another bucket/, 6,
		sub { my ($page) = @_; set_hash($page, 5, get($page, 'lo') > 0 ? get($page, 'lo') - 1 : get($page, 'hi') + 1) });
	case("$what: TID that none is", $what, 0, qr/points to no row/, 6, sub { set_tid($_[0], 5, 0, 0) }, no_vacuum => 1);
	case("$what: entry of no row", $what, 1, qr/Entry leads to TID \(0,2000\), but/, 6, sub { set_tid($_[0], 5, 0, 2000) });
	case("$what: entry of no block", $what, 1, qr/Entry leads to TID \(60000,1\), but/, 6, sub { set_tid($_[0], 5, 60000, 1) });
	case("$what: entry of another row", $what, 1, qr/Entry leads to TID \(0,1\), but its row has other values/, 6, sub { set_tid($_[0], 5, 0, 1) });
	case("$what: living entry marked dead", $what, 1, qr/is alive, but its entry|is marked dead|has no entry/, undef, sub { poke($_[0], fp_at($_[0], 5), 'C', 0) });
	case("$what: entry taken out", $what, 1, qr/Row with TID \(\d+,\d+\) has no entry/, undef, sub {
		my ($page) = @_;
		my $n = get($page, 'n') - 1;
		put($page, 'n', $n);
		put($page, 'lower', get($page, 'lower') - 1);
		poke($page, 14, 'S', peek($page, 14, 'S') + 10);
	}, block => '\d+');
}
case('stash: entry twice', 'stash', 1, qr/Row with TID \(\d+,\d+\) has 2 entries/, undef, sub {
	my ($page) = @_;
	my $n = get($page, 'n');
	put($page, 'n', $n + 1);
	put($page, 'lower', get($page, 'lower') + 1);
	poke($page, 14, 'S', peek($page, 14, 'S') - 10);
	substr($$page, entry_at($n), 10) = substr($$page, entry_at(5), 10);
	poke($page, fp_at($page, $n), 'C', peek($page, fp_at($page, 5), 'C'));
});
case('bucket: its number', 'bucket', 0, qr/Bucket is \d+ with hashes/, 0, sub { put($_[0], 'bucket', get($_[0], 'bucket') + 1) });
case('bucket: its lower end', 'bucket', 0, qr/Bucket is|another bucket/, undef, sub { put($_[0], 'lo', get($_[0], 'lo') + 1) });
case('bucket: no filter', 'bucket', 0, qr/Filter of block \d+ lacks the entry's hash/, undef, sub { substr(${ $_[0] }, 64, 32) = "\0" x 32 }, block => '\d+');
case('bucket: a stash page', 'bucket', 0, qr/Page has type 18 instead of 17|belongs|agree|entries/, undef, sub { put($_[0], 'type', 18) });
case('bucket: stash lost', 'bucket', 1, qr/Row with TID \(\d+,\d+\) has no entry/, undef, sub { put($_[0], 'next', $nowhere) });
case('bucket: source that none is', 'bucket', 0, qr/Source is block \d+|source|block 1000000/, undef, sub { put($_[0], 'source', 1000000) });
case('bucket: source is itself', 'bucket', 0, qr/Source is block \d+, which is not a bucket that this one was split off from/, 0, sub { put($_[0], 'source', $_[2]) });
case('stash: a bucket', 'stash', 0, qr/Page has type 17 instead of 18|belongs|agree|entries/, undef, sub { put($_[0], 'type', 17) }, block => '\d+');
case('stash: free', 'stash', 0, qr/Page has type 19 instead of 18/, 0, sub { put($_[0], 'type', 19); put($_[0], 'n', 0) });
case('stash: a circle', 'stash', 0, qr/which the bucket has already/, 0, sub { put($_[0], 'next', $_[2]) });
case("stash: entry of another bucket, within the page's hashes", 'stash', 0, qr/Entry's hash \w+ is outside of the bucket's/, 6, sub {
	my ($page) = @_;
	put($page, 'lo', 0);
	put($page, 'hi', 0xFFFFFFFF);
	# The filter knows of it: that takes other bits.
	set_hash($page, 5, hash_of($page, 5) ^ 0x80000000);
});
# A bucket that has the number of another one, and that a third calls its source
case('bucket: source with the number of another', 'bucket', 0, qr/Source is block 6, which is not a bucket that this one was split off from/, 0, sub {
	my ($page, $read, $block) = @_;
	my ($third, $source) = map { $_ == $block ? $page : $read->($_) } 4, 6;
	put($third, 'source', 6);
	put($source, 'bucket', 1);
	return { 4 => $third, 6 => $source };
}, block => 4);
# The next bucket's stash, emptied, is also in the chain of this one, which comes first.
case('stash: a page of two buckets', 'stash', 0, qr/which is bucket \d+'s/, 0, sub {
	my ($page, $read, $block) = @_;
	my ($other, $shared) = (1);

	$other++ while get($read->($other), 'next') == $block || get($read->($other), 'next') == $nowhere;
	my $at = get($read->($other), 'next');
	$shared = $read->($at);
	put($shared, 'n', 0);
	put($shared, 'lower', 64);
	poke($shared, 14, 'S', $bs);
	put($page, 'next', $at);
	return { $at => $shared };
}, block => '\d+');
case("stash: another bucket's", 'stash', 0, qr/Filter of block \d+ lacks the entry's hash|which is bucket \d+'s/, undef, sub {
	my ($page, $read, $block) = @_;
	my $other = 1;

	# the stash of the next bucket that has one
	for ($other = 1; ; $other++)
	{
		my $p = $read->($other);
		last if get($p, 'type') == 17 && get($p, 'next') != $nowhere && get($p, 'next') != $block;
	}
	put($page, 'next', get($read->($other), 'next'));
}, block => '\d+');

case('chain: another hash', 'chain', 0, qr/Entry's hash is \w+ on a page of hash/, 6, sub { my ($page) = @_; my $h = hash_of($page, 5); set_hash($page, 5, $h == get($page, 'hi') ? $h - 1 : $h + 1) });
case('chain: free', 'chain', 0, qr/Page has type 19 instead of 18/, 0, sub { put($_[0], 'type', 19); put($_[0], 'n', 0) });
case('chain: a circle', 'chain', 0, qr/which the bucket has already/, 0, sub { put($_[0], 'next', $_[2]) });
case('heavy: too many', 'heavy', 0, qr/more heavy hashes than it has room for/, 0, sub { put($_[0], 'nheavy', 7) });
case('heavy: another hash', 'heavy', 0, qr/heavy hash belongs to another bucket/, 0, sub { my ($page) = @_; put($page, 'heavy_hash', get($page, 'lo') > 0 ? get($page, 'lo') - 1 : get($page, 'hi') + 1) });
case('heavy: no chain', 'heavy', 0, qr/heavy hash/, 0, sub { put($_[0], 'heavy_first', $nowhere) });
case('heavy: chain out of the file', 'heavy', 0, qr/block 1000000, which is no page/, 0, sub { put($_[0], 'heavy_first', 1000000) });
case('heavy: forgotten', 'heavy', 1, qr/Row with TID \(\d+,\d+\) has no entry/, undef, sub { put($_[0], 'nheavy', 0); substr(${ $_[0] }, 96, 8) = "\0" x 8 });
case('index cut short', 'stash', 0, qr/which is no page of the index/, 0, undef, block => '\d+');
case('empty file', 'meta', 0, qr/Index has no metapage/, 0, undef);
case('nothing', 'stash', 0, undef, 0, sub { });

# A statement comes to its end, however it ends; a wait for a page's lock can't be cancelled.  Returns what it said.
sub ends
{
	my ($sql, $what) = @_;
	my ($hangs, $err);
	$node->psql('postgres', $sql, stderr => \$err, timeout => $PostgreSQL::Test::Utils::timeout_default, timed_out => \$hangs);
	ok(!$hangs, "$what: ends: $sql");
	return $err if !$hangs;
	diag($node->safe_psql('postgres', 'SELECT pid, state, wait_event, left(query, 60) FROM pg_stat_activity'));
	$node->stop('immediate');
	BAIL_OUT("$what: a session hangs");
}

# ---------- doing it ----------

# 7,300 rows, ten full buckets on average, so that about half have a stash; or 3,000 rows of key 7 among 3,000 others.
my $sql = '';
foreach my $c (@cases)
{
	my $rows = $c->{what} =~ /chain|heavy/ ? 'SELECT CASE WHEN g % 2 = 0 THEN 7 ELSE g END FROM generate_series(1, 6000) g' : 'SELECT g FROM generate_series(1, 7300) g';
	$sql .= "CREATE TABLE $c->{id} (a int); INSERT INTO $c->{id} $rows; CREATE INDEX $c->{id}_a ON $c->{id} USING mtpower_hash (a) WITH (fillfactor = 100);\n";
}
$node->safe_psql('postgres', $sql);
edit_index(sub {
	my ($c, $read) = @_;
	my $block = 0;
	if ($c->{what} ne 'meta')
	{
		my $heavy = $c->{what} =~ /chain|heavy/;

		do { $block++ } until $heavy ? get($read->($block), 'nheavy') > 0 : get($read->($block), 'next') != $nowhere;
		$block = get($read->($block), $heavy ? 'heavy_first' : 'next') if $c->{what} =~ /chain|stash/;
	}
	$c->{block} //= $block if defined $c->{offset};
	return $c->{what} eq 'meta' ? 0 : undef if !$c->{edit};
	my $page = $read->($block);
	my $more = $c->{edit}->($page, $read, $block);
	return { $block => $page, ref $more eq 'HASH' ? %$more : () };
}, @cases);

foreach my $c (@cases)
{
	next if !finds_damage($c);
	my $err;
	if ($c->{what} eq 'meta')
	{
		# A batch looks at the metapage before at any bucket.
		$node->psql('postgres', "\\set VERBOSITY verbose\nSET statement_timeout = '10s'; SET mtpower.batch_min_rows = 0; INSERT INTO $c->{id} SELECT g FROM generate_series(1, 3000) g",
			stderr => \$err);
		like($err, qr/ERROR:  XX00\d/, "$c->{name}: a batch finds it, too");
	}

	# At work: no matter what it finds, it ends, and the server lives.  Inserters, growth, which comes to each bucket, and VACUUM wait for no lock that they have
	# themselves, and nobody goes round in a circle.  (Core's assertions don't take a TID that none is.)
	ends($_, $c->{name}) foreach "SELECT count(*) FROM generate_series(0, pg_relation_size('$c->{id}_a') / $bs - 1) n, mtpower.page_info('$c->{id}_a', n) p",
		"SET enable_seqscan = off; SELECT count(*) FROM generate_series(1, 100) g JOIN $c->{id} ON a = g",
		"SET mtpower.batching = off; INSERT INTO $c->{id} SELECT 7 FROM generate_series(1, 50)", "INSERT INTO $c->{id} SELECT g FROM generate_series(20001, 22000) g",
		"SET mtpower.batch_min_rows = 0; INSERT INTO $c->{id} SELECT g FROM generate_series(30001, 45000) g", "DELETE FROM $c->{id} WHERE a % 3 = 0",
		$c->{no_vacuum} ? () : "VACUUM $c->{id}";
	is($node->safe_psql('postgres', 'SELECT 1'), '1', "$c->{name}: the server lives");
}

# A split of a bucket with a long stash that is not finished: the stash pages that are done form a circle.  Whoever comes there says so.
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
	my $scan = 'SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';
	my $what = 'a circle of done pages';
	$node->safe_psql('postgres', qq{
		CREATE TABLE k (a int);
		CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO k VALUES (-1), (-1);
		$scan
		SET enable_bitmapscan = off;
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM k WHERE a = -1;
		FETCH 1 FROM c;
		INSERT INTO k SELECT g FROM generate_series(1, 40000) g;
		COMMIT});
	$node->psql('postgres', "SET mtpower.debug_injection = '$_=error'; INSERT INTO k VALUES (1)") foreach 'hash_split', 'hash_piece', 'hash_piece';
	edit_index(sub {
		my ($c, $read) = @_;
		my $hi = get($read->(1), 'hi');
		my @done;
		for (my $block = get($read->(1), 'next'); $block != $nowhere && get($read->($block), 'hi') <= $hi; $block = get($read->($block), 'next')) { push @done, $block; }
		cmp_ok(scalar(@done), '>', 3, $what);
		my $page = $read->($done[-1]);
		put($page, 'next', $done[1]);
		return { $done[-1] => $page };
	}, { id => 'k' });
	foreach my $sql ('INSERT INTO k SELECT g FROM generate_series(50001, 51000) g', "$scan SET enable_bitmapscan = off; SELECT count(*) FROM generate_series(1, 100) g JOIN k ON a = g",
		"$scan SET enable_indexscan = off; SELECT count(*) FROM generate_series(1, 100) g JOIN k ON a = g", 'VACUUM (INDEX_CLEANUP on) k')
	{
		$node->psql('postgres', 'DELETE FROM k WHERE a % 2 = 0') if $sql =~ /VACUUM/;
		like(ends($sql, $what), qr/links between pages of index "k_a" lead to block \d+ more than once/, "$what: found");
	}
	is($node->safe_psql('postgres', q{REINDEX INDEX k_a; SELECT count(mtpower.verify_index('k_a', true)::text)}), 1, "$what: REINDEX heals it");
}

$node->safe_psql('postgres', q{
	CREATE TABLE wide (a text, b int);
	INSERT INTO wide SELECT md5(g::text), g % 10 FROM generate_series(1, 8000) g;
	CREATE INDEX wide_a ON wide USING mtpower_hash (a) WITH (fillfactor = 100);
	CREATE INDEX wide_b ON wide USING mtpower_hash (b)});
# Everywhere, and in the headers of pages
damage_at_random(sub { my ($length, $n) = @_; return $n % 2 ? int(rand($length)) : $bs * int(rand($length / $bs)) + int(rand(144)); },
	wide_a => 'SELECT count(*) FROM generate_series(1, 1000) g JOIN wide ON a = md5(g::text)',
	wide_b => 'SELECT count(*) FROM generate_series(1, 1000) g JOIN wide ON b = g % 10');

done_testing();
