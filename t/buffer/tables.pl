# Rows are read in images of table pages. Each way in which a row can change takes the image away,
# also while a process is in the middle of the change or of a look at the image; the answers are
# right afterwards.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFrames;

my $modules = MtpFaults::compile('reserve');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$modules:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 8MB
mtpower.batch_min_rows = 0
autovacuum = off
jit = off
max_prepared_transactions = 4
# Nobody pins a page that VACUUM wants.
bgwriter_lru_maxpages = 0
});
$node->start;
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql('CREATE EXTENSION mtpower;' . frames_sql() . q{
CREATE FUNCTION make(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %1$I (a int, b text, v int) USING mtpower WITH (fillfactor = 90);
		INSERT INTO %1$I SELECT g, md5(g::text), g %% 7 FROM generate_series(1, 8000) g;
		CREATE INDEX %1$s_a ON %1$I USING mtpower_blink (a);
		CREATE UNIQUE INDEX %1$s_b ON %1$I USING btree (b, a)', name);
END $$;
CREATE FUNCTION wrong(name text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(disagree(replace(query, '@', name)), '') FROM unnest(ARRAY[
		'SELECT t.*, t.ctid FROM @ t WHERE a BETWEEN 100 AND 3000', 'SELECT t.*, tableoid FROM @ t WHERE a > 5000', 'SELECT t.* FROM @ t WHERE a < 50',
		'SELECT t.* FROM @ t WHERE b >= ''e'' AND a > 0', 'SELECT t.* FROM generate_series(-200, 12000, 7) g JOIN @ t ON t.a = g',
		'SELECT t.* FROM generate_series(-200, 12000, 11) g JOIN @ t ON t.b = md5(g::text)']) query $$;
CREATE FUNCTION images() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mtpower.stat_get_content() WHERE kind = 'table' AND relation = to_regclass('t') $$;
CREATE TABLE plain (a int, b text, v int);
});
my $reader = $node->background_psql('postgres');
$reader->set_query_timer_restart;

# Table t, with images of all its pages, which are read
sub warmed
{
	my ($what) = @_;
	sql(q{DROP TABLE IF EXISTS t CASCADE; SELECT make('t')});
	sql('VACUUM t');
	$reader->query_safe(q{SELECT warm('t', 'a', 5)});
	my $hits = sql(q{SELECT stat('hits', 'table')});
	my $answer = $reader->query_safe(q{SELECT warm('t', 'a', 5)});
	cmp_ok(sql(q{SELECT stat('hits', 'table')}) - $hits, '>=', 3200 * 0.9, "$what: rows are read in images");
	cmp_ok(sql('SELECT images()'), '>=', sql(q{SELECT pg_relation_size('t') / 16384}), "$what: each pair has one");
	return;
}

sub right
{
	my ($what) = @_;
	is(sql(q{SELECT wrong('t')}), '', "$what: right answers");
	is($reader->query_safe(q{SELECT wrong('t')}), '', "$what: right answers in a session that was there before");
	is(sql('SELECT orphans()'), '0', "$what: no images of files that have gone");
	return;
}

my $space = PostgreSQL::Test::Utils::tempdir_short;
sql(qq{CREATE TABLESPACE ts LOCATION '$space'});

foreach my $case (
	[ 'a row that is deleted', 'staled', 'DELETE FROM t WHERE a = 1000' ],
	[ 'rows that are deleted', 'staled', 'DELETE FROM t WHERE a % 3 = 0' ],
	[ 'a row that is updated in place', 'staled', 'UPDATE t SET v = -1 WHERE a = 1000' ],
	[ 'rows that are updated', 'staled', 'UPDATE t SET v = v + 100 WHERE a % 3 = 0' ],
	[ 'rows that move', 'staled', 'UPDATE t SET a = a + 10000 WHERE a BETWEEN 2000 AND 4000' ],
	[ 'rows that leave full pages', 'staled', 'ALTER TABLE t SET (fillfactor = 100)', 'VACUUM FULL t', 'VACUUM t', q{SELECT warm('t', 'a', 5)}, 'UPDATE t SET v = -1 WHERE a % 500 = 0' ],
	[ 'rows updated again and again', 'staled', ('UPDATE t SET v = v + 1 WHERE a % 50 = 0') x 5 ],
	[ 'a deletion rolled back', 'staled', 'BEGIN; DELETE FROM t WHERE a % 3 = 0; ROLLBACK' ],
	[ 'an update rolled back to a savepoint', 'staled', 'BEGIN; SAVEPOINT s; UPDATE t SET v = -1 WHERE a % 3 = 0; ROLLBACK TO s; UPDATE t SET v = -2 WHERE a = 77; COMMIT' ],
	[ 'rows in the room of others', 'staled', 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t', q{SELECT warm('t', 'a', 5)}, q{INSERT INTO t SELECT g, md5(g::text), -g FROM generate_series(20000, 21500) g},
		q{SELECT warm('t', 'a', 5)}, 'VACUUM t' ],
	[ 'COPY', 'staled', 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t', q{SELECT warm('t', 'a', 5)},
		q{INSERT INTO plain SELECT g, md5(g::text), -g FROM generate_series(20000, 21500) g; COPY plain TO PROGRAM 'cat > rows'; COPY t FROM PROGRAM 'cat rows'; TRUNCATE plain} ],
	[ 'ON CONFLICT DO UPDATE', 'staled', q{INSERT INTO t SELECT g, md5(g::text), 5 FROM generate_series(7990, 8020) g ON CONFLICT (b, a) DO UPDATE SET v = -excluded.v} ],
	[ 'ON CONFLICT DO NOTHING', 'staled', 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t', q{SELECT warm('t', 'a', 5)}, q{INSERT INTO t SELECT g, md5(g::text), 5 FROM generate_series(2, 8020) g ON CONFLICT DO NOTHING} ],
	[ 'MERGE', 'staled', q{MERGE INTO t USING generate_series(-5, 5) g ON t.a = g WHEN MATCHED AND g % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = -7 WHEN NOT MATCHED THEN INSERT VALUES (g, md5(g::text), -8)} ],
	[ 'a cascade', 'staled', q{CREATE TABLE parent (b text, a int, PRIMARY KEY (b, a)); INSERT INTO parent SELECT b, a FROM t;
		ALTER TABLE t ADD FOREIGN KEY (b, a) REFERENCES parent ON DELETE CASCADE ON UPDATE CASCADE},
		'DELETE FROM parent WHERE a % 100 = 1', 'UPDATE parent SET a = -a WHERE a % 100 = 2', 'DROP TABLE parent CASCADE' ],
	[ 'WHERE CURRENT OF', 'staled', q{BEGIN; SELECT scans('frames'); DECLARE c CURSOR FOR SELECT v FROM t WHERE a = 555; FETCH c; UPDATE t SET v = -1 WHERE CURRENT OF c; COMMIT} ],
	[ 'rows locked, then changed', 'staled', q{BEGIN; SELECT scans('frames'); SELECT v FROM t WHERE a = 555 FOR UPDATE; SELECT v FROM t WHERE a = 556 FOR KEY SHARE; UPDATE t SET v = -1 WHERE a = 555; COMMIT} ],
	[ 'VACUUM that truncates', 'purged', 'DELETE FROM t WHERE a > 4000', 'VACUUM t', q{INSERT INTO t SELECT g, md5(g::text), -g FROM generate_series(4001, 9000) g} ],
	[ 'VACUUM FREEZE', undef, 'VACUUM (FREEZE) t' ],
	[ 'TRUNCATE', 'purged', 'TRUNCATE t', q{INSERT INTO t SELECT g, md5(g::text), 3 FROM generate_series(1, 900) g} ],
	[ 'TRUNCATE rolled back', undef, q{BEGIN; TRUNCATE t; INSERT INTO t SELECT g, md5(g::text), 3 FROM generate_series(1, 900) g; SELECT warm('t', 'a', 5); ROLLBACK} ],
	[ 'CLUSTER', 'purged', 'CLUSTER t USING t_b' ],
	[ 'VACUUM FULL', 'staled', 'DELETE FROM t WHERE a % 5 < 3', 'VACUUM FULL t' ],
	[ 'a column that is added', undef, q{ALTER TABLE t ADD w int DEFAULT 17}, 'UPDATE t SET w = 3 WHERE a % 9 = 0' ],
	[ 'a column that is dropped', undef, 'ALTER TABLE t DROP v; ALTER TABLE t ADD v text DEFAULT 8', 'UPDATE t SET v = 3 WHERE a % 9 = 0' ],
	[ 'a type that keeps the file', undef, 'ALTER TABLE t ALTER b TYPE varchar, ALTER a TYPE oid', 'ALTER TABLE t ALTER a TYPE int' ],
	[ 'a type that does not', 'purged', 'ALTER TABLE t ALTER a TYPE bigint USING -a + 9000' ],
	[ 'SET TABLESPACE', 'purged', 'ALTER TABLE t SET TABLESPACE ts', 'DELETE FROM t WHERE a % 3 = 0', q{SELECT warm('t', 'a', 5)}, 'ALTER TABLE t SET TABLESPACE pg_default' ],
	[ 'SET UNLOGGED and SET LOGGED', 'purged', 'ALTER TABLE t SET UNLOGGED', 'VACUUM t', q{SELECT warm('t', 'a', 5)}, 'DELETE FROM t WHERE a % 3 = 0', 'ALTER TABLE t SET LOGGED' ],
	[ 'SET ACCESS METHOD', 'purged', 'ALTER TABLE t SET ACCESS METHOD heap', 'DELETE FROM t WHERE a % 3 = 0', 'ALTER TABLE t SET ACCESS METHOD mtpower' ],
	[ 'release and adopt', 'purged', q{SELECT mtpower.release('t')}, 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t', q{INSERT INTO t SELECT g, md5(g::text), 3 FROM generate_series(3, 900, 3) g}, q{SELECT mtpower.adopt('t')} ],
	[ 'release rolled back', 'purged', q{BEGIN; SAVEPOINT s; SELECT mtpower.release('t'); DELETE FROM t WHERE a % 3 = 0; ROLLBACK TO s; DELETE FROM t WHERE a % 5 = 0; COMMIT} ],
	[ 'adopt rolled back', 'purged', q{SELECT mtpower.release('t')}, q{BEGIN; SAVEPOINT s; SELECT mtpower.adopt('t'), warm('t', 'a', 5); ROLLBACK TO s; DELETE FROM t WHERE a % 5 = 0; COMMIT},
		q{BEGIN; SELECT mtpower.adopt('t'), warm('t', 'a', 5); ROLLBACK}, 'DELETE FROM t WHERE a % 3 = 0', q{SELECT mtpower.adopt('t')} ],
	[ 'a prepared deletion', 'staled', q{BEGIN; DELETE FROM t WHERE a % 3 = 0; PREPARE TRANSACTION 'p'}, q{SELECT warm('t', 'a', 5)}, q{COMMIT PREPARED 'p'} ],
	[ 'a prepared deletion rolled back', 'staled', q{BEGIN; DELETE FROM t WHERE a % 3 = 0; PREPARE TRANSACTION 'p'}, q{SELECT warm('t', 'a', 5)}, q{ROLLBACK PREPARED 'p'} ],
	[ 'DROP TABLE', 'purged', 'DROP TABLE t', q{SELECT make('t')} ])
{
	my ($what, $count, @changes) = @$case;

	warmed($what);
	my $before = sql(qq{SELECT stat('@{[ $count // 'hits' ]}', 'table')});
	sql($_) foreach @changes;
	my $after = sql(qq{SELECT stat('@{[ $count // 'hits' ]}', 'table')});
	cmp_ok($after - $before, '>=', 1, "$what: images are $count") if $count;
	right($what);
	sql('VACUUM t');
	sql(q{SELECT warm('t', 'a', 5)});
	right("$what, warmed again");
}

# A file that begins anew
is(sql(q{BEGIN; SELECT make('n');
	TRUNCATE n;
	INSERT INTO n SELECT g, md5(g::text), 3 FROM generate_series(1, 900) g;
	SELECT warm('n', 'a', 5), wrong('n');
	COMMIT}), "\n180|", 'TRUNCATE in the transaction that made the table');
sql('DROP TABLE n');
# Rows that are frozen at once
is(sql(q{BEGIN; CREATE TABLE n (a int, b text, v int) USING mtpower;
	CREATE INDEX n_a ON n USING mtpower_blink (a);
	CREATE UNIQUE INDEX n_b ON n USING btree (b, a);
	INSERT INTO plain SELECT g, md5(g::text), -g FROM generate_series(1, 5000) g;
	COPY plain TO PROGRAM 'cat > rows'; COPY n FROM PROGRAM 'cat rows' (FREEZE);
	SELECT warm('n', 'a', 5);
	COMMIT;
	DELETE FROM n WHERE a % 10 = 5;
	SELECT warm('n', 'a', 5), wrong('n')}), "1000\n500|", 'COPY with FREEZE');

# ---------- entries of rows that have gone ----------

# A chain's root leads to its row.  The row's own line pointer is no root, and an entry that leads there is of a row that was there before.
sql(q{CREATE FUNCTION fetch_tid(regclass, tid) RETURNS tid LANGUAGE c STRICT AS 'reserve'});
warmed('entries of before');
my $root = sql('SELECT ctid FROM t WHERE a = 1000');
sql('UPDATE t SET v = -1 WHERE a = 1000');
sql('VACUUM t');
my $member = sql('SELECT ctid FROM t WHERE a = 1000');
isnt($member, $root, 'a row that was updated in place');
$reader->query_safe(q{SELECT warm('t', 'a', 5)});
foreach my $frames ('off', 'on')
{
	my $hits = sql(q{SELECT stat('hits', 'table')});
	is(sql(qq{SET mtpower.use_frames = $frames; SELECT fetch_tid('t', '$root')}), $member, "frames $frames: its root leads to it");
	cmp_ok(sql(q{SELECT stat('hits', 'table')}), '>', $hits, 'by an image') if $frames eq 'on';
	is(sql(qq{SET mtpower.use_frames = $frames; SELECT fetch_tid('t', '$member')}), '', "frames $frames: its own line pointer leads to nothing");
}

# What is counted: pages age by accesses.
sql(q{SELECT mtpower.stat_reset('buffer')});
cmp_ok(sql(q{SELECT stat('aged', 'table')}), '<=', 1, 'no ageing steps after a reset');
$reader->query_safe(q{SELECT warm('t', 'a', 5)}) foreach 1 .. 3;
cmp_ok(sql(q{SELECT stat('aged', 'table')}), '>=', 3, 'ageing steps');
is(sql(q{SELECT count(DISTINCT aged), count(*) - count(aged) FROM mtpower.stat_buffer}), '1|1', 'the same of all kinds');

# ---------- snapshots ----------

# Those from before a change see what they saw; those from after it see the change, with images of other pages in use.
warmed('an older snapshot');
my $old = $node->background_psql('postgres');
$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ');
my $want = $old->query_safe(q{SELECT answer('frames', 'SELECT * FROM t WHERE a > 0')});
sql('DELETE FROM t WHERE a % 3 = 0');
sql('UPDATE t SET v = -1 WHERE a % 7 = 0');
sql(q{INSERT INTO t SELECT g, md5(g::text), -g FROM generate_series(1, 8000, 4) g WHERE g % 3 = 0});
sql('VACUUM t');
is($old->query_safe(q{SELECT answer('frames', 'SELECT * FROM t WHERE a > 0')}), $want, 'a snapshot from before changes sees what it saw');
is($old->query_safe(q{SELECT answer('locked', 'SELECT * FROM t WHERE a > 0')}), $want, 'so it does without images');
right('beside an older snapshot');
$old->query_safe('COMMIT');

# An index scan's slot has no buffer where the row comes from an image: ON CONFLICT, foreign keys and triggers ask whether they see it.
warmed('the row again');
is($old->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT scans('frames');
	SELECT v FROM t WHERE a = 700;
	INSERT INTO t VALUES (700, md5('700'), 0) ON CONFLICT (b, a) DO UPDATE SET v = t.v + 1000 RETURNING v;
	COMMIT}), "\n0\n1000", 'ON CONFLICT under REPEATABLE READ');
is(sql(q{BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT scans('frames'); CREATE TEMP TABLE was AS SELECT stat('hits', 'table') AS n;
	SELECT sum(v) > 0 FROM t WHERE a BETWEEN 100 AND 200; SELECT stat('hits', 'table') - n FROM was; COMMIT}), "\nt\n0", 'serializable transactions read pages');
is(sql(q{SELECT scans('frames'); CREATE TEMP TABLE was AS SELECT stat('hits', 'table') AS n; SET mtpower.use_frames = off;
	SET enable_seqscan = off; SELECT sum(v) > 0 FROM t WHERE a BETWEEN 100 AND 200; SELECT stat('hits', 'table') - n FROM was}), "\nt\n0", 'with use_frames off, no image is read');
is(sql(q{BEGIN; CREATE TEMP TABLE tt (a int, v int) USING mtpower; INSERT INTO tt SELECT g, g FROM generate_series(1, 3000) g; CREATE INDEX tt_a ON tt USING mtpower_blink (a); SELECT warm('tt', 'a', 5), stat('published', 'table') - stat('published', 'table'); ROLLBACK}), '600|0', 'temporary tables have no images');
like(sql(q{BEGIN; SELECT scans('frames'); SELECT xmin::text::int > 0, xmax, cmin, ctid, tableoid::regclass FROM t WHERE a = 5000; ROLLBACK}), qr/^\nt\|0\|\d+\|\(\d+,\d+\)\|t$/, 'system columns');
is(sql(q{SELECT scans('frames')} . q{; BEGIN; SELECT scans('frames'); DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT v FROM t WHERE a BETWEEN 100 AND 109 ORDER BY a; FETCH 3 FROM c; FETCH BACKWARD 2 FROM c; COMMIT; FETCH 2 FROM c; CLOSE c}),
	"\n\n2\n3\n4\n3\n2\n3\n4", 'a cursor that turns, and is held');

# ---------- in the middle ----------

SKIP:
{
	skip 'injection points are there with assertions only', 14 unless sql('SHOW debug_assertions') eq 'on';

	my $lock = $node->background_psql('postgres');
	my $writer = $node->background_psql('postgres', on_error_stop => 0);
	my $waits = q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'};

	# A writer between the change of a page and the end of its image
	warmed('a writer held');
	$lock->query_safe('SELECT pg_advisory_lock(155)');
	$writer->query_until(qr/go/, q{\echo go
SET mtpower.debug_injection = 'table_changed=wait'; DELETE FROM t WHERE a = 1000;
});
	$node->poll_query_until('postgres', $waits) or die;
	is($reader->query_safe(q{SELECT warm('t', 'a', 5)}), 1600, 'a deletion that has not committed: its image may still be read');
	is(sql(q{SELECT wrong('t')}), '', 'with the right answers');
	$lock->query_safe('SELECT pg_advisory_unlock(155)');
	is($writer->query_safe('RESET mtpower.debug_injection; SELECT count(*) FROM t WHERE a = 1000'), 0, 'it has deleted its row');
	is($reader->query_safe(q{SELECT scans('frames'); SELECT count(v) FROM t WHERE a = 1000}), "\n0", 'and now nobody finds it');

	# A reader who is about to read the image's memory, which becomes another table's
	sql(q{SELECT make('other')});
	sql(q{INSERT INTO other SELECT g, md5(g::text), 100 FROM generate_series(8001, 60000) g});
	sql('UPDATE other SET v = 100');
	sql('VACUUM other');
	warmed('a reader of memory that is reused');
	$lock->query_safe('SELECT pg_advisory_lock(155)');
	my $late = $node->background_psql('postgres');
	$late->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off});
	$late->query_until(qr/go/, q{\echo go
SET mtpower.debug_injection = 'image_found=wait'; SELECT sum(v) FROM t WHERE a = 2000;
});
	$node->poll_query_until('postgres', $waits) or die;
	sql('DELETE FROM t');
	sql(q{SELECT warm('other', 'a', 20)});
	cmp_ok(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE kind = 'table' AND relation = 'other'::regclass}), '>', 200, 'another table has most images');
	$lock->query_safe('SELECT pg_advisory_unlock(155)');
	is($late->query_safe(q{RESET mtpower.debug_injection; SELECT 1}), "5\n1", 'a reader of memory that is reused finds what its snapshot sees');
	$late->quit;
	sql('DROP TABLE other');

	# A reader between the image and its last look at the sequence lock
	foreach my $step ('image_found', 'frame_version_read', 'frame_found')
	{
		warmed("a reader held at $step");
		$lock->query_safe('SELECT pg_advisory_lock(155)');
		my $held = $node->background_psql('postgres');
		$held->query_safe(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SET mtpower.debug_injection = ''; SELECT v FROM t WHERE a = 2000});
		$held->query_until(qr/go/, qq{\\echo go
SET mtpower.debug_injection = '$step=wait'; SELECT sum(v) FROM t WHERE a BETWEEN 2000 AND 2003;
});
		$node->poll_query_until('postgres', $waits) or die;
		sql('DELETE FROM t WHERE a = 2001');
		sql('UPDATE t SET v = 1000000 WHERE a = 2002');
		sql('VACUUM t');
		sql(q{SELECT warm('t', 'a', 5)});
		$lock->query_safe('SELECT pg_advisory_unlock(155)');
		is($held->query_safe(q{RESET mtpower.debug_injection; SELECT sum(v) FROM t WHERE a BETWEEN 2000 AND 2003}), (5 + 6 + 0 + 1) . "\n" . (5 + 1000000 + 1),
			"a reader held at $step finds what its snapshot sees, and then what the next one does");
		$held->quit;
	}
	$_->quit foreach $lock, $writer;
}

# ---------- crash ----------

warmed('crash');
$_->quit foreach $old, $reader;
sql('DELETE FROM t WHERE a % 3 = 0');
$node->stop('immediate');
$node->start;
$reader = $node->background_psql('postgres');
is(sql('SELECT images()'), 0, 'no image survives a crash');
right('after a crash');
$reader->quit;
# ---------- directories ----------
# The buffer is empty, so there is room for them.

# A pair whose second block comes after its builder has looked for the table's end: the builder does
# not lock that block, so a writer of rows may find no directory there to take away.
sql(q{CREATE FUNCTION pair_reserve(regclass, int, int) RETURNS bool LANGUAGE c STRICT AS 'reserve';
CREATE FUNCTION directories(rel regclass) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mtpower.stat_get_content() WHERE kind = 'directory' AND relation = rel $$;
CREATE TABLE grown (a int, b text) USING mtpower; INSERT INTO grown SELECT g, 'x' FROM generate_series(1, 100) g});
is(sql(q{SELECT pg_relation_size('grown') / 8192, pair_reserve('grown', 0, 1), directories('grown')}), '1|t|1', 'a pair of one block has a directory');
sql(q{INSERT INTO grown SELECT g, 'y' FROM generate_series(1, 300) g});
is(sql(q{SELECT pg_relation_size('grown') / 8192, directories('grown')}), '2|0', 'it goes when the other block comes');
is(sql(q{SELECT pair_reserve('grown', 0, 1), directories('grown')}), 'f|0', 'who has not seen that block gets none');
is(sql(q{SELECT pair_reserve('grown', 0, 2), directories('grown')}), 't|1', 'who has seen it does');
is(sql(q{SELECT pair_reserve('grown', 0, 2), directories('grown')}), 'f|1', 'once');
sql('DELETE FROM grown WHERE a % 2 = 0; VACUUM grown');
is(sql(q{SELECT directories('grown')}), '1', 'deletion and VACUUM leave it');
sql(q{BEGIN; INSERT INTO grown VALUES (1, 'z'); ROLLBACK});
is(sql(q{SELECT directories('grown')}), '0', 'an insertion takes it away, also if it is rolled back');
sql('DROP TABLE grown');

$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC/, 'the log is clean');
done_testing();
