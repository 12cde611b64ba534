# MtpLists: what tests of lists share, the items of equal keys with a list of TIDs: a table of few keys, what sessions do to it beside each
# other, and whether its indexes agree with it, read in every way.
package MtpLists;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(lists_sql lists_scripts lists_sound rows_file);

# The table l: 7 keys k and one that is null, 300 keys g, 100 keys t; n changes; rows that are kept stay as they are.  Its indexes are of mtpower_blink;
# those that begin with an expression serve no query, and have narrow items of several columns.
#
# compare(column, lo, hi) reads the rows of a range of keys by each kind of scan, forward and backward, and raises an error where one differs from the table
# itself; walk(lo, hi) goes to the end and back with a cursor that waits in between.  Both need one snapshot, which REPEATABLE READ is.
sub lists_sql
{
	my ($am) = @_;
	return qq{
CREATE TABLE l (id bigserial, k int, g int, t text COLLATE "C", n int DEFAULT 0, kept bool DEFAULT false) USING $am WITH (fillfactor = 40, vacuum_truncate = off);
CREATE INDEX l_k ON l USING mtpower_blink (k);
CREATE INDEX l_g ON l USING mtpower_blink (g DESC);
CREATE INDEX l_t ON l USING mtpower_blink (t, k);
CREATE INDEX l_n ON l USING mtpower_blink (n);
CREATE INDEX l_gn ON l USING mtpower_blink ((g + 0), n);
CREATE INDEX l_gi ON l USING mtpower_blink ((g + 0), id);
} . q{
CREATE FUNCTION some_rows(many int, seed int) RETURNS TABLE (k int, g int, t text) LANGUAGE sql AS $$
	SELECT CASE WHEN h % 8 > 0 THEN h % 8 END, h % 300, chr(97 + h % 5) || h % 20 FROM (SELECT hashint4(i + seed) & 65535 AS h FROM generate_series(1, many) i) x $$;
CREATE FUNCTION allow(seq bool, plain bool, index_only bool, bitmap bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', plain::text, true), set_config('enable_sort', seq::text, true),
		set_config('enable_indexonlyscan', index_only::text, true), set_config('enable_bitmapscan', bitmap::text, true),
		set_config('mtpower.enable_directoryscan', 'off', true) $$;
CREATE FUNCTION ask(kind text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
	answer text;
BEGIN
	PERFORM allow(kind = 'Seq Scan', kind ~ '^Index', kind = 'Index Only Scan', kind ~ '^Bitmap');
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line; END LOOP;
	IF plan !~ kind THEN RAISE 'no %: %', kind, plan; END IF;
	EXECUTE query INTO answer;
	RETURN answer;
END $$;
CREATE FUNCTION compare(col text, lo text, hi text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	digest text := format('SELECT concat(count(*), '' '', md5(string_agg(concat(x, '' '', id), '',''))) FROM (SELECT %%s AS x, %%s AS id FROM l WHERE %I BETWEEN %L AND %L %%s) q', col, lo, hi);
	keys text;
	query text;
	want text;
	way text;
BEGIN
	FOREACH way IN ARRAY ARRAY['', 'DESC'] LOOP
		-- Equal keys come in the order of their TIDs, backward in the reverse; g's index is descending, that of t has k behind it.
		keys := format('ORDER BY %I %s', col, way);
		want := ask('Seq Scan', format(digest, col, 'id', format('%s%s, ctid %s', keys, CASE col WHEN 't' THEN ', k ' || way END, CASE WHEN (way = '') = (col = 'g') THEN 'DESC' END)));
		query := format(digest, col, 'id', keys);
		IF ask('Index Scan', query) <> want THEN RAISE 'index scan differs: %', query; END IF;
		query := format(digest, col, 'NULL', keys);
		IF ask('Index Only Scan', query) <> ask('Seq Scan', query) THEN RAISE 'index-only scan differs: %', query; END IF;
	END LOOP;
	query := format(digest, 'NULL', 'id', '');
	IF ask('Bitmap Index Scan', query) <> ask('Seq Scan', query) THEN RAISE 'bitmap scan differs: %', query; END IF;
	RETURN split_part(want, ' ', 1);
END $$;
CREATE FUNCTION walk(lo int, hi int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	want text := ask('Seq Scan', format('SELECT concat(count(*), '' '', sum(hashint8extended(id, 0))) FROM l WHERE k BETWEEN %s AND %s', lo, hi));
	c refcursor;
	way text;
	got bigint;
	n bigint;
	sum numeric;
BEGIN
	PERFORM allow(false, true, false, false);
	OPEN c SCROLL FOR EXECUTE format('SELECT id FROM l WHERE k BETWEEN %s AND %s ORDER BY k', lo, hi);
	FOREACH way IN ARRAY ARRAY['forward', 'backward'] LOOP
		n := 0;
		sum := NULL;
		LOOP
			IF way = 'forward' THEN FETCH NEXT FROM c INTO got; ELSE FETCH PRIOR FROM c INTO got; END IF;
			EXIT WHEN NOT FOUND;
			n := n + 1;
			sum := coalesce(sum, 0) + hashint8extended(got, 0);
			IF n % 700 = 300 THEN PERFORM pg_sleep(0.005); END IF;
		END LOOP;
		IF concat(n, ' ', sum) <> want THEN RAISE 'cursor %: % %, not %: % to %', way, n, sum, want, lo, hi; END IF;
	END LOOP;
	CLOSE c;
	RETURN n;
END $$;
CREATE FUNCTION lists(i regclass, OUT lists bigint, OUT items bigint, OUT tids bigint) LANGUAGE sql AS $$
	SELECT sum(p.lists), sum(p.items), sum(p.tids)
	FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p WHERE p.type = 'leaf' $$;
};
}

# Rows for COPY l (k, g, t).
sub rows_file
{
	my ($many) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir . '/rows';
	append_to_file($file, join('', map { join("\t", $_ % 8 ? $_ % 8 : '\N', $_ % 300, chr(97 + $_ % 5) . $_ % 20) . "\n" } map { int(rand(65536)) } 1 .. $many));
	return $file;
}

# pgbench's scripts, with their weights.  Changes; questions, which read alone.
sub lists_scripts
{
	my ($file) = @_;
	my %changes = (
		"COPY l (k, g, t) FROM '$file';" => 3,
		'\set n random(1, 600)
			\set seed random(1, 1000000)
			INSERT INTO l (k, g, t) SELECT * FROM some_rows(:n, :seed);' => 6,
		"\\set seed random(1, 1000000)\nSET mtpower.batching = off; INSERT INTO l (k, g, t) SELECT * FROM some_rows(40, :seed); RESET mtpower.batching;" => 6,
		"\\set seed random(1, 1000000)\nBEGIN; INSERT INTO l (k, g, t) SELECT * FROM some_rows(300, :seed); ROLLBACK;" => 2,
		'\set part random(0, 30)
			UPDATE l SET n = n + 1 WHERE id % 31 = :part AND NOT kept;' => 3,
		# Where there are many rows, more of them go.
		'\set part random(0, 6)
			DELETE FROM l WHERE (SELECT count(*) FROM l) > 12000 AND hashint8(id) % 7 = :part AND NOT kept;' => 4,
		"DELETE FROM l WHERE id < (SELECT max(id) - 20000 FROM l) AND NOT kept;" => 1,
		'\set key random(1, 7)
			DELETE FROM l WHERE k = :key AND (SELECT count(*) FROM l) > 8000 AND NOT kept;' => 1,
		'VACUUM (INDEX_CLEANUP ON) l;' => 3);
	my %questions = (
		"\\set lo random(1, 7)\nSELECT compare('k', :lo::text, (:lo + 1)::text);" => 4,
		"\\set lo random(0, 290)\nSELECT compare('g', :lo::text, (:lo + 25)::text);" => 3,
		"\\set lo random(97, 101)\nSELECT compare('t', chr(:lo), chr(:lo) || 'z');" => 2,
		"SELECT compare('n', '1', '2');" => 1,
		"\\set lo random(1, 7)\nSELECT walk(:lo, :lo + 1);" => 3);
	return (\%changes, \%questions);
}

# The indexes verify; all rows are found by each of them; lists says whether they must have lists.
sub lists_sound
{
	my ($node, $what, $lists) = @_;
	my ($out, $err);
	foreach my $index (qw(l_k l_g l_t l_n l_gn l_gi))
	{
		is($node->psql('postgres', "SELECT mtpower.verify_index('$index', true)", stderr => \$err), 0, "$what: $index verifies") or diag($err);
		cmp_ok($node->safe_psql('postgres', "SELECT lists FROM lists('$index')"), '>', 0, "$what: $index has lists") if $lists && $index ne 'l_gi';
	}
	is($node->psql('postgres', q{SET default_transaction_isolation = 'repeatable read';
		SELECT compare('k', '-10', '10'); SELECT compare('g', '0', '300'); SELECT compare('t', '', 'z'); SELECT compare('n', '0', '100000'); SELECT walk(0, 10)}, stderr => \$err), 0,
		"$what: every scan finds what the table has") or diag($err);
	return;
}

1;
