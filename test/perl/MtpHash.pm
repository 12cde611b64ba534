# MtpHash: a model of the hash index, to compare it with: which bucket an entry belongs to, and what mtpower.page_info shows.
package MtpHash;

use strict;
use warnings;
use Exporter 'import';
use Test::More;

our @EXPORT = qw(hash_model_sql space_of differences grow);

# SQL functions.  The model knows nothing of the index's code: it is the arithmetic of src/hash/README.md.
#
#   spread(int)                    what hashint4() etc. give, mixed
#   bucket_of(h, m, n, p0)         the bucket of a spread hash
#   moves(old, new, m)             how often an entry moved on its way from a bucket to one split off from it, at once or over others
#   space(index)                   M, N, P0, B, entries per bucket, entries, as the metapage has them
#   pages(index)                   pages of buckets: bucket number, type, items
#   differs(index, query)          buckets whose entries differ in number from the model's; the query gives the hash of each entry.  Entries
#                                  that are still to come over from the stash of the bucket that was split count where they belong.
sub hash_model_sql
{
	return q{
CREATE FUNCTION spread(hash int) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
	h bigint := hash::bigint & 4294967295;
	factor bigint;
BEGIN
	h := h # (h >> 16);
	FOR i IN 1 .. 2 LOOP
		factor := CASE i WHEN 1 THEN 2246822507 ELSE 3266489909 END;
		-- The product's lower 32 bits; the whole of it does not fit into a bigint.
		h := (h * (factor & 65535) + (((h * (factor >> 16)) & 65535) << 16)) & 4294967295;
		h := h # (h >> CASE i WHEN 1 THEN 13 ELSE 16 END);
	END LOOP;
	RETURN h;
END $$;
-- The first n bits of a fraction of 32 bits, read backwards
CREATE FUNCTION backwards(fraction bigint, n int) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
	SELECT lpad(left(reverse(((fraction >> (32 - n)) & 4294967295)::bit(32)::text), n), 32, '0')::bit(32)::bigint $$;
CREATE FUNCTION bucket_of(h bigint, m bigint, n int, p0 bigint) RETURNS bigint IMMUTABLE LANGUAGE plpgsql AS $$
DECLARE
	x bigint := h * m;
	r bigint := x >> 32;
	bucket bigint := r + m * backwards(x & 4294967295, n);
BEGIN
	RETURN CASE WHEN bucket < p0 THEN r + m * backwards(x & 4294967295, n + 1) ELSE bucket END;
END $$;
CREATE FUNCTION moves(old bigint, new bigint, m bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$
	SELECT bit_count((new / m)::bit(64)) - bit_count((old / m)::bit(64)) $$;

CREATE FUNCTION flag(flags text[], name text) RETURNS numeric IMMUTABLE LANGUAGE sql AS $$
	SELECT substr(f, length(name) + 2)::numeric FROM unnest(flags) f WHERE starts_with(f, name || '=') $$;
CREATE FUNCTION space(i regclass, OUT m bigint, OUT n int, OUT p0 bigint, OUT b bigint, OUT per_bucket bigint, OUT entries bigint) LANGUAGE sql AS $$
	SELECT flag(f, 'M'), flag(f, 'N'), flag(f, 'P0'), flag(f, 'B'), floor(flag(f, 'K') * flag(f, 'b')), flag(f, 'entries') FROM (SELECT flags AS f FROM mtpower.page_info(i, 0)) x $$;
CREATE FUNCTION pages(i regclass, OUT blkno bigint, OUT bucket bigint, OUT source bigint, OUT type text, OUT items bigint) RETURNS SETOF record LANGUAGE sql AS $$
	WITH RECURSIVE p AS MATERIALIZED (
		SELECT b AS blkno, p.type, p.items, p."right", p.flags
		FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b, mtpower.page_info(i, b) p
		WHERE p.type IN ('bucket', 'stash')),
	-- Pages of a chain name the bucket in which it began; it is that of the page that leads there.
	head AS (SELECT p.*, flag(p.flags, 'bucket')::bigint AS bucket FROM p WHERE p.type = 'bucket' AND flag(p.flags, 'bucket') < (SELECT b FROM space(i))),
	chain(bucket, blkno) AS (
		SELECT bucket, "right" FROM head
		UNION ALL SELECT bucket, split_part(f, '@', 2)::bigint FROM head, unnest(flags) f WHERE f LIKE '%@%'
		UNION ALL SELECT c.bucket, p."right" FROM chain c JOIN p USING (blkno))
	SELECT blkno, bucket, flag(flags, 'source'), type, items FROM head
	UNION ALL SELECT blkno, c.bucket, NULL, type, items FROM chain c JOIN p USING (blkno) $$;
CREATE FUNCTION differs(i regclass, query text, OUT bucket bigint, OUT modelled numeric, OUT there numeric) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('
		WITH s AS (SELECT * FROM space(%1$L::regclass)),
			p AS MATERIALIZED (SELECT * FROM pages(%1$L::regclass)),
			-- A bucket whose entries are in part with another counts together with that one.
			late AS (SELECT p.bucket, q.bucket AS source FROM p JOIN p q ON q.blkno = p.source WHERE p.type = ''bucket''),
			-- bucket_of(), written out since there are many entries
			product AS (SELECT q.h * s.m AS x, s.* FROM (%2$s) q(h), s),
			parts AS MATERIALIZED (SELECT x >> 32 AS r, reverse((x & 4294967295)::bit(32)::text)::bit(32)::bigint AS bits, m, n, p0 FROM product),
			numbers AS MATERIALIZED (SELECT r + m * (bits & ((1::bigint << n) - 1)) AS bucket, r + m * (bits & ((2::bigint << n) - 1)) AS further, p0 FROM parts),
			model AS (SELECT CASE WHEN bucket < p0 THEN further ELSE bucket END AS bucket, count(*) AS n FROM numbers GROUP BY 1),
			actual AS (SELECT p.bucket, sum(p.items) AS n FROM p GROUP BY 1)
		SELECT bucket, sum(m), sum(a) FROM (
			SELECT coalesce(late.source, model.bucket) AS bucket, n AS m, 0 AS a FROM model LEFT JOIN late USING (bucket)
			UNION ALL SELECT coalesce(late.source, actual.bucket), 0, n FROM actual LEFT JOIN late USING (bucket)) x
		GROUP BY 1 HAVING sum(m) <> sum(a) ORDER BY 1', i, query);
END $$;
};
}

# The index's address space, from its metapage: { m, n, p0, b, per_bucket }
sub space_of
{
	my ($node, $index) = @_;
	my %space;
	@space{qw(m n p0 b per_bucket entries)} = split /\|/, $node->safe_psql('postgres', "SELECT * FROM space('$index')");
	return \%space;
}

# What is wrong with the buckets, and with the space itself; '' if nothing is.
sub differences
{
	my ($node, $index, $query) = @_;
	my $s = space_of($node, $index);
	my $size = $s->{m} << $s->{n};
	my @wrong;
	push @wrong, "B is $s->{b}, S + P0 is $size + $s->{p0}" if $s->{b} != $size + $s->{p0} || $s->{p0} >= $size;
	push @wrong, $node->safe_psql('postgres', "SELECT 'bucket ' || bucket || ': ' || modelled || ' in the model, ' || there || ' in the index' FROM differs('$index', \$q\$$query\$q\$) LIMIT 10");
	my $numbers = $node->safe_psql('postgres', "SELECT count(*), count(DISTINCT bucket), min(bucket), max(bucket) FROM pages('$index') WHERE type = 'bucket'");
	push @wrong, "buckets: $numbers" if $numbers ne "$s->{b}|$s->{b}|0|" . ($s->{b} - 1);
	return join("\n", grep { $_ ne '' } @wrong);
}

# Linear hashing's growth by so many buckets, as the paper has it, through any number of levels.
sub grow
{
	my ($s, $buckets) = @_;
	my %new = %$s;
	my $size = $new{m} << $new{n};
	$new{b} += $buckets;
	while ($buckets > 0)
	{
		my $now = $buckets < $size - $new{p0} ? $buckets : $size - $new{p0};
		$new{p0} += $now;
		$buckets -= $now;
		if ($new{p0} == $size)
		{
			$new{n}++;
			$size *= 2;
			$new{p0} = 0;
		}
	}
	return \%new;
}

1;
