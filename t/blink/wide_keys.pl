# Keys are so wide that a page has room for one or two. They come in every order, one by one, in
# batches and in builds; crashes, VACUUM and fill factors follow. The index stays sound.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpLoad;

my $rows = $ENV{MTP_LONG} ? 1500 : 120;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
fsync = off
checkpoint_timeout = 1h
max_wal_size = 10GB
});
$node->start;

# wide(k, bytes): a text that sorts as the number k does and makes an index entry of so many bytes, a multiple of 8.  Storage
# EXTERNAL keeps it from being compressed.
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION wide(k numeric, bytes int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT repeat('x', bytes - 8 - 4 - 20) || to_char(k, 'FM00000000.00000000000') $$;
CREATE TABLE t (k numeric, v int, t text COLLATE "C");
ALTER TABLE t ALTER t SET STORAGE EXTERNAL;
CREATE PROCEDURE one_by_one(source text) LANGUAGE plpgsql AS $$
DECLARE r record;
BEGIN
	FOR r IN EXECUTE 'SELECT k, b FROM (' || source || ') s' LOOP
		INSERT INTO t VALUES (r.k, (r.k * 10)::int % 7, wide(r.k, r.b));
	END LOOP;
END $$;
CREATE FUNCTION height(i regclass) RETURNS int LANGUAGE sql AS $$
	SELECT max(p.level) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p WHERE p.type IN ('leaf', 'inner') $$;
-- The most pages that a level has for each one of the level below it, as far as the latter are many.
CREATE FUNCTION narrowing(i regclass) RETURNS numeric LANGUAGE sql AS $$
	WITH levels AS (SELECT p.level, count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p WHERE p.type IN ('leaf', 'inner') GROUP BY 1)
	SELECT round(max(up.count::numeric / down.count), 2) FROM levels up JOIN levels down ON up.level = down.level + 1 WHERE down.count >= 100 $$;
CREATE FUNCTION read_all() RETURNS text LANGUAGE plpgsql AS $$
DECLARE up text; down text; plain text;
BEGIN
	SET LOCAL enable_sort = off; SET LOCAL enable_bitmapscan = off; SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on;
	SELECT md5(string_agg(md5(q.t), ' ')) INTO up FROM (SELECT t FROM t ORDER BY t) q;
	SELECT md5(string_agg(md5(q.t), ' ' ORDER BY n DESC)) INTO down FROM (SELECT t, row_number() OVER () AS n FROM (SELECT t FROM t ORDER BY t DESC) r) q;
	SET LOCAL enable_sort = on; SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off;
	SELECT md5(string_agg(md5(q.t), ' ')) INTO plain FROM (SELECT t FROM t ORDER BY t || '') q;
	IF up IS DISTINCT FROM plain OR down IS DISTINCT FROM plain THEN RAISE 'scans differ: % % %', plain, up, down; END IF;
	RETURN (SELECT count(*) FROM t);
END $$;
});

# Orders of arrival.  The largest entries fit on a leaf alone only; those of 2,536 to 2,640 bytes by twos; `mixed` has small ones between them.
my %orders = (
	ascending => 'g', descending => '100000 - g', random => '((g::bigint * 7919) % 100003)::numeric', equal => '5',
	# always between an old key and the newest one, on either side: what leaves pages of one child behind if splits halve badly
	between_up => 'CASE WHEN g <= 20 THEN 100 + g ELSE 1 - 1.0 / (g + 1) END', between_down => 'CASE WHEN g <= 20 THEN g * 0.001 ELSE 1 + 1.0 / (g + 1) END', zigzag => 'CASE g % 2 WHEN 0 THEN 1 + 1.0 / g ELSE 1 - 1.0 / g END',
	four_runs => '(g % 4) * 1000 + g', four_down => '(g % 4) * 1000 + 10000 - g');
my $mixed = 'CASE g % 3 WHEN 0 THEN 2696 WHEN 1 THEN 56 + (g * 31 % 40) * 8 ELSE 1304 END';
my %sizes = (
	largest => [ '2704', '(t)' ], two => [ '2640', '(t)' ], around => [ '2496 + (g * 13 % 27) * 8', '(t)' ], mixed => [ $mixed, '(t)' ],
	included => [ $mixed, '(t) INCLUDE (v)' ], columns => [ '2696', '(t, v DESC)' ]);

sub check
{
	my ($what, $expected, $most) = @_;
	my ($out, $err);
	$node->psql('postgres', q{SELECT read_all(), height(indexrelid) FROM (SELECT indexrelid, mtpower.verify_index(indexrelid, true) FROM pg_index WHERE indrelid = 't'::regclass OFFSET 0) i},
		stdout => \$out, stderr => \$err);
	my ($count, $height) = split(/\|/, $out);
	is("$count $err", "$expected ", "$what: scans agree, the index verifies");
	# Pages lead to 1.5 others on the average where keys are widest; VACUUM leaves the height as it is.
	cmp_ok($height, '<=', 3 + 1.2 * log(($most // $expected) + 2) / log(1.5), "$what: height");
	return;
}

my $turn = 0;
foreach my $order (sort keys %orders)
{
	foreach my $size (sort keys %sizes)
	{
		my ($bytes, $columns) = @{ $sizes{$size} };
		my $source = "SELECT ($orders{$order})::numeric AS k, ($bytes) AS b FROM generate_series(1, $rows) g";
		my $fill = (10, 70, 90, 100)[ $turn % 4 ];
		$node->safe_psql('postgres', "TRUNCATE t; DROP INDEX IF EXISTS t_t; CREATE INDEX t_t ON t USING mtpower_blink $columns WITH (fillfactor = $fill)");
		my $what = "$order, $size, fill factor $fill";
		my $had = 0;
		if ($turn++ % 5 < 2 || $size eq 'largest')
		{
			$node->safe_psql('postgres', "SET mtpower.batching = off; CALL one_by_one('" . ($source =~ s/'/''/gr) . "')");
			check("$what, one by one", $had = $rows);
			# A page of three children is split by chance: no order of arrival finds it wrong each time.
			if ($size eq 'largest')
			{
				my $most = $node->safe_psql('postgres', q{SELECT coalesce(narrowing('t_t'), 0)});
				note "$what: a level has $most times as many pages as the one below it, at the most";
				cmp_ok($most, '<', $order eq 'zigzag' ? 0.95 : 0.85, "$what: levels get smaller upward");
			}
		}
		# In batches: onto what is there, or into an empty index
		my $batch = "INSERT INTO t SELECT k + 0.5 / (row_number() OVER () + 1), 1, wide(k + 0.5 / (row_number() OVER () + 1), b) FROM ($source) s;";
		$node->safe_psql('postgres', "$batch $batch");
		check("$what, batches", $had + 2 * $rows);
		my $left = $node->safe_psql('postgres', 'DELETE FROM t WHERE abs(hashtext(k::text)) % 4 <> 0 OR k < 10; VACUUM t; SELECT count(*) FROM t');
		check("$what, VACUUM", $left, $had + 2 * $rows) if $turn % 3 == 0;
		$node->safe_psql('postgres', "INSERT INTO t SELECT k, 2, wide(k, b) FROM ($source) s;" . ($turn % 5 == 0 ? 'REINDEX INDEX t_t' : ''));
		check("$what, again", $left + $rows, $had + 2 * $rows);
	}
	# The page images of replay are compared with the records' own.
	my $count = $node->safe_psql('postgres', 'SELECT count(*) FROM t');
	$node->stop('immediate');
	$node->start;
	check("$order, replayed", $count, 3 * $rows);
}
log_is_clean($node);
$node->stop;
done_testing();
