# Text in C.UTF-8 of the C library, whose order is that of the bytes in some libraries. An index
# keeps what it was built with: what was built where that is not known has no normalized keys of
# text, until REINDEX. Both give the rows in the order of the bytes, which that of UTF-16 is not.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpDamage;

my ($bytes, $none) = (11, 0);	# kinds of normalized keys (src/page/norm.h)
my ($node, $bs) = damage_node();
page_fields(type => [ 24, 'C' ], norm => [ 49, 'C' ], marks => [ 84, 'L' ]);

# Words of letters with one, two, three and four bytes; many share their first eight bytes.
my $rows = q{
	SELECT CASE WHEN i % 50 > 0 THEN repeat('same ', i % 3) || (ARRAY['a', 'B', 'z', 'é', 'Ω', '中', U&'\E000', U&'\FFFD', U&'\+01F600', U&'\+10FFFD'])[1 + i % 10] || (hashint4(i) % 1000) END
	FROM generate_series(1, 6000) i};
my $sound = q{
	SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off;
	CREATE TEMP TABLE by_index AS SELECT t, row_number() OVER () AS n FROM (SELECT t FROM c ORDER BY t) q;
	SET enable_sort = on; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_seqscan = on;
	CREATE TEMP TABLE by_bytes AS SELECT t, row_number() OVER () AS n FROM (SELECT t FROM c ORDER BY t COLLATE "C") q;
	SELECT count(*) FROM by_index JOIN by_bytes USING (n) WHERE by_index.t IS NOT DISTINCT FROM by_bytes.t;
	SET enable_indexonlyscan = on; SET enable_seqscan = off;
	SELECT count(*) FROM c WHERE t > 'same z' AND t < U&'same \+01F600';
	SELECT mtpower.verify_index('c_a', true);};

# The kind of normalized keys of an index's first leaf, by the file.
sub kind_of
{
	my ($db) = @_;
	$node->safe_psql($db, 'CHECKPOINT');
	my $path = $node->data_dir . '/' . $node->safe_psql($db, q{SELECT pg_relation_filepath('c_a')});
	my $file = slurp_file($path);
	foreach my $block (1 .. length($file) / $bs - 1)
	{
		my $page = substr($file, $block * $bs, $bs);
		return get(\$page, 'norm') & 0x0F if get(\$page, 'type') == 2;
	}
	die 'no leaf';
}

sub is_sound
{
	my ($db, $kind, $what) = @_;
	my $between = $node->safe_psql($db, q{SELECT count(*) FROM c WHERE t COLLATE "C" > 'same z' AND t COLLATE "C" < U&'same \+01F600'});
	my $count = $node->safe_psql($db, 'SELECT count(*) FROM c');
	cmp_ok($between, '>', 100, "$what: some rows are between");
	like($node->safe_psql($db, $sound), qr/\A$count\n$between\n/, "$what: in the order of bytes");
	is(kind_of($db), $kind, "$what: normalized keys");
	return;
}

# The metapage of an index, and the file that it is in.
sub metapage
{
	my ($db) = @_;
	my $path = $node->data_dir . '/' . $node->safe_psql($db, q{SELECT pg_relation_filepath('c_a')});
	my $page = substr(slurp_file($path), 0, $bs);
	return (\$page, $path);
}

# ---------- the database's collation, and a column's ----------

my $locale = q{ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8' TEMPLATE template0};
if ($node->psql('postgres', "CREATE DATABASE utf8 $locale") != 0)
{
	plan skip_all => 'the C library has no C.UTF-8';
}
$node->safe_psql('utf8', 'CREATE EXTENSION mtpower; CREATE TABLE c (t text) USING mtpower; CREATE INDEX c_a ON c USING mtpower_blink (t)');
$node->safe_psql('utf8', 'CHECKPOINT');
my ($meta) = metapage('utf8');
my $known = get($meta, 'marks') == 3 ? $bytes : $none;
my ($major, $minor) = `getconf GNU_LIBC_VERSION 2>/dev/null` =~ /^glibc (\d+)\.(\d+)/;
is($known, $bytes, 'text has normalized keys') if defined $major && ($major > 2 || $minor >= 35);
$node->safe_psql('utf8', 'DROP TABLE c');
$node->safe_psql('postgres', q{CREATE DATABASE plain ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0});
$node->safe_psql('plain', q{CREATE EXTENSION mtpower; CREATE COLLATION points (provider = libc, locale = 'C.utf8')});
foreach my $case ([ 'utf8', 'text' ], [ 'plain', 'text COLLATE points' ])
{
	my ($db, $type) = @$case;
	$node->safe_psql($db, "CREATE TABLE c (t $type) USING mtpower; CREATE INDEX c_a ON c USING mtpower_blink (t); INSERT INTO c $rows");
	is_sound($db, $known, "$type in $db, loaded");
	$node->safe_psql($db, "BEGIN; REINDEX INDEX c_a; INSERT INTO c $rows; COMMIT");
	is_sound($db, $known, "$type in $db, built and loaded");
	$node->safe_psql($db, "BEGIN; TRUNCATE c; INSERT INTO c $rows; COMMIT; REINDEX INDEX CONCURRENTLY c_a");
	is_sound($db, $known, "$type in $db, built beside others");
}

# A build forgets and learns again what it knows of its index, and reads no page of it, though it
# has written some. Of a file that is new in the transaction core forgets nothing.
$node->safe_psql('utf8', 'INSERT INTO c SELECT t || g FROM c, generate_series(1, 4) g');
if ($node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on')
{
	$node->safe_psql('utf8', 'SET debug_discard_caches = 1; REINDEX INDEX CONCURRENTLY c_a');
	is_sound('utf8', $known, 'built without caches');
}
$node->safe_psql('utf8', q{CREATE UNLOGGED TABLE u (t text) USING mtpower; CREATE INDEX ON u USING mtpower_blink (t)});

# ---------- what was built elsewhere ----------

$node->safe_psql('postgres', "CREATE DATABASE moved $locale");
$node->safe_psql('moved', 'CREATE EXTENSION mtpower; CREATE TABLE c (t text) USING mtpower; CREATE INDEX c_a ON c USING mtpower_blink (t); CHECKPOINT');
my $path;
($meta, $path) = metapage('moved');
$node->stop;
put($meta, 'marks', 1);
open(my $file, '+<:raw', $path) or die "$path: $!";
print $file $$meta;
close($file);
$node->start;
# A new file is not always a new index.
$node->safe_psql('moved', q{SET allow_in_place_tablespaces = on; CREATE TABLESPACE there LOCATION ''});
$node->safe_psql('moved', "BEGIN; ALTER INDEX c_a SET TABLESPACE there; INSERT INTO c $rows; COMMIT");
is_sound('moved', $none, 'built elsewhere, moved and loaded');
$node->safe_psql('moved', "BEGIN; ALTER INDEX c_a SET TABLESPACE pg_default; INSERT INTO c $rows; COMMIT");
is_sound('moved', $none, 'built elsewhere, loaded and moved');
$node->safe_psql('moved', "SET mtpower.batching = off; INSERT INTO c $rows");
is_sound('moved', $none, 'built elsewhere, row by row');
$node->stop('immediate');
$node->start;
is_sound('moved', $none, 'built elsewhere, replayed');
$node->safe_psql('moved', 'REINDEX INDEX c_a');
is_sound('moved', $known, 'built elsewhere, built anew');
$node->stop;
done_testing();
