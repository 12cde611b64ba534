# mtpower.warm: what it loads and returns, and who may call it. It does not drive out warmer
# pages, raises no error where there is no room, and loads nothing that must not be read in
# frames.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFrames;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 64MB
mtpower.workers = 0
mtpower.batch_min_rows = 0
autovacuum = off
});
$node->start;
sub sql { my (@sql) = @_; return $node->safe_psql('postgres', join(';', @sql)); }
sub warm { return sql("SELECT mtpower.warm('$_[0]')"); }
sub fails { my ($sql) = @_; my ($rc, $out, $err) = $node->psql('postgres', $sql, extra_params => [ '-v', 'VERBOSITY=verbose' ]); return $err; }
# Frames of a relation, by kind
sub content { return sql("SELECT coalesce(string_agg(kind || ':' || n, ' ' ORDER BY kind), '') FROM (SELECT kind, count(*) AS n FROM mtpower.buffer_content WHERE relation = '$_[0]'::regclass GROUP BY kind) q"); }
my $rows = 40000;

sql('CREATE EXTENSION mtpower', frames_sql(), qq{
	CREATE TABLE t (a int, b text COLLATE "C", v int) USING mtpower;
	INSERT INTO t SELECT g, md5(g::text), g % 7 FROM generate_series(1, $rows) g;
	CREATE INDEX t_a ON t USING mtpower_blink (a);
	CREATE INDEX t_h ON t USING mtpower_hash (b);
	CREATE INDEX t_b ON t (v);
	CREATE FUNCTION pages(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT pg_relation_size(\$1) / 8192'});
my $wrong = q{SELECT string_agg(disagree(query), '') FROM unnest(ARRAY[
	'SELECT t.* FROM t WHERE a BETWEEN 100 AND 3000', 'SELECT t.* FROM generate_series(-200, 32000, 13) g JOIN t ON t.a = g',
	'SELECT t.* FROM generate_series(-200, 32000, 17) g JOIN t ON t.b = md5(g::text)']) query};

# ---------- indexes ----------

sql('SELECT mtpower.stat_reset()');
my $n = warm('t_a');
cmp_ok($n, '>', sql("SELECT pages('t_a')") - 3, 'a B-link tree: all its pages have frames, but for the metapage');
is(content('t_a'), "index:$n", 'it returns how many');
is(warm('t_a'), $n, 'once more: as many');
is(sql(q{SELECT published || ' ' || misses FROM mtpower.stat_buffer WHERE kind = 'index'}), "$n 0", 'each was published once, and nobody missed any');
is(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE relation = 't_a'::regclass AND heat BETWEEN 0.5 AND 1.01}), $n, 'they are as warm as pages that were read once');
$n = warm('t_h');
is(content('t_h'), "index:$n", 'a hash index');
is($n, sql(q{SELECT count(*) FROM generate_series(0, pages('t_h') - 1) g, mtpower.page_info('t_h', g) i WHERE i.type = 'bucket'}), "the primary pages of its buckets, and no others");
is(sql($wrong), '', 'right answers');
# On a fresh server, so that nothing is there but by warming
$node->restart;
warm('t_a');
sql('SELECT mtpower.stat_reset()');
sql(q{SELECT scans('frames_only')}, "BEGIN; SELECT scans('frames_only'); SELECT count(a) FROM generate_series(1, $rows, 10) g, LATERAL (SELECT a FROM t WHERE a = g OFFSET 0) r; COMMIT");
is(sql(q{SELECT misses || ' ' || (hits > 1000) FROM mtpower.stat_buffer WHERE kind = 'index'}), '0 true', 'probes find all pages in frames');

# ---------- tables ----------

is(warm('t'), 0, 'a table whose pages are not all-visible, and that has no directory columns: nothing');
sql('VACUUM t');
my $pairs = int((sql("SELECT pages('t')") + 1) / 2);
is(warm('t'), $pairs, 'images of all pairs behind VACUUM');
is(content('t'), "table:$pairs", 'and that is what it returns');
sql("SELECT mtpower.set_directory('t', 'a')");
is(warm('t'), 2 * $pairs, 'and directories, if it has directory columns');
is(content('t'), "directory:$pairs table:$pairs", 'of each');
sql("SELECT mtpower.set_directory('t', 'v')");
is(warm('t'), 2 * $pairs, 'those of other columns are replaced');
like(sql('SET enable_bitmapscan = off', 'SET enable_indexscan = off', q{EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT * FROM t WHERE v = 100}), qr/directory scan.*Pages: .* 0 scanned/s, 'and answer');
is(sql($wrong), '', 'right answers');
sql(q{UPDATE t SET v = 1 WHERE a = 5000});
cmp_ok(warm('t'), '>=', 2 * $pairs - 3, 'pages that have changed get what they can have');
is(sql($wrong), '', 'right answers');
sql('SELECT mtpower.release(\'t\')');
like(fails(q{SELECT mtpower.warm('t')}), qr/ERROR:  42809: "t" is neither an mtpower table nor an mtpower index\nDETAIL:  Its access method is "heap"\./, 'a heap table has none');
cmp_ok(warm('t_a'), '>', 10, 'its indexes may have some');
sql('SELECT mtpower.adopt(\'t\')');

# Comparison functions that are not core's are workers' business.
sql(q{CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE e (m mood) USING mtpower; INSERT INTO e SELECT 'ok' FROM generate_series(1, 1000); SELECT mtpower.set_directory('e', 'm')});
is(warm('e'), 0, 'functions that are not to be trusted are not run here');
sql('ALTER SYSTEM SET mtpower.workers = 1', 'SELECT pg_reload_conf()');
$node->poll_query_until('postgres', q{SELECT mtpower.warm('e') > 0}) or die;
pass('but by workers');
sql('DROP TABLE e');

# ---------- others ----------

like(fails(q{SELECT mtpower.warm('t_b')}), qr/ERROR:  42809: "t_b" is neither.*\nDETAIL:  Its access method is "btree"\./, 'not a btree');
like(fails(q{SELECT mtpower.warm('pg_class')}), qr/ERROR:  42809: /, 'no catalog');
like(fails(q{SELECT mtpower.warm('mtpower.stat_buffer')}), qr/ERROR:  42809: .*\nDETAIL:  This operation is not supported for views\./, 'no view');
like(fails(q{SELECT mtpower.warm(1)}), qr/ERROR:  42P01: relation with OID 1 does not exist/, 'nor what there is not');
is(sql('CREATE TEMP TABLE own (a int) USING mtpower', 'INSERT INTO own VALUES (1)', 'CREATE INDEX own_a ON own USING mtpower_blink (a)', q{SELECT mtpower.warm('own') + mtpower.warm('own_a')}), 0, 'temporary ones have no frames');
is(sql('CREATE TABLE empty (a int) USING mtpower', 'CREATE INDEX empty_a ON empty USING mtpower_blink (a)', 'CREATE INDEX empty_h ON empty USING mtpower_hash (a)', q{SELECT mtpower.warm('empty') + mtpower.warm('empty_a')}), 0, 'empty ones neither');
sql(q{SELECT mtpower.warm('empty_h')}, 'DROP TABLE empty');

sql(q{CREATE TABLE p (a int, b int) PARTITION BY LIST (b);
	CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1) USING mtpower;
	CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2) PARTITION BY LIST (a);
	CREATE TABLE p21 PARTITION OF p2 DEFAULT USING mtpower;
	CREATE TABLE p3 PARTITION OF p FOR VALUES IN (3) USING heap;
	INSERT INTO p SELECT g, 1 + g % 3 FROM generate_series(1, 9000) g;
	CREATE INDEX p_a ON p USING mtpower_blink (a)}, 'VACUUM p1', 'VACUUM p21');
is(warm('p'), sql(q{SELECT (pages('p1') + 1) / 2 + (pages('p21') + 1) / 2}), 'a partitioned table: its partitions that are ours, on all levels');
is(warm('p_a'), sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE relation IN ('p1_a_idx'::regclass, 'p21_a_idx', 'p3_a_idx')}), 'a partitioned index');
cmp_ok(warm('p_a'), '>', 20, 'all of it');

# ---------- rights ----------

sql('CREATE ROLE reader', 'CREATE ROLE other', 'GRANT SELECT ON t, p TO reader');
like(fails("SET ROLE other; SELECT mtpower.warm('t')"), qr/ERROR:  42501: permission denied for table t/, 'who may not read the table may not have it read');
like(fails("SET ROLE other; SELECT mtpower.warm('t_a')"), qr/ERROR:  42501: permission denied for index t_a/, 'nor its index');
like(fails("SET ROLE other; SELECT mtpower.warm('p_a')"), qr/ERROR:  42501: permission denied for index p_a/, 'nor a partitioned one');
cmp_ok(sql("SET ROLE reader; SELECT $_"), '>', 0, "who may: $_") foreach map { "mtpower.warm('$_')" } qw(t t_a p p_a);
like(fails("SET ROLE reader; SELECT mtpower.warm('p1')"), qr/42501/, 'a partition is a table of its own');

# ---------- locks ----------

my $faults = MtpFaults->new($node, 't');
my $holder = $faults->start('BEGIN', 'LOCK TABLE t', 'SELECT pg_advisory_lock(1)', 'SELECT pg_sleep(1000)');
$faults->wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory'}, 'the holder');
like(fails("SET statement_timeout = '300ms'; SELECT mtpower.warm('t')"), qr/ERROR:  57014/, 'it waits for a lock on the table, interruptibly');
like(fails("SET lock_timeout = '100ms'; SELECT mtpower.warm('t_a')"), qr/ERROR:  55P03/, 'and the index is not locked before the table');
sql(q{SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'});
$faults->finish($holder);

# An index that is not valid
sql('CREATE TABLE d (a int) USING mtpower', 'INSERT INTO d SELECT g FROM generate_series(1, 5000) g', 'CREATE INDEX d_a ON d USING mtpower_blink (a)');
sql(q{UPDATE pg_index SET indislive = false, indisvalid = false, indisready = false WHERE indexrelid = 'd_a'::regclass});
is(warm('d_a'), 0, 'an index that is being dropped is not loaded');
sql(q{UPDATE pg_index SET indislive = true, indisvalid = true, indisready = true WHERE indexrelid = 'd_a'::regclass}, 'DROP TABLE d');

# A transaction that made the file, and rolls back
sql('BEGIN', 'CREATE TABLE gone (a int) USING mtpower', 'INSERT INTO gone SELECT g FROM generate_series(1, 5000) g', 'CREATE INDEX gone_a ON gone USING mtpower_blink (a)', q{SELECT mtpower.warm('gone_a')}, 'ROLLBACK');
is(sql('SELECT orphans()'), 0, 'what is loaded of a new file goes with it');

# ---------- a buffer without room ----------

$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 1MB');
$node->restart;
sql(q{BEGIN; SELECT scans('frames_only'); SELECT count(a) FROM generate_series(1, 9000) g, LATERAL (SELECT a FROM t WHERE a = g * 7919 % 7500 OFFSET 0) r; COMMIT}) for 1 .. 3;
my $hot = q{SELECT string_agg(block::text, ',' ORDER BY block) FROM mtpower.buffer_content WHERE relation = 't_a'::regclass AND heat >= 4};
my $before = sql($hot);
cmp_ok(($before =~ tr/,//), '>', 10, 'a small buffer has hot pages of an index');
is(warm('t_h') + warm('t_a'), sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE relation IN ('t_h'::regclass, 't_a'::regclass)}), 'no error where there is no room');
is(sql($hot), $before, 'and hot pages stay');
is(warm('p_a'), 0, 'nor do pages go that are as warm as those to come');
is(sql(q{SELECT sum(frames) FROM mtpower.stat_buffer WHERE kind = 'index'}), sql('SELECT count(*) FROM mtpower.buffer_content'), 'with every frame in use');
is(sql($wrong), '', 'right answers');

# ---------- no buffer, frames not to be used, recovery ----------

is(sql('SET mtpower.use_frames = off', q{SELECT mtpower.warm('t_a')}), 0, 'a session that uses no frames loads none');
$node->backup('copy');
$node->append_conf('postgresql.conf', 'mtpower.buffer_size = 0');
$node->restart;
is(warm('t') + warm('t_a'), 0, 'without a buffer there is nothing to load');
like(fails("SET ROLE other; SELECT mtpower.warm('t')"), qr/ERROR:  42501/, 'nor more rights');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
my ($rc, $out, $err) = $standby->psql('postgres', q{SELECT mtpower.warm('t_a')});
like($err, qr/ERROR:  cannot execute mtpower\.warm\(\) during recovery/, 'not during recovery');
$standby->promote;
cmp_ok($standby->safe_psql('postgres', q{SELECT mtpower.warm('t_a')}), '>', 0, 'but after it');

$_->stop foreach $standby, $node;
unlike(slurp_file($_->logfile), qr/TRAP|PANIC/, 'the log is clean') foreach $standby, $node;
done_testing();
