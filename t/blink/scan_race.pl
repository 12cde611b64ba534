# Scans of all kinds, in both directions, parallel or not, run while other sessions insert, delete
# and vacuum around rows that stay. Each scan sees each of these rows once and in order.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('race');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
fsync = off
jit = off
max_worker_processes = 24
max_parallel_workers = 16
parallel_setup_cost = 0
parallel_tuple_cost = 0
enable_seqscan = off
enable_sort = off
});
$node->start;

# The rows whose k is a multiple of 1000 stay.  kind: 0 plain, 1 index-only, 2 bitmap scan.  workers: 0, or what the plan of a
# parallel scan is given; keep() is true, and looks so expensive that it becomes one.
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE TABLE race (k int, g int, t text COLLATE "C", v int DEFAULT 0) WITH (parallel_workers = 2);
CREATE INDEX race_k ON race USING mtpower_blink (k);
CREATE INDEX race_g ON race USING mtpower_blink (g DESC) INCLUDE (k);
CREATE INDEX race_t ON race USING mtpower_blink (t, k);
INSERT INTO race SELECT k, k / 1000 % 5, md5(k::text) FROM generate_series(1000, 1000000, 1000) k;

CREATE FUNCTION keep(int) RETURNS bool IMMUTABLE STRICT PARALLEL SAFE COST 1000000 LANGUAGE internal AS 'int4_bool';

CREATE FUNCTION scan(kind int, workers int, cond text, col text, direction text, want bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	query text := format('SELECT %s AS key, k FROM race WHERE keep(k) AND %s', col, cond);
	got bigint;
	ordered bool;
	line text;
	plan text := '';
BEGIN
	PERFORM set_config('enable_indexscan', (kind < 2)::text, true), set_config('enable_bitmapscan', (kind = 2)::text, true),
		set_config('enable_indexonlyscan', (kind = 1)::text, true), set_config('max_parallel_workers_per_gather', workers::text, true);
	IF kind < 2 THEN query := format('%s ORDER BY %s %s', query, col, direction); END IF;
	IF kind <> 1 THEN query := replace(query, 'WHERE', 'WHERE v = 0 AND'); END IF;
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP plan := plan || line; END LOOP;
	IF plan !~ (ARRAY['Index Scan', 'Index Only Scan', 'Bitmap Index Scan'])[kind + 1] OR plan ~ 'Sort' OR
		(plan ~ 'Parallel') <> (workers > 0) THEN
		RAISE EXCEPTION 'plan is %', plan;
	END IF;
	EXECUTE format('SELECT count(*) FILTER (WHERE k %% 1000 = 0), coalesce(bool_and(key %s prev), true)
		FROM (SELECT key, k, lag(key, 1, key) OVER () AS prev FROM (%s) q) r',
		CASE direction WHEN 'DESC' THEN '<=' ELSE '>=' END, query) INTO got, ordered;
	IF got <> want OR NOT (ordered OR kind = 2) THEN
		RAISE EXCEPTION 'scan saw % rows instead of %, in order: %, % workers: %', got, want, ordered, workers, query;
	END IF;
END $$;
});

my $dir = PostgreSQL::Test::Utils::tempdir;
my @files;
sub script
{
	my ($weight, $text) = @_;
	my $file = "$dir/" . scalar(@files) . '.sql';
	append_to_file($file, $text);
	push @files, '-f', "$file\@$weight";
}

my $how = "\\set kind random(0, 2)\n\\set workers greatest(random(-2, 2), 0)\n";
for my $direction ('ASC', 'DESC')
{
	script(16, qq{\\set lo random(1, 990000)
\\set hi :lo + random(0, 100000)
\\set hi least(:hi, 1000000)
\\set want :hi / 1000 - (:lo - 1) / 1000
${how}SELECT scan(:kind, :workers, 'k BETWEEN :lo AND :hi', 'k', '$direction', :want);
});
	script(4, "${how}SELECT scan(:kind, :workers, 'k > 0', 'k', '$direction', 1000);\n");
	script(2, "${how}SELECT scan(:kind, :workers, 't >= ''''', 't', '$direction', 1000);\n");
	script(2, "${how}SELECT scan(:kind, :workers, 'g = 3', 'g', '$direction', 200);\n");
	script(2, "${how}SELECT scan(:kind, :workers, 'g < 4', 'g', '$direction', 800);\n");
}
script(20, q{\set at random(1, 999)
\set gone random(1, 999)
\set n random(1, 900)
INSERT INTO race SELECT :at * 1000 + j % 999 + 1, :at % 5, md5((:at * 1000)::text) || j FROM generate_series(1, :n) j;
DELETE FROM race WHERE k > :gone * 1000 AND k < (:gone + 40) * 1000 AND k % 1000 <> 0;
});
script(5, "VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) race;\n");

# Once more where the machine was so busy that VACUUM has deleted no page.
my $deleted = q{SELECT count(*) FROM generate_series(1, pg_relation_size('race_k') / current_setting('block_size')::int - 1) b,
	mtpower.page_info('race_k', b) p WHERE p.type = 'deleted'};
foreach my $round (1 .. 5)
{
	my ($out, $err);
	my $ok = IPC::Run::run([ 'pgbench', '-n', '-T', $ENV{MTP_RACE_SECONDS} || 15, '-c', 8, '-j', 2, "--random-seed=$round", '-h', $node->host, '-p', $node->port,
		@files, 'postgres' ], '>', \$out, '2>', \$err);
	ok($ok && $err !~ /aborted|ERROR/, 'every scan sees what stays, once and in order') or diag($err);
	note($out);
	last if !$ok || $node->safe_psql('postgres', $deleted) > 0;
}

$node->safe_psql('postgres', q{SELECT mtpower.verify_index(i, true) FROM unnest('{race_k,race_g,race_t}'::regclass[]) i});
cmp_ok($node->safe_psql('postgres', $deleted), '>', 0, 'pages were deleted');
$node->stop;
done_testing();
