# Unique indexes in batches meet random conflicts. One session goes through random statements on
# a table of mtpower and on a heap table; both must end the same way and have the same rows. Then
# sessions load overlapping keys at once, and roll back or commit: whatever wins, no key is there
# twice, none is lost, and each error is a conflict or a deadlock.
#
# CASES of one session (1,000), ROUNDS of several (12), SEED; it prints the seed.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{SEED} || int(rand(1_000_000));
my $cases = $ENV{CASES} || 1000;
my $rounds = $ENV{ROUNDS} || 12;
srand($seed);
note("seed $seed");

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 2
mtpower.batch_size = '64kB'
autovacuum = off
deadlock_timeout = '50ms'
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE SCHEMA ours;
CREATE SCHEMA heaps;
CREATE TABLE ours.t (id int PRIMARY KEY, a int UNIQUE, b text, c int, n int) USING mtpower;
CREATE TABLE heaps.t (LIKE ours.t INCLUDING ALL) USING heap;
CREATE UNIQUE INDEX t_b_c ON ours.t (b, c DESC) INCLUDE (n);
CREATE UNIQUE INDEX t_b_c ON heaps.t (b, c DESC) INCLUDE (n);
CREATE UNIQUE INDEX t_e ON ours.t ((n % 1000)) WHERE n > 1000;
CREATE UNIQUE INDEX t_e ON heaps.t ((n % 1000)) WHERE n > 1000;
CREATE INDEX t_n ON ours.t (n);
CREATE INDEX t_n ON heaps.t (n);
CREATE TABLE source (place serial, id int, a int, b text, c int, n int) USING heap;

-- Random rows, most of which conflict with nothing.
CREATE FUNCTION make_rows(count int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	start int := random() * 100000;
	spoilt int := CASE WHEN random() < 0.5 THEN 0 WHEN random() < 0.7 THEN 1 ELSE 3 END;
	stranger ours.t;
	victim int;
BEGIN
	TRUNCATE source RESTART IDENTITY;
	INSERT INTO source (id, a, b, c, n)
		SELECT start + i, CASE WHEN random() < 0.8 THEN -start - i END, CASE WHEN random() < 0.9 THEN md5((i / 3)::text || start) END, i % 3,
			CASE WHEN random() < 0.5 THEN start % 700 END
		FROM generate_series(1, count) i WHERE NOT EXISTS (SELECT FROM heaps.t WHERE id = start + i) ORDER BY random();
	FOR i IN 1 .. spoilt LOOP
		SELECT * INTO stranger FROM heaps.t OFFSET floor(random() * (SELECT count(*) FROM heaps.t)) LIMIT 1;
		IF stranger.id IS NULL OR random() < 0.4 THEN
			SELECT id, a, b, c, n INTO stranger FROM source ORDER BY random() LIMIT 1;
		END IF;
		victim := (SELECT place FROM source ORDER BY random() LIMIT 1);
		CASE floor(random() * 4)
			WHEN 0 THEN UPDATE source SET id = stranger.id WHERE place = victim;
			WHEN 1 THEN UPDATE source SET a = stranger.a WHERE place = victim;
			WHEN 2 THEN UPDATE source SET b = stranger.b, c = stranger.c WHERE place = victim;
			ELSE UPDATE source SET n = 1001 + floor(random() * 3) WHERE place = victim;
		END CASE;
	END LOOP;
END $$;
-- Called for each row: now and then it does something of its own, with a handler.
CREATE FUNCTION meddle(place int, at int, what int) RETURNS int LANGUAGE plpgsql VOLATILE AS $$
DECLARE other int;
BEGIN
	IF place <> at THEN RETURN NULL; END IF;
	BEGIN
		CASE what
			WHEN 0 THEN INSERT INTO t (id) SELECT id FROM source s WHERE s.place = at - 1;
			WHEN 1 THEN INSERT INTO t (id) SELECT id FROM source s WHERE s.place = at + 1;
			WHEN 2 THEN INSERT INTO t (id, a) SELECT 1000000 + s.id, a FROM source s;
			WHEN 3 THEN DELETE FROM t WHERE id = (SELECT id FROM source s WHERE s.place = at - 1);
			WHEN 4 THEN UPDATE t SET a = NULL WHERE id = (SELECT id FROM source s WHERE s.place = at - 2);
			WHEN 5 THEN PERFORM count(*) FROM t WHERE id > 0;
			WHEN 6 THEN INSERT INTO t (id) SELECT 2000000 + s.id FROM source s; RAISE EXCEPTION 'undone';
			ELSE INSERT INTO t (id) SELECT id FROM source s ON CONFLICT DO NOTHING;
		END CASE;
	EXCEPTION WHEN unique_violation OR raise_exception THEN
		INSERT INTO t (id) VALUES (3000000 + at) ON CONFLICT DO NOTHING;
	END;
	RETURN NULL;
END $$;
CREATE FUNCTION outcome(schema text, cmd text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE n bigint; message text; detail text;
BEGIN
	PERFORM set_config('search_path', schema || ', public', true);
	EXECUTE cmd;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n || ' rows';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || message || ' ' || detail;
END $$;
CREATE FUNCTION contents(schema text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM %I.t', schema) INTO r;
	RETURN r;
END $$;
CREATE FUNCTION check_all() RETURNS void LANGUAGE plpgsql AS $$
DECLARE i regclass;
BEGIN
	FOR i IN SELECT indexrelid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE relam = 403 AND indrelid::regclass::text ~ 't$|pair' LOOP
		PERFORM bt_index_parent_check(i, true, true);
	END LOOP;
END $$;
-- Goes on until the first case that ends in two ways; NULL if there is none, else what it was.
CREATE FUNCTION play(count int) RETURNS text LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
	cmd text;
	results text[];
	rows int;
	errors int := 0;
BEGIN
	FOR k IN 1 .. count LOOP
		PERFORM set_config('mtpower.batch_min_rows', floor(random() * 4)::text, true);
		rows := 1 + floor(random() * CASE WHEN random() < 0.2 THEN 1500 ELSE 60 END);
		PERFORM make_rows(rows);
		CASE floor(random() * 13)
			WHEN 10 THEN cmd := 'INSERT INTO t SELECT id, a, b, c, n FROM source ORDER BY place ON CONFLICT DO NOTHING';
			WHEN 11 THEN cmd := 'INSERT INTO t SELECT id, a, b, c, n FROM source ORDER BY place ON CONFLICT (id) DO NOTHING';
			WHEN 12 THEN cmd := 'INSERT INTO t SELECT id, a, b, c, n FROM source ORDER BY place ON CONFLICT (id) DO UPDATE SET a = NULL, n = excluded.n';
			WHEN 0 THEN cmd := format('DELETE FROM t WHERE id %% 7 = %s', floor(random() * 7));
			WHEN 1 THEN cmd := format('UPDATE t SET a = 7 WHERE id %% 211 = %s', floor(random() * 211));
			WHEN 2 THEN cmd := 'UPDATE t SET n = CASE WHEN n < 999 THEN n + 1 ELSE n END, b = b || ''x'' WHERE id % 3 = 0';
			WHEN 3 THEN cmd := 'DELETE FROM t WHERE id IN (SELECT id FROM source); INSERT INTO t SELECT id, a, b, c, n FROM source ORDER BY place';
			WHEN 4, 5, 6 THEN cmd := format('INSERT INTO t SELECT id, a, b, c, coalesce(n, meddle(place, %s, %s)) FROM source ORDER BY place',
				1 + floor(random() * rows), floor(random() * 8));
			ELSE cmd := 'INSERT INTO t SELECT id, a, b, c, n FROM source ORDER BY place';
		END CASE;
		results := ARRAY[outcome('heaps', cmd), outcome('ours', cmd)];
		errors := errors + (results[1] !~ 'rows$')::int;
		-- Which one of several conflicts is reported is open.
		results := ARRAY[regexp_replace(results[1], '^(2....) .*', '\1'), regexp_replace(results[2], '^(2....) .*', '\1')];
		IF results[1] <> results[2] OR contents('heaps') <> contents('ours') THEN
			RETURN format('case %s, %s rows, %s: heap: %s (%s), mtpower: %s (%s)', k, rows, cmd, results[1], contents('heaps'), results[2], contents('ours'));
		END IF;
		IF k % 25 = 0 THEN PERFORM check_all(); END IF;
		IF (SELECT count(*) FROM heaps.t) > 1500 THEN
			DELETE FROM heaps.t WHERE id % 3 > 0;
			DELETE FROM ours.t WHERE id % 3 > 0;
		END IF;
	END LOOP;
	RAISE NOTICE '% cases ended with an error', errors;
	RETURN NULL;
END $$;
});

my $errors = 0;

# One session; 25 cases are a transaction.
for (my $done = 0; $done < $cases; $done += 25)
{
	my ($out, $err);
	$node->psql('postgres', sprintf('SELECT setseed(%s); SELECT play(25); VACUUM ours.t, heaps.t', rand), stdout => \$out, stderr => \$err);
	my ($found) = grep { /\S/ } split(/\n/, $out);
	if ($found || $err =~ /ERROR/)
	{
		fail("cases $done to " . ($done + 25) . ", seed $seed");
		diag($found // '', $err);
		last;
	}
	$errors += $1 if $err =~ /(\d+) cases ended/;
	pass("cases $done to " . ($done + 25));
}
cmp_ok($errors, '>', $cases / 20, "$errors cases ended with an error");
my $queued = $node->safe_psql('postgres', q{SELECT sum(entries) FROM mtpower.stat_batches s JOIN pg_index i ON i.indexrelid = s.indexid WHERE indisunique});
cmp_ok($queued, '>', 10 * $cases, "entries of unique indexes were queued: $queued");

# Several sessions: each loads ranges of keys that overlap with those of the others, in one transaction or two.
$node->safe_psql('postgres', q{CREATE TABLE pair (id int PRIMARY KEY, other int UNIQUE, who int, part int) USING mtpower; CREATE INDEX pair_who ON pair (who, id)});
my ($won, $conflicts, $deadlocks) = (0, 0, 0);
foreach my $round (1 .. $rounds)
{
	my (@runs, @outcomes);
	foreach my $who (1 .. 2 + int(rand(2)))
	{
		my @parts = map { { from => 1 + 500 * int(rand(6)), n => 300 + int(rand(900)), back => rand() < 0.3, swallow => rand() < 0.3, upsert => rand() < 0.3 } } 1 .. 1 + int(rand(3));
		my $end = rand() < 0.7 ? 'COMMIT' : 'ROLLBACK';
		my $sql = "BEGIN;\n";
		foreach my $p (0 .. $#parts)
		{
			my $part = $parts[$p];
			my $key = rand() < 0.5 ? 'g, 5000 - g' : '5000 - g, g';
			my $insert = "INSERT INTO pair SELECT $key, $who, $p FROM generate_series($part->{from}, " . ($part->{from} + $part->{n} - 1) . ') g';
			$insert .= ' ON CONFLICT DO NOTHING' if $part->{upsert};
			$insert = qq{DO \$\$ BEGIN $insert; EXCEPTION WHEN unique_violation THEN RAISE WARNING 'swallowed'; END \$\$} if $part->{swallow};
			$sql .= "SAVEPOINT s;\n" if $part->{back};
			$sql .= "$insert;\n";
			$sql .= "ROLLBACK TO s;\n" if $part->{back};
		}
		my ($out, $err) = ('', '');
		push @outcomes, { who => $who, parts => \@parts, end => $end, out => \$out, err => \$err };
		push @runs, IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres') ],
			'<', \"SET mtpower.batch_min_rows = 0;\n$sql$end;\n", '>', \$out, '2>', \$err);
	}
	$_->finish foreach @runs;
	foreach my $i (0 .. $#runs)
	{
		my $o = $outcomes[$i];
		my $rc = $runs[$i]->result(0);
		my ($state) = ${ $o->{err} } =~ /ERROR:  (\w{5}):/;
		if ($rc != 0)
		{
			like($state // ${ $o->{err} }, qr/^(23505|40P01)$/, "round $round, seed $seed: session $o->{who} fails by a conflict or a deadlock");
			$state eq '23505' ? $conflicts++ : $deadlocks++;
		}
		my $rows = 0;
		my $swallowed = () = ${ $o->{err} } =~ /swallowed/g;
		$conflicts += $swallowed;
		$rows += $_->{back} ? 0 : $_->{n} foreach @{ $o->{parts} };
		my $got = $node->safe_psql('postgres', "SELECT count(*) FROM pair WHERE who = $o->{who}");
		if ($rc != 0 || $o->{end} eq 'ROLLBACK') { is($got, 0, "round $round: session $o->{who} leaves nothing") }
		elsif (!$swallowed && !grep { $_->{upsert} } @{ $o->{parts} }) { is($got, $rows, "round $round: session $o->{who} has all of its rows") ; $won++ }
		else { cmp_ok($got, '<=', $rows, "round $round: session $o->{who} lacks at most what it has swallowed") ; $won++ }
	}
	is($node->safe_psql('postgres', 'SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT count(*) - count(DISTINCT id), count(*) - count(DISTINCT other) FROM pair'), '0|0', "round $round, seed $seed: no key is there twice");
	$node->safe_psql('postgres', "SELECT check_all(); " . (rand() < 0.5 ? 'DELETE FROM pair' : 'TRUNCATE pair') . (rand() < 0.3 ? '; VACUUM pair' : ''));
}
note("$won sessions committed, $conflicts conflicts, $deadlocks deadlocks");
cmp_ok($won, '>', 0, 'sessions committed');
cmp_ok($conflicts + $deadlocks, '>', 0, 'sessions met');
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
$node->stop;
done_testing();
