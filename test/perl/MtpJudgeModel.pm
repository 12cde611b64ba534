# MtpJudgeModel: what the tables of the judge must contain.
#
# Each transaction of a client adds to judge.done what it does, as a part of itself; judge.done is an ordinary table with a btree.
# So whether a transaction happened can be asked, and what it did follows from that: a row's columns are functions of its operation's
# number "op", its number in there "seq", and how often it was changed: "gen" (with all its keys), "ver" (in no key, but in
# an index) and "cold" (in no index).  judge.state has for each operation, and its even and its odd rows, how often that was.
#
# judge.done is numbered in the order of the locks on each table, since a transaction takes its number after the lock: what has a lower number
# than TRUNCATE is gone.  All else that transactions do to a row commutes.
package MtpJudgeModel;

use strict;
use warnings;
use Digest::MD5 'md5_hex';

# Tables whose rows belong to the client that has added them; "counted" is everybody's.  The partitions of "parted" are parted_0, ...
our @TABLES = ('fed', 'kept', 'parted');
our $PARTITIONS = 120;

sub sql
{
	return q{
CREATE SCHEMA judge;
CREATE FUNCTION judge.k(op bigint, seq bigint, gen bigint) RETURNS int IMMUTABLE LANGUAGE sql AS $$
	SELECT (CASE WHEN op % 3 = 0 THEN op % 1000 * 1000 + seq + gen WHEN op % 7 = 1 AND seq % 3 = 0 THEN 7 ELSE (op * 7919 + seq * 104729 + gen * 611953) % 1000003 END)::int $$;
CREATE FUNCTION judge.txt(op bigint, seq bigint, gen bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT repeat(md5(op || ':' || seq || ':' || gen), 1 + (seq % 3)::int) $$;
CREATE FUNCTION judge.ts(seq bigint, gen bigint) RETURNS timestamptz IMMUTABLE LANGUAGE sql AS $$
	SELECT '2020-01-01 00:00:00+00'::timestamptz + make_interval(secs => (seq + gen) % 3600) $$;
CREATE FUNCTION judge.note(seq bigint, gen bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT CASE WHEN seq % 5 > 0 THEN 'Note ' || (seq + gen) % 100 END $$;
-- Of 2.5 kB that nothing compresses, so that three fill a page of any level; those of an operation lie together.
CREATE FUNCTION judge.wide(op bigint, seq bigint, gen bigint) RETURNS text IMMUTABLE LANGUAGE sql AS $$
	SELECT to_char(op, 'FM000000000000') || to_char(seq, 'FM00000000') || string_agg(md5(gen || ':' || g), '') FROM generate_series(1, 77) g $$;

CREATE SEQUENCE judge.num;
CREATE TABLE judge.done (num bigint DEFAULT nextval('judge.num'), txn bigint, tab text, what text, op bigint, part int, n int) USING heap;
CREATE INDEX ON judge.done (txn);
CREATE TABLE judge.state (tab text, op bigint, part int, n int, gen int DEFAULT 0, ver int DEFAULT 0, cold int DEFAULT 0, PRIMARY KEY (tab, op, part)) USING heap;
CREATE TABLE judge.hits (id bigint PRIMARY KEY, hits int) USING heap;

-- Puts what was done into the state.
CREATE FUNCTION judge.advance() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	DELETE FROM judge.state s USING judge.done d WHERE d.what = 'truncate' AND d.tab = s.tab;
	IF EXISTS (SELECT FROM judge.done WHERE what = 'truncate' AND tab = 'counted') THEN TRUNCATE judge.hits; END IF;
	DELETE FROM judge.done d USING judge.done t WHERE t.what = 'truncate' AND t.tab = d.tab AND d.num < t.num;
	INSERT INTO judge.state (tab, op, part, n) SELECT tab, op, part.part, n FROM judge.done, generate_series(0, 1) part WHERE what = 'add';
	UPDATE judge.state s SET gen = s.gen + d.gen, ver = s.ver + d.ver, cold = s.cold + d.cold
		FROM (SELECT tab, op, p, count(*) FILTER (WHERE what = 'gen') AS gen, count(*) FILTER (WHERE what = 'ver') AS ver, count(*) FILTER (WHERE what = 'cold') AS cold
			FROM judge.done, generate_series(0, 1) p WHERE coalesce(part, p) = p GROUP BY 1, 2, 3) d
		WHERE (s.tab, s.op, s.part) = (d.tab, d.op, d.p);
	DELETE FROM judge.state s USING judge.done d WHERE d.what = 'delete' AND (s.tab, s.op) = (d.tab, d.op) AND s.part = coalesce(d.part, s.part);
	INSERT INTO judge.hits AS h SELECT id, count(*) FROM judge.done, generate_series(op, op + n - 1) id WHERE what = 'hit' GROUP BY id
		ON CONFLICT (id) DO UPDATE SET hits = h.hits + excluded.hits;
	TRUNCATE judge.done;
END $$;

-- Rows that are missing, and rows that should not be there, by sequential scans
CREATE FUNCTION judge.wrong_rows() RETURNS SETOF text LANGUAGE plpgsql SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off AS $$
DECLARE
	t text;
	want text := $q$SELECT op, seq, gen, ver, cold, judge.k(op, seq, gen) AS k, judge.txt(op, seq, gen) AS txt, judge.ts(seq, gen) AS ts, judge.note(seq, gen) AS note
		FROM judge.state, generate_series(2 - part, n, 2) seq WHERE tab = %L$q$;
	have text := 'SELECT op, seq, gen, ver, cold, k::int, txt::text, ts, note FROM %I';
	hits text := 'SELECT id, hits, judge.k(id, 1, hits), judge.txt(id, 1, hits) FROM judge.hits';
	counted text := 'SELECT id, hits, k, txt FROM counted';
BEGIN
	FOREACH t IN ARRAY '{fed,kept,parted}'::text[] LOOP
		RETURN QUERY EXECUTE format('SELECT %2$L || x FROM ((%1$s) EXCEPT ALL (%3$s)) x LIMIT 3', format(want, t), t || ' misses ', format(have, t));
		RETURN QUERY EXECUTE format('SELECT %2$L || x FROM ((%3$s) EXCEPT ALL (%1$s)) x LIMIT 3', format(want, t), t || ' should not have ', format(have, t));
		IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = t::regclass AND attname = 'extra') THEN
			RETURN QUERY EXECUTE format('SELECT %L || op || '','' || seq FROM %I WHERE extra IS DISTINCT FROM 7 LIMIT 3', t || ' lacks the default in ', t);
		END IF;
	END LOOP;
	RETURN QUERY EXECUTE format('SELECT ''counted misses '' || x FROM ((%s) EXCEPT ALL (%s)) x LIMIT 3', hits, counted);
	RETURN QUERY EXECUTE format('SELECT ''counted should not have '' || x FROM ((%s) EXCEPT ALL (%s)) x LIMIT 3', counted, hits);
END $$;

CREATE TABLE counted (id bigint PRIMARY KEY, hits int, k int, txt text) USING mtpower;
CREATE INDEX counted_k ON counted USING mtpower_blink (k) INCLUDE (hits);
CREATE INDEX counted_hits ON counted USING mtpower_blink (hits DESC, id);
CREATE INDEX counted_htxt ON counted USING mtpower_hash (txt);
CREATE INDEX counted_hhits ON counted USING mtpower_hash (hits);
CREATE UNLOGGED TABLE scratch (a int, b text) USING mtpower;
CREATE INDEX scratch_b ON scratch USING mtpower_blink (b, a);
CREATE INDEX scratch_ha ON scratch USING mtpower_hash (a);
CREATE TABLESPACE elsewhere LOCATION '';
} . join('', map { table_sql($_) } 'fed', 'kept') . parted_sql();
}

# Rows move between the partitions when their keys change.
sub parted_sql
{
	return q{
CREATE TABLE parted (op bigint, seq int, gen int, ver int, cold int, k int, txt text, ts timestamptz, note text) PARTITION BY HASH (k);
CREATE INDEX parted_k ON parted USING mtpower_blink (k, ver);
CREATE INDEX parted_txt ON parted USING mtpower_hash (txt);
} . join('', map { "CREATE TABLE parted_$_ PARTITION OF parted FOR VALUES WITH (MODULUS $PARTITIONS, REMAINDER $_) USING mtpower;\n" } 0 .. $PARTITIONS - 1);
}

# Their indexes, B-link, hash and zone, and btrees: one of them unique, one that may become a B-link.
sub table_sql
{
	my ($table) = @_;
	my $using = $table eq 'fed' ? 'mtpower' : 'heap';
	return qq{
CREATE TABLE $table (op bigint, seq int, gen int, ver int, cold int, k int, txt text, ts timestamptz, note text) USING $using;
CREATE INDEX ${table}_op ON $table USING mtpower_blink (op, seq);
CREATE INDEX ${table}_k ON $table USING mtpower_blink (k);
CREATE INDEX ${table}_txt ON $table USING mtpower_blink (txt COLLATE "C" DESC) INCLUDE (ver);
CREATE INDEX ${table}_ts ON $table USING mtpower_blink (ts, lower(note)) WHERE k % 4 > 0;
CREATE INDEX ${table}_wide ON $table USING mtpower_blink (judge.wide(op, seq, gen) COLLATE "C") WHERE seq % 16 = 3;
CREATE INDEX ${table}_b ON $table USING btree (seq, k);
CREATE INDEX ${table}_n ON $table USING btree (note);
CREATE UNIQUE INDEX ${table}_u ON $table USING btree (op, seq DESC) INCLUDE (gen);
CREATE INDEX ${table}_hk ON $table USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 20);
CREATE INDEX ${table}_htxt ON $table USING mtpower_hash (txt, op);
CREATE INDEX ${table}_hnote ON $table USING mtpower_hash (note, seq) WHERE op % 2 = 0;
CREATE INDEX ${table}_z ON $table USING mtpower_zone (op, seq, ver);
CREATE INDEX ${table}_zts ON $table USING mtpower_zone (ts, (op % 100)) WHERE k % 3 > 0;
};
}

# Rows 1 .. n of a new operation, as COPY has them
sub rows
{
	my ($op, $n) = @_;
	return join('', map {
		my $k = $op % 3 == 0 ? $op % 1000 * 1000 + $_ : $op % 7 == 1 && $_ % 3 == 0 ? 7 : ($op * 7919 + $_ * 104729) % 1000003;
		join("\t", $op, $_, 0, 0, 0, $k, md5_hex("$op:$_:0") x (1 + $_ % 3), sprintf('2020-01-01 00:%02d:%02d+00', int($_ / 60) % 60, $_ % 60),
			$_ % 5 ? 'Note ' . $_ % 100 : '\N') . "\n"
	} 1 .. $n);
}

our $COLUMNS = 'op, seq, gen, ver, cold, k, txt, ts, note';

# The same by SQL, for rows "g" of an operation
sub new_row { my ($op) = @_; return "$op, g, 0, 0, 0, judge.k($op, g, 0), judge.txt($op, g, 0), judge.ts(g, 0), judge.note(g, 0)"; }

# What an update of the kind "gen", "ver" or "cold" sets
sub changed
{
	my ($what) = @_;
	return "$what = $what + 1" if $what ne 'gen';
	return 'gen = gen + 1, k = judge.k(op, seq, gen + 1), txt = judge.txt(op, seq, gen + 1), ts = judge.ts(seq, gen + 1), note = judge.note(seq, gen + 1)';
}

# The part of a transaction that says what it does: effects are [ table, what, op, part, n ].
sub record
{
	my ($txn, @effects) = @_;
	return '' if !@effects;
	return 'INSERT INTO judge.done (txn, tab, what, op, part, n) VALUES '
	  . join(', ', map { sprintf("(%s, '%s', '%s', %s, %s, %s)", $txn, $_->[0], $_->[1], $_->[2] // 0, $_->[3] // 'NULL', $_->[4] // 0) } @effects) . ";\n";
}

1;
