# A server is recovered to the end of one WAL record of ours and promoted there: between the
# records of a split, of a growth, of a deletion, or within a batch. Everything committed before
# is there, and no scan sees anything else. Then writes come and finish what was left.
#
# It takes nine records at random, splits among them; POINTS of them on request; all with
# MTP_LONG=1. SEED repeats a choice.
use strict;
use warnings;
use List::Util qw(shuffle);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpHash;

my $seed = $ENV{SEED} || time;
srand($seed);
note "seed $seed";

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, has_archiving => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
wal_consistency_checking = 'all, mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 12
shared_buffers = 16MB
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 1GB
log_statement = none
});
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE FUNCTION long(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(a::text, 10, '0') || string_agg(md5(a * 31 + g || ''), '' ORDER BY g) FROM generate_series(1, 14) g $$;
CREATE TABLE b (a int, k text COLLATE "C") USING mtpower;
ALTER TABLE b ALTER k SET STORAGE plain;
CREATE INDEX b_k ON b USING mtpower_blink (k);
CREATE INDEX b_a ON b USING mtpower_blink (a DESC) INCLUDE (k);
CREATE TABLE h (k int, n int) USING heap;
CREATE INDEX h_k ON h USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 20);
CREATE INDEX h_n ON h USING mtpower_hash (n, k);
CREATE TABLE d (k int, n int) USING mtpower;
CREATE INDEX d_k ON d USING mtpower_hash (k) WITH (initial_buckets = 2);

-- Tables as they are
CREATE FUNCTION state() RETURNS text LANGUAGE sql SET enable_indexscan = off SET enable_indexonlyscan = off SET enable_bitmapscan = off AS
	$$ SELECT concat_ws(' ', (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(b::text, 0)::numeric), 0) FROM b), (SELECT count(*) || ' ' || coalesce(sum(hashtextextended(h::text, 0)::numeric), 0) FROM h), (SELECT count(*) FROM d)) $$;
CREATE FUNCTION scans(seq bool, plain bool, index_only bool, bitmap bool) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', seq::text, true), set_config('enable_indexscan', plain::text, true),
		set_config('enable_indexonlyscan', index_only::text, true), set_config('enable_bitmapscan', bitmap::text, true) $$;
-- The same by every index in every way, or an error
CREATE FUNCTION checked() RETURNS text LANGUAGE plpgsql SET enable_hashjoin = off SET enable_mergejoin = off SET enable_sort = off AS $$
DECLARE
	want int[]; got int[]; digest text; query text; way int;
BEGIN
	PERFORM mtpower.verify_index(i, true) FROM unnest(ARRAY['b_k', 'b_a', 'h_k', 'h_n', 'd_k']::regclass[]) i;
	PERFORM scans(true, false, false, false);
	SELECT array_agg(a ORDER BY a) FROM b INTO want;
	FOR way IN 1 .. 3 LOOP
		PERFORM scans(false, way < 3, way = 1, way = 3);
		FOREACH query IN ARRAY ARRAY['SELECT array_agg(a) FROM (SELECT a FROM b WHERE k > '''' ORDER BY k) x',
				'SELECT array_agg(a ORDER BY n DESC) FROM (SELECT a, row_number() OVER () n FROM (SELECT a FROM b WHERE k > '''' ORDER BY k DESC) y) x',
				'SELECT array_agg(a ORDER BY n DESC) FROM (SELECT a, row_number() OVER () n FROM (SELECT a FROM b WHERE a > -1000000000 ORDER BY a DESC) y) x',
				'SELECT array_agg(a) FROM (SELECT a FROM b WHERE a > -1000000000 ORDER BY a) x'] LOOP
			IF way < 3 THEN EXECUTE query INTO got;
			ELSE EXECUTE 'SELECT array_agg(a ORDER BY a) FROM b WHERE ' || substring(query FROM 'WHERE (.*) ORDER BY') INTO got; END IF;
			IF got IS DISTINCT FROM want THEN RAISE 'rows of b, %, way %', query, way; END IF;
		END LOOP;
	END LOOP;
	PERFORM scans(true, false, false, false);
	CREATE TEMP TABLE keys AS SELECT k, count(*) AS n, min(n) AS one FROM h GROUP BY k;
	ANALYZE keys;
	FOR way IN 1 .. 2 LOOP
		PERFORM scans(true, way = 1, false, way = 2);
		PERFORM set_config('seq_page_cost', '1000000', true);
		SELECT string_agg(x.k::text, ' ') FROM (SELECT k, n FROM keys OFFSET 0) x WHERE n <> (SELECT count(*) FROM h WHERE h.k = x.k AND h.n > -1000) INTO digest;
		IF digest <> '' THEN RAISE 'rows of h by k, way %: %', way, digest; END IF;
		SELECT string_agg(x.k::text, ' ') FROM (SELECT k, one FROM keys OFFSET 0) x WHERE NOT EXISTS (SELECT FROM h WHERE h.n = x.one AND h.k = x.k) INTO digest;
		IF digest <> '' THEN RAISE 'rows of h by n, way %: %', way, digest; END IF;
	END LOOP;
	DROP TABLE keys;
	RETURN '';
END $$;
-- Splits that wait for somebody to finish them, in trees and in hash indexes
CREATE FUNCTION unfinished() RETURNS text LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM unnest(ARRAY['b_k', 'b_a']::regclass[]) i, generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) n, mtpower.page_info(i, n) p WHERE p.flags @> '{incomplete_split}')
		|| ' ' || (SELECT count(*) FROM unnest(ARRAY['h_k', 'h_n']::regclass[]) i, pages(i) WHERE source IS NOT NULL) $$;
});
$primary->backup('base');

# ---------- the load ----------

my $lookups = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my @load = (
	# Trees of three levels, by batches and row by row, splits into many pages
	'INSERT INTO b SELECT g * 100, long(g * 100) FROM generate_series(1, 120) g',
	'SET mtpower.batching = off; INSERT INTO b SELECT 5000 + g * 7, long(5000 + g * 7) FROM generate_series(1, 25) g',
	'INSERT INTO b SELECT 3001 + g, long(3001 + g) FROM generate_series(1, 90) g',
	'BEGIN; INSERT INTO b SELECT 20000 + g, long(20000 + g) FROM generate_series(1, 60) g; ROLLBACK',
	# Entries that an inserter takes away, pages that go, and come again
	'DELETE FROM b WHERE a BETWEEN 3010 AND 3050',
	"$lookups SELECT count(*) FROM b WHERE k > ''; SELECT count(*) FROM b WHERE a > 0",
	'SET mtpower.batching = off; INSERT INTO b SELECT 3010 + g * 2, long(3010 + g * 2) FROM generate_series(1, 12) g',
	'DELETE FROM b WHERE a < 9000',
	'VACUUM (INDEX_CLEANUP on) b',
	'VACUUM (INDEX_CLEANUP on) b',
	'INSERT INTO b SELECT g * 90, long(g * 90) FROM generate_series(1, 80) g',
	# One bucket with a long stash, as a cursor keeps it from growing; then it grows, in pieces
	'INSERT INTO h VALUES (-1, -1), (-1, -2)',
	"$lookups BEGIN; DECLARE c CURSOR FOR SELECT k FROM h WHERE k = -1; FETCH 1 FROM c;
		INSERT INTO h SELECT CASE WHEN g % 4 = 0 THEN 7 ELSE g END, g FROM generate_series(1, 16000) g; COMMIT",
	'INSERT INTO h VALUES (30000, 30000)',
	'INSERT INTO h SELECT 40000 + g, 40000 + g FROM generate_series(1, 1500) g',
	'SET mtpower.batching = off; INSERT INTO h SELECT 50000 + g, g FROM generate_series(1, 40) g',
	'DELETE FROM h WHERE k = 7 AND n % 8 = 0 OR k % 3 = 1',
	'VACUUM (INDEX_CLEANUP on) h',
	'DELETE FROM h WHERE k % 10 < 8',
	'VACUUM (INDEX_CLEANUP on) h',
	'INSERT INTO h SELECT 60000 + g, g FROM generate_series(1, 2500) g',
	# A full bucket whose entries an inserter takes away
	'INSERT INTO d SELECT 1, g FROM generate_series(1, 650) g',
	'DELETE FROM d',
	"$lookups SELECT count(*) FROM d WHERE k = 1",
	'SET mtpower.batching = off; INSERT INTO d SELECT 1, g FROM generate_series(1, 100) g');

my $from = $primary->lsn('insert');
my @states = ([ 0, $primary->safe_psql('postgres', 'SELECT state()') ]);
sub bytes { my ($lsn) = @_; my ($high, $low) = split m{/}, $lsn; return hex($high) * 2**32 + hex($low); }
foreach my $sql (@load)
{
	$primary->safe_psql('postgres', $sql);
	push @states, [ bytes($primary->lsn('insert')), $primary->safe_psql('postgres', 'SELECT state()') ];
}
is($primary->safe_psql('postgres', 'SELECT checked()'), '', 'the load is sound on the primary');

# { lsn, kind } of each record of ours; what is committed there
my ($dump) = run_command([ 'pg_waldump', '--rmgr=custom155', '--path=' . $primary->data_dir . '/pg_wal', "--start=$from", '--end=' . $primary->lsn('flush') ]);
my @records = map { m{lsn: ([0-9A-F]+/[0-9A-F]+),.*UNKNOWN \(([0-9a-f]+)\)} ? { lsn => $1, kind => sprintf('%02s', $2) } : () } split /\n/, $dump;
foreach my $record (@records)
{
	($record->{state}) = map { $_->[1] } grep { $_->[0] <= bytes($record->{lsn}) } reverse @states;
}
my %kinds;
push @{ $kinds{ $_->{kind} } }, $_ foreach @records;
note join(', ', scalar(@records) . ' records', map { "$_: " . @{ $kinds{$_} } } sort keys %kinds);
is(join(' ', grep { !$kinds{$_} } qw(00 10 20 30 40 50 60 80 90 a0 b0 c0 d0 e0)), '', 'the load writes records of each kind');

$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_current_wal_lsn() - 1)');
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'the WAL is not archived';
$primary->stop;

# ---------- promotion behind one record ----------

my ($points, $incomplete, $halves) = (0, 0, 0);

sub promote_behind
{
	my ($record) = @_;
	my $what = "$record->{lsn}, behind $record->{kind}";
	my $n = ++$points;
	my $node = PostgreSQL::Test::Cluster->new("behind_$n");
	$node->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
	$node->append_conf('postgresql.conf', qq{
		recovery_target_lsn = '$record->{lsn}'
		recovery_target_inclusive = on
		recovery_target_action = promote
		archive_mode = off
		mtpower.workers = } . $n % 3);
	$node->start;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die "$what: no promotion";
	my ($state, $checked, $left) = split /\|/, $node->safe_psql('postgres', 'SELECT state(), checked(), unfinished()');
	is("$state$checked", $record->{state}, "$what: what was committed, by all indexes");
	my ($trees, $buckets) = split / /, $left;
	$incomplete++ if $trees > 0;
	$halves++ if $buckets > 0;
	$node->stop('immediate'), $node->start if $n % 4 == 3;

	# Single rows or batches everywhere, with deletions and VACUUM before or after
	my $insert = ($n % 2 ? '' : 'SET mtpower.batching = off;') . q{
		INSERT INTO b SELECT g * 7, long(g * 7) FROM generate_series(0, 3000) g;
		INSERT INTO h SELECT CASE WHEN g % 10 = 0 THEN 7 ELSE g * 7 END, g FROM generate_series(1, 4000) g};
	my $delete = 'DELETE FROM b WHERE a % 3 = 0; DELETE FROM h WHERE k % 4 = 0;';
	my @sql = $n % 3 ? ($insert, $delete, 'VACUUM (INDEX_CLEANUP on) b', 'VACUUM (INDEX_CLEANUP on) h') : ($delete, 'VACUUM (INDEX_CLEANUP on) b', 'VACUUM (INDEX_CLEANUP on) h', $insert);
	$node->safe_psql('postgres', $_) foreach @sql;
	is($node->safe_psql('postgres', 'SELECT checked(), unfinished()'), '|0 0', "$what: writes finish what was left ($left)");
	$node->stop('immediate'), $node->start, is($node->safe_psql('postgres', 'SELECT checked()'), '', "$what: after a crash") if $n % 4 == 1;
	$node->stop('immediate');
	unlike(slurp_file($node->logfile), qr/inconsistent page|PANIC|TRAP/, "$what: the log is clean");
	$node->clean_node;
	return;
}

# Those that begin a split which more records end: every one of a tree, and one of a bucket whose stash comes over in pieces
my @pieces = grep { $records[$_]{kind} eq 'a0' && $records[ $_ + 1 ]{kind} eq 'e0' } 0 .. $#records - 1;
my %begins = ('10' => $kinds{10}, a0 => [ @records[@pieces] ]);
cmp_ok(scalar @{ $begins{a0} }, '>', 0, 'the load splits buckets in more than one record');
my @chosen = $ENV{POINTS} ? splice(@{ [ shuffle @records ] }, 0, $ENV{POINTS}) : @records;
if (!$ENV{MTP_LONG} && !$ENV{POINTS})
{
	my @others = shuffle grep { !$begins{$_} } sort keys %kinds;
	@chosen = map { $_->[ rand(@$_) ] } @begins{qw(10 10 a0 a0)}, @kinds{ @others[ 0 .. 4 ] };
}
promote_behind($_) foreach @chosen;
note "$points promotions, $incomplete of them with an incomplete split of a tree, $halves with one of a bucket";
cmp_ok($incomplete, '>', 0, 'some promotions were between the records of a split of a tree');
cmp_ok($halves, '>', 0, 'some were within the split of a bucket');
done_testing();
