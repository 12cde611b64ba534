# MtpJudgeCompare: reads tables by every index, in every way that it can be read, and compares servers.
#
# judge.look() is run on each server on its own: what it returns must tell of no difference, and be the same on all of them.
package MtpJudgeCompare;

use strict;
use warnings;

# judge.read(query, ways, index, plan) runs a query with only these kinds of plan nodes and only this index, and returns what it returns, or that its plan
# is another one than asked for.  An ordered index is read forward, backward, index-only and by a bitmap, a hash by each key that is in the table and as many that
# are not, as an index scan and by a bitmap; all must give the rows that a sequential scan gives, in the order of a sort.
sub sql
{
	return q{
CREATE FUNCTION judge.read(query text, ways text[], index oid, plan text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	lines text := '';
	result text;
BEGIN
	PERFORM set_config('only_index.oid', index::text, true), set_config('jit', 'off', true), set_config('mtpower.enable_directoryscan', 'off', true);
	PERFORM set_config('enable_' || way, (way = ANY (ways))::text, true)
		FROM unnest('{seqscan,indexscan,indexonlyscan,bitmapscan,sort,incremental_sort,hashjoin,mergejoin,memoize,material}'::text[]) way;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP lines := lines || E'\n' || line; END LOOP;
	IF lines !~ plan THEN RETURN 'not read by ' || plan || ':' || lines; END IF;
	EXECUTE query INTO result;
	RETURN result;
END $$;

-- An index's keys as ORDER BY, forward and backward, and as one text
CREATE FUNCTION judge.keys(i regclass, OUT forward text, OUT backward text, OUT key text, OUT first text, OUT expressions bool) STABLE LANGUAGE sql AS $$
	SELECT string_agg(format('%s %s NULLS %s', e, CASE WHEN opt & 1 > 0 THEN 'DESC' ELSE 'ASC' END, CASE WHEN opt & 2 > 0 THEN 'FIRST' ELSE 'LAST' END), ', ' ORDER BY n),
		string_agg(format('%s %s NULLS %s', e, CASE WHEN opt & 1 > 0 THEN 'ASC' ELSE 'DESC' END, CASE WHEN opt & 2 > 0 THEN 'LAST' ELSE 'FIRST' END), ', ' ORDER BY n),
		string_agg(format('coalesce(%s::text, ''~'')', e), $q$ || '|' || $q$ ORDER BY n), min(e) FILTER (WHERE n = 1), bool_or(att = 0)
	FROM (SELECT n, format('(%s)', pg_get_indexdef(i, n, true)) || CASE WHEN indcollation[n - 1] <> 0 THEN ' COLLATE ' || indcollation[n - 1]::regcollation ELSE '' END AS e,
			indoption[n - 1] AS opt, indkey[n - 1] AS att
		FROM pg_index, generate_series(1, indnkeyatts) n WHERE indexrelid = i) k $$;

CREATE FUNCTION judge.differs_ordered(i regclass, tab regclass, pred text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	k record;
	want text;
	got text;
	name text := 'using ' || (SELECT relname FROM pg_class WHERE oid = i);
	rows text := $q$SELECT count(*) || ' ' || coalesce(sum(h), 0) || ' ' || coalesce(md5(string_agg(key, ',')), '') FROM (SELECT %s AS h, %s AS key FROM %s t WHERE %s ORDER BY %s) q$q$;
	hash text := 'hash_record_extended(t, 0)';
	query text;
	least text;
BEGIN
	SELECT * FROM judge.keys(i) INTO k;
	query := format(rows, hash, k.key, tab, pred, k.forward);
	want := judge.read(query, '{seqscan,sort}', 0, 'Seq Scan');
	got := judge.read(query, '{indexscan}', i, 'Index Scan ' || name);
	IF got <> want THEN RETURN 'forward: ' || got || ', not ' || want; END IF;
	IF NOT k.expressions THEN
		query := format(rows, 0, k.key, tab, pred, k.forward);
		want := judge.read(query, '{seqscan,sort}', 0, 'Seq Scan');
		got := judge.read(query, '{indexscan,indexonlyscan}', i, 'Index Only Scan ' || name);
		IF got <> want THEN RETURN 'index-only: ' || got || ', not ' || want; END IF;
	END IF;
	query := format(rows, hash, k.key, tab, pred, k.backward);
	want := judge.read(query, '{seqscan,sort}', 0, 'Seq Scan');
	got := judge.read(query, '{indexscan}', i, 'Index Scan Backward ' || name);
	IF got <> want THEN RETURN 'backward: ' || got || ', not ' || want; END IF;
	-- Since PostgreSQL 17, IS NOT NULL alone is no condition where the column is NOT NULL.
	query := format('SELECT quote_nullable(x) || ''::'' || pg_typeof(x) FROM (SELECT %s AS x FROM %s t WHERE %s ORDER BY 1 LIMIT 1) q', k.first, tab, pred);
	least := judge.read(query, '{seqscan,sort}', 0, 'Seq Scan');
	IF least IS NULL OR least ~ '^NULL::' THEN RETURN NULL; END IF;  -- no row has a key
	query := format($q$SELECT count(*) || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0) FROM %s t WHERE %s AND %s IS NOT NULL AND %s >= %s$q$, tab, pred, k.first, k.first, least);
	want := judge.read(query, '{seqscan}', 0, 'Seq Scan');
	got := judge.read(query, '{bitmapscan}', i, 'Bitmap Index Scan on ' || (SELECT relname FROM pg_class WHERE oid = i));
	IF got <> want THEN RETURN 'bitmap: ' || got || ', not ' || want; END IF;
	RETURN NULL;
END $$;

CREATE FUNCTION judge.differs_hash(i regclass, tab regclass, pred text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text := (SELECT relname FROM pg_class WHERE oid = i);
	digest text := $q$count(*) || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0)$q$;
	columns text;
	absent text;
	equal text;
	want text;
	got text;
	query text;
BEGIN
	SELECT string_agg(a.attname, ', ' ORDER BY n), string_agg(format(CASE WHEN a.attcollation = 0 THEN '-1 - %1$I' ELSE '%1$I || ''!''' END, a.attname), ', ' ORDER BY n),
		string_agg(format('t.%1$I = p.%1$I', a.attname), ' AND ' ORDER BY n)
		INTO columns, absent, equal
		FROM pg_index x, generate_series(1, indnkeyatts) n, pg_attribute a WHERE indexrelid = i AND attrelid = tab AND attnum = indkey[n - 1];
	query := format('WITH p(%s) AS MATERIALIZED (SELECT DISTINCT %s FROM %s UNION ALL SELECT DISTINCT %s FROM %s) SELECT %s FROM p JOIN %s t ON %s WHERE %s',
		columns, columns, tab, absent, tab, digest, tab, equal, pred);
	want := judge.read(format('SELECT %s FROM %s t WHERE ROW(%s) IS NOT NULL AND %s', digest, tab, columns, pred), '{seqscan}', 0, 'Seq Scan');
	got := judge.read(query, '{sort,indexscan}', i, 'Index Scan using ' || name);
	IF got <> want THEN RETURN 'by each key: ' || got || ', not ' || want; END IF;
	got := judge.read(query, '{sort,bitmapscan}', i, 'Bitmap Index Scan on ' || name);
	IF got <> want THEN RETURN 'by each key and bitmaps: ' || got || ', not ' || want; END IF;
	RETURN NULL;
END $$;

CREATE FUNCTION judge.differs_zone(i regclass, tab regclass, pred text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text := (SELECT relname FROM pg_class WHERE oid = i);
	first text := (SELECT k.first FROM judge.keys(i) k);
	bounds text[];
	clauses text[];
	clause text;
	want text;
	got text;
	query text;
BEGIN
	EXECUTE format($q$SELECT array_agg(quote_literal(x) || '::' || pg_typeof(x)) FROM (SELECT unnest(percentile_disc('{0,0.01,0.3,0.31,0.7,0.99,1}'::float8[]) WITHIN GROUP (ORDER BY %s)) AS x FROM %s t WHERE %s) q$q$,
		first, tab, pred) INTO bounds;
	clauses := CASE WHEN bounds[1] IS NOT NULL THEN ARRAY[format('%s = %s', first, bounds[5]), format('%s <= %s', first, bounds[2]), format('%s >= %s', first, bounds[6]),
		format('%s BETWEEN %s AND %s', first, bounds[3], bounds[4]), format('%s > %s', first, bounds[7])] END;
	FOREACH clause IN ARRAY coalesce(clauses, '{}') LOOP
		query := format($q$SELECT count(*) || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0) FROM %s t WHERE %s AND %s$q$, tab, pred, clause);
		want := judge.read(query, '{seqscan}', 0, 'Seq Scan');
		got := judge.read(query, '{bitmapscan}', i, 'Bitmap Index Scan on ' || name);
		IF got <> want THEN RETURN clause || ': ' || got || ', not ' || want; END IF;
	END LOOP;
	RETURN NULL;
END $$;

-- Indexes that can be read here; in recovery there are no unlogged ones.
CREATE VIEW judge.indexes AS
	SELECT i.indexrelid::regclass AS index, i.indrelid::regclass AS tab, am.amname, coalesce(pg_get_expr(i.indpred, i.indrelid), 'true') AS pred
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'i' AND i.indisvalid AND (c.relpersistence = 'p' OR NOT pg_is_in_recovery());

-- NULL if an index gives what its table has
CREATE FUNCTION judge.differs(i regclass) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN amname LIKE '%hash' THEN judge.differs_hash(index, tab, pred) WHEN amname LIKE '%zone' THEN judge.differs_zone(index, tab, pred) ELSE judge.differs_ordered(index, tab, pred) END FROM judge.indexes WHERE index = i $$;

CREATE FUNCTION judge.verify(i regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM mtpower.verify_index(index, true) FROM judge.indexes WHERE index = i AND amname LIKE 'mtpower%';
	PERFORM CASE WHEN pg_is_in_recovery() THEN bt_index_check(index, true) ELSE bt_index_parent_check(index, true, true) END
		FROM judge.indexes WHERE index = i AND amname = 'btree';
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN RETURN SQLERRM;
END $$;

-- A line for each table and each index
CREATE FUNCTION judge.look() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	x record;
	wrong text;
BEGIN
	FOR x IN SELECT oid::regclass AS tab FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p' ORDER BY relname LOOP
		RETURN NEXT 'table ' || x.tab || ' ' || judge.read(format($q$SELECT count(*) || ' ' || coalesce(sum(hash_record_extended(t, 0)), 0) FROM %s t$q$, x.tab), '{seqscan}', 0, 'Seq Scan');
	END LOOP;
	FOR x IN SELECT * FROM judge.indexes ORDER BY index::text LOOP
		-- Of many partitions a tenth is read in all ways.
		wrong := coalesce('verify_index: ' || judge.verify(x.index), CASE WHEN x.tab::text !~ '^parted_\d*[0-689]$' THEN judge.differs(x.index) END);
		RETURN NEXT CASE WHEN wrong IS NULL THEN 'index ' || x.index || ' ' || x.amname ELSE 'WRONG ' || x.index || ': ' || wrong END;
	END LOOP;
END $$;
};
}

# What a server has: { lines => [...], wrong => [...], rows => n, indexes => n }.  Unlogged tables exist on the primary alone.
sub look
{
	my ($node) = @_;
	my ($out, $err);
	my $rc = $node->psql('postgres', 'SELECT * FROM judge.look()', stdout => \$out, stderr => \$err);
	my @lines = split /\n(?=table |index |WRONG )/, $out;
	my $look = { lines => [ grep { !/^\w+ scratch/ } @lines ], wrong => [ grep { /^WRONG/ } @lines ], rows => 0, indexes => 0 };
	push @{ $look->{wrong} }, $err if $rc != 0;
	foreach (@lines)
	{
		$look->{rows} += $1 if /^table \S+ (\d+)/;
		$look->{indexes}++ if /^index \S+ mtpower/;
	}
	return $look;
}

# How a server differs from another one; '' if it does not, and all is right.
sub differences
{
	my ($look, $other) = @_;
	my %there = map { $_ => 1 } @{ $other->{lines} };
	my %here = map { $_ => 1 } @{ $look->{lines} };
	return join("\n", @{ $look->{wrong} }, (map { "only here: $_" } grep { !$there{$_} } @{ $look->{lines} }), (map { "only there: $_" } grep { !$here{$_} } @{ $other->{lines} }));
}

1;
