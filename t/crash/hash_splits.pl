# Splits of buckets with long stashes are left unfinished, and growth leaves pages over. VACUUM,
# scans and inserts meet both, and the next process that grows the index finishes them.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpHash;
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
restart_after_crash = on
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
my $scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';

sub check
{
	my ($what) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('k_a', true)", stderr => \$err), 0, "$what: verifies") or diag($err);
	is($node->safe_psql('postgres', "$scan SELECT count(*) FROM (SELECT DISTINCT a FROM k) d JOIN k USING (a)"), $node->safe_psql('postgres', 'SELECT count(*) FROM k'), "$what: all rows are found");
	return;
}

# Without rows that nobody sees: then the index has what the table has.
sub check_model { my ($what) = @_; check($what); is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: every bucket is as the model has it"); return; }

sub pages_of { return $node->safe_psql('postgres', "SELECT count(*) FROM pages('k_a') WHERE $_[0]"); }

# One bucket with all rows, as a cursor stands on it while they come.
sub one_bucket
{
	my ($query) = @_;
	$node->safe_psql('postgres', qq{$scan
		DROP TABLE IF EXISTS k;
		CREATE TABLE k (a int) USING mtpower;
		CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO k VALUES (-1), (-1);
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM k WHERE a = -1;
		FETCH 1 FROM c;
		INSERT INTO k $query;
		COMMIT});
	return;
}

# A row that is coming has the bucket split; the split ends at an injection point, after so many pieces
sub split_until
{
	my ($point, $pieces) = @_;
	$node->psql('postgres', "SET mtpower.debug_injection = '$point=error'; INSERT INTO k VALUES (1)", on_error_die => 0) foreach 1 .. $pieces || 1;
	return;
}

# ---------- VACUUM of a split that is not finished ----------

my $upper = 'spread(hashint4(a)) >= 2147483648';
foreach my $case ([ 'split', 'hash_split', 0 ], [ 'a piece', 'hash_split', 1 ], [ 'two pieces', 'hash_split', 2 ])
{
	my ($name, $point, $pieces) = @$case;
	foreach my $delete ('a % 10 <> 0', $upper, "NOT ($upper)", 'a % 1000 = 0', "a = 7 OR a % 20 = 1", 'true')
	{
		my $what = "$name, DELETE WHERE $delete";
		one_bucket('SELECT CASE WHEN g % 10 < 2 THEN 7 WHEN g % 10 < 3 THEN 8 ELSE hashint4(g) END FROM generate_series(1, 20000) g');
		split_until($point);
		split_until('hash_piece', $pieces) if $pieces;
		is(pages_of('source IS NOT NULL'), 1, "$what: a split is not finished");
		my $stash = pages_of("type = 'stash'");
		check($what) if $delete eq 'true';
		$node->safe_psql('postgres', "DELETE FROM k WHERE $delete; VACUUM k");
		check("$what, VACUUM");
		is($node->safe_psql('postgres', "SELECT sum(items) FROM pages('k_a')"), $node->safe_psql('postgres', 'SELECT count(*) FROM k'), "$what: VACUUM left no entry");
		is(pages_of('source IS NOT NULL'), 1, "$what: nor finished the split");
		my $left = pages_of("type = 'stash'");
		cmp_ok($left, '<', $delete eq 'a % 1000 = 0' ? $stash + 1 : $delete =~ /spread|7/ ? 0.85 * $stash : $stash / 4, "$what: $stash stash pages became $left");
		$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(30001, 31500) g');
		check_model("$what, finished");
		is(pages_of('source IS NOT NULL'), 0, "$what: it is finished with the next growth") if space_of($node, 'k_a')->{b} > 2;
		$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(40001, 60000) g');
		check_model("$what, grown");
		is(pages_of('source IS NOT NULL'), 0, "$what: none is left unfinished");
	}
}

# ---------- scans of it ----------

# Keys that are more than there are chains for fill the stash, so that the filter lacks most other keys' bits.
sub few_keys
{
	one_bucket('SELECT g % 20 + 1 FROM generate_series(1, 30000) g');
	split_until('hash_split');
	is(pages_of('source IS NOT NULL'), 1, "$_[0]: a split is not finished");
	return;
}
few_keys('misses');
$node->safe_psql('postgres', q{
	CREATE FUNCTION buffers(query text) RETURNS bigint LANGUAGE plpgsql AS $$
	DECLARE plan jsonb;
	BEGIN
		PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
		EXECUTE 'EXPLAIN (ANALYZE, BUFFERS, FORMAT json, TIMING off) ' || query INTO plan;
		RETURN (plan #>> '{0,Plan,Shared Hit Blocks}')::bigint + (plan #>> '{0,Plan,Shared Read Blocks}')::bigint;
	END $$});
my $class = '(spread(hashint4(g)) >> 8) % 256';
foreach my $half ('false', 'true')
{
	# The first lookup of a session reads the metapage as well.
	is($node->safe_psql('postgres', "DO \$\$ BEGIN PERFORM buffers('SELECT FROM k WHERE a = 0'); END \$\$; SELECT count(*), min(n), max(n) FROM (SELECT buffers('SELECT FROM k WHERE a = ' || g) AS n FROM generate_series(5001, 6000) g
		WHERE $class NOT IN (SELECT $class FROM generate_series(1, 20) g) AND (spread(hashint4(g)) >= 2147483648) = $half LIMIT 100) x") =~ /^[1-9]\d*\|1\|1$/, 1,
		'misses: known from one page, in the ' . ($half eq 'true' ? 'new' : 'old') . ' bucket');
}

# A cursor in the new bucket that stands on the old one's stash: VACUUM deletes nothing there, nor does anybody finish the split.
few_keys('cursor');
my @chained = split /\n/, $node->safe_psql('postgres', q{SELECT split_part(f, '@', 1) FROM pages('k_a') b, mtpower.page_info('k_a', b.blkno) p, unnest(p.flags) f WHERE b.type = 'bucket' AND f LIKE '%@%'});
my $stashed = (grep { my $h = $_->[1]; !grep { hex($_) == $h } @chained }
	map { [ split /\|/ ] } split /\n/, $node->safe_psql('postgres', 'SELECT g, spread(hashint4(g)) FROM generate_series(1, 20) g WHERE spread(hashint4(g)) >= 2147483648'))[0]->[0];
$node->safe_psql('postgres', "DELETE FROM k WHERE a <> $stashed");
my $cursor = $node->background_psql('postgres');
$cursor->query_safe($_) foreach split(/; */, $scan), 'BEGIN', "DECLARE c CURSOR FOR SELECT ctid FROM k WHERE a = $stashed";
my @seen = split /\n/, $cursor->query_safe('FETCH 600 FROM c');
my $items = $node->safe_psql('postgres', "SELECT sum(items) FROM pages('k_a')");
$node->psql('postgres', "SET statement_timeout = '2s'; VACUUM k");
is($node->safe_psql('postgres', "SELECT sum(items) FROM pages('k_a')"), $items, 'cursor: VACUUM waits for it at the old bucket');
$node->safe_psql('postgres', 'INSERT INTO k VALUES (30)');
is(pages_of('source IS NOT NULL'), 1, 'cursor: nobody finishes the split');
push @seen, split /\n/, $cursor->query_safe('FETCH ALL FROM c');
my %times;
$times{$_}++ foreach @seen;
is(scalar(@seen) . ' ' . scalar(keys %times), '1500 1500', 'cursor: it sees each of its rows once');
$cursor->query_safe('COMMIT');
$cursor->quit;
$node->safe_psql('postgres', 'VACUUM k; INSERT INTO k VALUES (30)');
check_model('cursor, gone');

# ---------- none is left where nobody is in the way ----------

# A single row pays for some splits only, so these buckets are not split again soon; the first ones have long stashes.
one_bucket('SELECT hashint4(g) FROM generate_series(1, 20000) g');
$node->safe_psql('postgres', q{
	SET mtpower.batching = off;
	DO $$ BEGIN
		FOR g IN 30001 .. 31000 LOOP
			INSERT INTO k VALUES (hashint4(g));
			EXIT WHEN (SELECT b FROM space('k_a')) > 1;
		END LOOP;
	END $$});
like(space_of($node, 'k_a')->{b}, qr/^[2-5]$/, 'single rows: a few splits');
is(pages_of('source IS NOT NULL'), 0, 'single rows: they are finished');
check_model('single rows');

# ---------- inserts and dead hints beside it ----------

one_bucket('SELECT hashint4(g) FROM generate_series(1, 20000) g');
split_until('hash_split');
$node->safe_psql('postgres', 'SET mtpower.batching = off; SET mtpower.debug_injection = \'hash_piece=error\'; DELETE FROM k WHERE a % 3 = 0');
check('hints') foreach 1 .. 2;
# What would split, or finish, fails: so entries come to both buckets as they are.
foreach my $from (100001, 100051, 100101)
{
	$node->psql('postgres', "SET mtpower.debug_injection = 'prepare=error'; INSERT INTO k SELECT hashint4(g) FROM generate_series($from, $from + 49) g");
	$node->psql('postgres', "SET mtpower.batching = off; SET mtpower.debug_injection = 'hash_piece=error'; INSERT INTO k SELECT hashint4(g) FROM generate_series($from, $from + 29) g");
	check("inserted from $from on");
}
$node->safe_psql('postgres', 'VACUUM k; INSERT INTO k SELECT hashint4(g) FROM generate_series(200001, 200100) g');
check_model('hints and inserts');

# ---------- walks ----------

# A clause on the first column alone walks through both buckets in the order of hashes, and finds each row once: on the new bucket's pages, or in the
# stash of the old one.
my @walk = ('SET enable_seqscan = off', 'SET seq_page_cost = 1000', 'SET random_page_cost = 0', 'SET cpu_index_tuple_cost = 0', 'SET cpu_operator_cost = 0', 'SET jit = off');
my %kinds = ('Index Scan' => join(';', @walk, 'SET enable_bitmapscan = off', ''), 'Bitmap Index Scan' => join(';', @walk, 'SET enable_indexscan = off', ''));
my $all = 'SELECT count(*), count(DISTINCT c), sum(c) FROM w WHERE a = 1';

sub walks
{
	my ($what) = @_;
	my $want = $node->safe_psql('postgres', $all);
	foreach my $kind (sort keys %kinds)
	{
		like($node->safe_psql('postgres', "$kinds{$kind} EXPLAIN (COSTS OFF) $all"), qr/$kind/, "$what, $kind: is one");
		is($node->safe_psql('postgres', "$kinds{$kind} $all"), $want, "$what, $kind: each row once");
	}
	return;
}

sub unfinished { return $node->safe_psql('postgres', q{SELECT count(*) FROM pages('w_ab') WHERE source IS NOT NULL}); }

foreach my $pieces (0 .. 2)
{
	my $what = "walks, $pieces pieces done";
	$node->safe_psql('postgres', qq{$scan
		DROP TABLE IF EXISTS w;
		CREATE TABLE w (a int, b int, c int) USING mtpower;
		CREATE INDEX w_ab ON w USING mtpower_hash (a, b) WITH (initial_buckets = 1);
		INSERT INTO w VALUES (-1, -1, -1), (-1, -1, -2);
		BEGIN;
		DECLARE k CURSOR FOR SELECT a FROM w WHERE a = -1 AND b = -1;
		FETCH 1 FROM k;
		INSERT INTO w SELECT 1, CASE WHEN g % 10 < 2 THEN 7 WHEN g % 10 < 4 THEN 11 WHEN g % 50 > 4 THEN g END, g FROM generate_series(1, 20000) g;
		INSERT INTO w SELECT 2, g, -g FROM generate_series(1, 2000) g;
		COMMIT});
	$node->psql('postgres', "SET mtpower.debug_injection = '$_=error'; INSERT INTO w VALUES (2, 0, 0)", on_error_die => 0) foreach 'hash_split', ('hash_piece') x $pieces;
	is(unfinished(), 1, "$what: a split is not finished");
	walks($what);

	# One that stands in the old bucket, then in the new one, while others come to both and want to finish the split
	my $walker = $node->background_psql('postgres');
	$walker->query_safe($_) foreach @walk, 'SET enable_bitmapscan = off', 'BEGIN', 'DECLARE k CURSOR FOR SELECT c FROM w WHERE a = 1';
	my @seen;
	while (1)
	{
		my @rows = split /\n/, $walker->query_safe('FETCH 3500 FROM k');
		push @seen, @rows;
		last if @rows < 3500;
		$node->safe_psql('postgres', 'INSERT INTO w SELECT 1, g, 100000 + g FROM generate_series(' . (100 * @seen) . ', ' . (100 * @seen + 300) . ') g');
		is(unfinished(), 1, "$what: the scan keeps it from being finished");
	}
	$walker->query_safe('COMMIT');
	$walker->quit;
	my %times;
	$times{$_}++ foreach @seen;
	is(join(' ', grep { ($times{$_} // 0) != 1 } 1 .. 20000), '', "$what: a cursor meets every row once");
	is(scalar(keys %times), 20000, "$what: and no other");
	walks("$what, rows added");
	$node->safe_psql('postgres', 'DELETE FROM w WHERE c % 3 = 0; VACUUM w');
	is(unfinished(), 1, "$what: VACUUM does not finish it");
	walks("$what, VACUUM");
	$node->safe_psql('postgres', 'INSERT INTO w SELECT 1, g, 500000 + g FROM generate_series(1, 300) g');
	is(unfinished(), 0, "$what: it is finished with the next growth");
	walks("$what, finished");
	is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('w_ab', true)}), '', "$what: verifies");
}

# ---------- zero pages ----------

# A crash, or an error, after an extent became part of the index: its pages are zero but for some, and the next growth uses them.  Also when it
# reads them from disk.
foreach my $end ('panic', 'error')
{
	my $what = "zero pages, $end";
	my $blocks_sql = "SELECT pg_relation_size('k_a') / current_setting('block_size')::int";
	one_bucket('SELECT hashint4(g) FROM generate_series(1, 500) g');
	$node->psql('postgres', "SET mtpower.debug_injection = 'hash_extended=$end'; INSERT INTO k SELECT hashint4(g) FROM generate_series(1001, 21000) g");
	wait_for_restart($node) if $end eq 'panic';
	my $blocks = $node->safe_psql('postgres', $blocks_sql);
	my $zero = "SELECT count(*) FROM generate_series(1, ($blocks_sql) - 1) b, mtpower.page_info('k_a', b) p WHERE p.type = 'new'";
	cmp_ok($blocks, '>', 30, "$what: blocks were added");
	is(space_of($node, 'k_a')->{b}, 1, "$what: one bucket");
	cmp_ok($node->safe_psql('postgres', $zero), '>', 20, "$what: they are there");
	check_model($what) if $end eq 'panic';
	$node->restart;
	$node->safe_psql('postgres', 'DELETE FROM k WHERE a % 2 = 0; VACUUM k; INSERT INTO k SELECT hashint4(g) FROM generate_series(1001, 21000) g');
	check_model("$what, grown");
	cmp_ok($node->safe_psql('postgres', $blocks_sql), '<=', $blocks + 2, "$what: the next growth uses them");
	cmp_ok($node->safe_psql('postgres', $zero), '<', 3, "$what: they are buckets");
}
$node->stop;
unlike(slurp_file($node->logfile), qr/inconsistent page|TRAP|terminated by signal 11/, 'redo agrees with every page');
done_testing();
