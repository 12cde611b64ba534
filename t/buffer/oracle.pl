# The oracle of the buffer: what is read in frames is what the table itself says, in each
# snapshot, while pages change, split and go, files come and go, and frames pass from page to
# page. The buffer has 4 MB, far less than there are pages.
#
# Within one snapshot, sequential scans, index and bitmap scans with frames and without, directory
# scans, and cursors that turn give the same rows. A row says which table it is of and carries a
# checksum. Amounts move between rows whose keys change: the sum over all ranges of keys stays.
# Versions of rows, a part of the key, only grow and are published behind the commit: a later
# reader finds that version.
#
# It takes 25 seconds, or MINUTES, or ROUNDS of ten seconds, and runs again if the machine was too
# slow for enough to happen; SEED, CLIENTS (8). With an odd seed the buffer has a pool file on
# tmpfs. In every other pair of seeds, or with DELAYS=1, each step of the protocols of frames and
# hazard pointers lasts for a random time, on servers with assertions.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFrames;
use MtpPmem;
use MtpLoad qw(start_pgbench finish_pgbench is_sound log_is_clean);

my $seed = $ENV{SEED} || int(time);
my $seconds = $ENV{MINUTES} ? 60 * $ENV{MINUTES} : $ENV{ROUNDS} ? 10 * $ENV{ROUNDS} : 25;
my $clients = $ENV{CLIENTS} || 8;
diag("seed $seed");

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 4MB
mtpower.batch_min_rows = 100
mtpower.workers = 2
max_connections = 60
autovacuum = off
fsync = off
jit = off
max_parallel_workers_per_gather = 0
deadlock_timeout = 100ms
statement_timeout = 100s
});
my $home = $seed % 2 && have_libpmem() ? home_dir(1) : undef;
$node->append_conf('postgresql.conf', "mtpower.pmem_path = '$home/frames'") if $home;
diag("frames in $home") if $home;
$node->start;
my $delays = ($ENV{DELAYS} // $seed % 4 > 1) && $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
if ($delays)
{
	diag('with delays');
	$node->safe_psql('postgres', $_) foreach q{ALTER SYSTEM SET mtpower.debug_injection = 'frame_*=delay'}, 'SELECT pg_reload_conf()';
}

$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . frames_sql() . q{
-- c1 … c4: rows of key k that say whose they are.  churn fills them with a generation's rows, by the batch engine.
CREATE FUNCTION row_sum(tab int, k int, t text, g int) RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT hashtext(tab || ' ' || k || ' ' || t || ' ' || g) $$;
CREATE FUNCTION churn_make(n int, g int, rows int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE c%1$s (tab int, k int, t text COLLATE "C", g int, s int, n numeric GENERATED ALWAYS AS (k / 8.0) STORED) USING mtpower;
		SELECT mtpower.set_directory(''c%1$s'', ''n'', ''k'', ''t'', ''g'');
		CREATE INDEX h_c%1$s ON c%1$s USING mtpower_hash (k);
		CREATE INDEX k_c%1$s ON c%1$s USING mtpower_blink (k);
		CREATE INDEX t_c%1$s ON c%1$s USING mtpower_blink (t);
		CREATE INDEX gk_c%1$s ON c%1$s USING mtpower_blink (g DESC, k)', n);
	PERFORM churn_fill(n, g, rows);
END $$;
CREATE FUNCTION churn_fill(n int, gen int, rows int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO c%1$s SELECT %1$s, k, md5(k::text), %2$s, row_sum(%1$s, k, md5(k::text), %2$s)
		FROM (SELECT (random() * 20000)::int AS k FROM generate_series(1, %3$s)) r', n, gen, rows);
END $$;
SELECT churn_make(n, 0, 6000) FROM generate_series(1, 4) n;

-- A big table of its own, whose pages drive others out
CREATE TABLE big (k int, t text COLLATE "C", v int) USING mtpower;
CREATE INDEX big_k ON big USING mtpower_blink (k);
CREATE INDEX big_t ON big USING mtpower_blink (t);
INSERT INTO big SELECT g, md5(g::text), g FROM generate_series(1, 100000) g;
VACUUM big;

-- 1,000 a row at first
CREATE TABLE bank (id int PRIMARY KEY, slot int, t text COLLATE "C", amount bigint, pad text DEFAULT repeat('x', 40)) USING mtpower;
CREATE INDEX bank_slot ON bank USING mtpower_blink (slot);
CREATE INDEX bank_t ON bank USING mtpower_blink (t, id);
INSERT INTO bank SELECT g, hashint4(g) & 65535, md5(g::text), 1000 FROM generate_series(1, 4000) g;

-- Versions; rows of other keys lie between them in the index.
CREATE TABLE ver (k int, v bigint, pad text DEFAULT repeat('y', 30)) USING mtpower;
CREATE INDEX ver_kv ON ver USING mtpower_blink (k, v);
INSERT INTO ver SELECT g, 0 FROM generate_series(1, 6000) g;
DO $$ BEGIN FOR i IN 1 .. 20 LOOP EXECUTE 'CREATE SEQUENCE pub' || i || ' MINVALUE 0'; END LOOP; END $$;

-- Rows in order, forward and backward, by a cursor that stops and turns round at random; and the rows themselves
CREATE FUNCTION check_cursor(n int, lo int, hi int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE c refcursor; want int[]; got int[]; r record; i int; back bool;
BEGIN
	PERFORM scans('seq');
	EXECUTE format('SELECT coalesce(array_agg(k ORDER BY k), ''{}'') FROM c%s WHERE k BETWEEN %s AND %s', n, lo, hi) INTO want;
	PERFORM scans('frames');
	OPEN c SCROLL FOR EXECUTE format('SELECT k, s FROM c%s WHERE k BETWEEN %s AND %s ORDER BY k', n, lo, hi);
	i := 0;
	FOR turn IN 1 .. 5 LOOP
		back := turn % 2 = 0;
		FOR step IN 1 .. CASE turn WHEN 5 THEN 1000000 ELSE 1 + (random() * 700)::int END LOOP
			IF back THEN FETCH BACKWARD FROM c INTO r; ELSE FETCH c INTO r; END IF;
			IF NOT FOUND THEN
				i := CASE WHEN back THEN 0 ELSE cardinality(want) + 1 END;
				EXIT;
			END IF;
			i := i + CASE WHEN back THEN -1 ELSE 1 END;
			IF i < 1 OR i > cardinality(want) OR want[i] <> r.k THEN
				RAISE 'cursor on c%, % to %: row % is % instead of %, turn %', n, lo, hi, i, r.k, want[i], turn;
			END IF;
		END LOOP;
	END LOOP;
	CLOSE c;
	IF i <> cardinality(want) + 1 THEN RAISE 'cursor on c%, % to %: ended at % of %', n, lo, hi, i, cardinality(want); END IF;
END $$;

CREATE FUNCTION check_query(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE bad text := disagree(query);
BEGIN
	IF bad <> '' THEN RAISE '%: %', query, bad; END IF;
END $$;
CREATE FUNCTION check_keys(query text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE bad text := disagree_keys(query);
BEGIN
	IF bad <> '' THEN RAISE '%: %', query, bad; END IF;
END $$;

-- Rows that are another table's, or damaged, or not those that were asked for
CREATE FUNCTION check_rows(n int, lo int, hi int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE bad bigint;
BEGIN
	FOR i IN 1 .. 2 LOOP
		PERFORM scans(CASE i WHEN 1 THEN 'frames' ELSE 'frames_bitmap' END);
		EXECUTE format('SELECT count(*) FILTER (WHERE tab <> %1$s OR s <> row_sum(tab, k, t, g) OR k NOT BETWEEN %2$s AND %3$s)
			FROM (SELECT * FROM c%1$s WHERE k BETWEEN %2$s AND %3$s OFFSET 0) q', n, lo, hi) INTO bad;
		IF bad > 0 THEN RAISE '% rows of c% are not of it', bad, n; END IF;
	END LOOP;
END $$;

-- Adjacent ranges, each by a scan of its own: nothing is counted twice, or missed.
CREATE FUNCTION check_bank(parts int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE total bigint; n bigint; by_t bigint; ids bigint;
BEGIN
	PERFORM scans(CASE parts % 3 WHEN 0 THEN 'frames_bitmap' ELSE 'frames' END);
	SELECT sum(r.amount), sum(r.n), sum(r.ids) INTO total, n, ids FROM generate_series(0, parts - 1) p,
		LATERAL (SELECT sum(amount) AS amount, count(*) AS n, sum(id) AS ids FROM bank
			WHERE slot >= 65536 / parts * p AND slot < CASE WHEN p = parts - 1 THEN 70000 ELSE 65536 / parts * (p + 1) END) r;
	IF total <> 4000000 OR n <> 4000 OR ids <> 8002000 THEN RAISE 'sum of slots in % parts: % of % rows, ids %', parts, total, n, ids; END IF;
	SELECT sum(amount) INTO by_t FROM (SELECT amount FROM bank WHERE t < '5' UNION ALL SELECT amount FROM bank WHERE t >= '5' AND t < 'c' UNION ALL
		SELECT amount FROM bank WHERE t >= 'c') q;
	IF by_t <> 4000000 THEN RAISE 'sum by t: %', by_t; END IF;
END $$;

CREATE FUNCTION check_version(key int, low bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n bigint; most bigint; later bigint;
BEGIN
	PERFORM scans('frames');
	SELECT count(*), max(v) INTO n, most FROM (SELECT v, pad FROM ver WHERE k = key OFFSET 0) q;
	IF n <> 1 OR most < low THEN RAISE 'row % has % versions, % at the most; % was published', key, n, most, low; END IF;
	SELECT count(pad) INTO later FROM ver WHERE k = key AND v >= low;
	IF later <> 1 THEN RAISE 'row % from version % on: %', key, low, later; END IF;
END $$;
});

my $range = "\\set n random(1, 4)\n\\set lo random(-100, 20100)\n\\set hi :lo + random(0, 6000)\n";
my @scripts = (
	# Readers
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE k BETWEEN :lo AND :hi')} => 12,
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE k > :hi')} => 4,
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE t >= md5('':lo'') ORDER BY t DESC, k, g, s LIMIT 300')} => 4,
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE t BETWEEN ''5'' AND ''a''')} => 4,
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE g = :hi % 5 AND k > :lo')} => 5,
	$range . q{SELECT check_query('SELECT * FROM c:n WHERE n BETWEEN :lo / 8.0 AND :hi / 8.0 AND g = :hi % 5')} => 5,
	$range . q{SELECT check_query('SELECT c.* FROM generate_series(:lo, :hi, 50) i JOIN c:n c ON c.k = i')} => 8,
	$range . q{SELECT check_query('SELECT c.* FROM generate_series(:lo, :hi, 70) i JOIN c:n c ON c.t = md5(i::text)')} => 6,
	$range . q{SELECT check_keys('SELECT k FROM c:n WHERE k BETWEEN :lo AND :hi')} => 6,
	$range . q{SELECT check_keys('SELECT g, k FROM c:n WHERE g = :hi % 5 AND k > :lo ORDER BY g DESC, k LIMIT 500')} => 4,
	$range . q{SELECT check_keys('SELECT c.k FROM generate_series(:lo, :hi, 50) i JOIN c:n c ON c.k = i')} => 6,
	$range . q{SELECT check_rows(:n, :lo, :hi)} => 6,
	$range . q{SELECT check_cursor(:n, :lo, :hi)} => 6,
	"\\set p random(1, 40)\nSELECT check_bank(:p)" => 20,
	"\\set i random(1, 20)\n" . q{SELECT last_value AS low FROM pub:i \gset
SELECT check_version(:i * 290, :low)} => 60,
	"\\set k random(1, 100000)\n" . q{SELECT check_query('SELECT b.* FROM generate_series(:k, :k + 20000, 2000) i JOIN big b ON b.k = i')} => 4,
	"\\set k random(1, 100000)\nSET enable_seqscan = off;\nSET enable_hashjoin = off;\n" . q{SELECT count(b.v) FROM generate_series(:k, :k + 60000, 300) i JOIN big b ON b.t = md5(i::text)} => 30,
	# Writers of the bank: two rows exchange places, or go elsewhere, and an amount goes from one to the other.
	"\\set a random(1, 3999)\n\\set b random(:a + 1, 4000)\n\\set m random(1, 50)\n\\set s random(0, 65535)\n" . q{BEGIN;
UPDATE bank SET amount = amount - :m, slot = :s, t = md5(:s::text) WHERE id = :a;
UPDATE bank SET amount = amount + :m, slot = 65535 - :s, t = md5(:m::text) WHERE id = :b;
COMMIT} => 60,
	"\\set lo random(0, 65000)\n\\set d random(1, 20000)\n" . q{UPDATE bank SET slot = (slot + :d) & 65535, t = md5(slot::text) WHERE slot BETWEEN :lo AND :lo + 2000} => 4,
	# Versions: committed, then published.
	"\\set i random(1, 20)\n" . q{SELECT pg_advisory_lock(1000 + :i);
UPDATE ver SET v = v + 1 WHERE k = :i * 290 RETURNING v \gset
SELECT setval('pub:i', :v);
SELECT pg_advisory_unlock(1000 + :i)} => 80,
	"\\set lo random(1, 5900)\nUPDATE ver SET v = v + 1 WHERE k BETWEEN :lo AND :lo + 40 AND k % 290 <> 0" => 6,
	# What changes c1 … c4
	$range . "SELECT churn_fill(:n, :hi % 5, 200)" => 12,
	$range . "SELECT churn_fill(:n, :hi % 5, 20)" => 20,
	$range . "DELETE FROM c:n WHERE k BETWEEN :lo AND :lo + 2500" => 6,
	$range . "UPDATE c:n SET g = :hi % 5, s = row_sum(tab, k, t, :hi % 5) WHERE k BETWEEN :lo AND :lo + 100" => 6,
	$range . "BEGIN;\nSELECT churn_fill(:n, 1, 500);\nROLLBACK" => 3,
	$range . "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) c:n" => 8,
	$range . "BEGIN;\nLOCK c:n;\nSELECT mtpower.release('c:n');\nDELETE FROM c:n WHERE k BETWEEN :lo AND :lo + 500;\nSELECT mtpower.adopt('c:n');\nCOMMIT" => 2,
	"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) bank" => 4,
	"VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) ver" => 4,
	"REINDEX INDEX bank_slot" => 1,
	$range . "REINDEX TABLE c:n" => 2,
	$range . "BEGIN;\nTRUNCATE c:n;\nSELECT churn_fill(:n, 3, 3000);\nCOMMIT" => 2,
	$range . "BEGIN;\nTRUNCATE c:n;\nSELECT churn_fill(:n, 4, 500);\nROLLBACK" => 1,
	$range . "BEGIN;\nDROP TABLE c:n;\nSELECT churn_make(:n, :hi % 5, 4000);\nCOMMIT" => 2,
	$range . "BEGIN;\nDROP INDEX k_c:n;\nCREATE INDEX k_c:n ON c:n USING mtpower_blink (k);\nROLLBACK" => 1);
my $is_script = 0;
@scripts = map { $is_script = !$is_script; $is_script ? "$_;\n" : $_ } @scripts;

# What must have happened, so that the answers say something, and how often at least: more evictions than ten times the frames, for one.
my @enough = (
	[ 'directory', 'staled', 50, 'directories were stale' ],
	[ 'directory', 'hits', 30, 'directories were asked' ],
	[ 'table', 'evicted', 640, 'images went from pair to pair' ],
	[ 'table', 'staled', 50, 'images were stale' ],
	[ 'table', 'hits', 2000, 'images were read' ],
	[ 'index', 'evicted', 5120, 'frames went from page to page' ],
	[ 'index', 'staled', 500, 'frames were stale' ],
	[ 'index', 'purged', 10, 'files went' ],
	[ 'index', 'hits', 10000, 'frames were read' ]);
sub happened { my ($of) = @_; return $node->safe_psql('postgres', "SELECT $of->[1] FROM mtpower.stat_buffer WHERE kind = '$of->[0]'"); }

my $again = 0;
do
{
	my $run = start_pgbench($node, $seconds, $clients, '--random-seed' => $seed + $again, @scripts);
	finish_pgbench($run, 'beside each other', 1);
	note(join(', ', map { "$_->[0] $_->[1] " . happened($_) } @enough));
	$seconds = 25;
} while (++$again < 8 && Test::More->builder->is_passing && grep { happened($_) < $_->[2] } @enough);
cmp_ok(happened($_), '>=', $_->[2], $_->[3]) foreach @enough;

# Closer together: the bank alone, while slabs go to and fro between its pages and the big table's
my @bank = map { @scripts[ 2 * $_, 2 * $_ + 1 ] } grep { $scripts[ 2 * $_ ] =~ /bank|big/ } 0 .. $#scripts / 2;
finish_pgbench(start_pgbench($node, $ENV{MINUTES} ? $seconds : 15, $clients + 4, '--random-seed' => $seed, @bank), 'the bank alone', 1);
is($node->safe_psql('postgres', 'SELECT orphans()'), '0', 'no frames of files that have gone');
is_sound($node, 'in the end');
log_is_clean($node);
$node->stop;
done_testing();
