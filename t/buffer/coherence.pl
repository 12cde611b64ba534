# Each way in which a page can change, or its file can go and come back: frames exist before, are
# gone afterwards, and what is then read in frames is what the table says. A user who may not drop
# a database takes none of its frames away.
use strict;
use warnings;
use File::Path qw(rmtree);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFrames;
use MtpSessions qw(kill_a_session wait_for_restart);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 2MB
mtpower.batch_min_rows = 0
autovacuum = off
jit = off
max_prepared_transactions = 4
});
$node->start;
sub sql { return $node->safe_psql('postgres', $_[0]); }
sub in { my ($db, $sql) = @_; return $node->safe_psql($db, $sql); }

my $objects = 'CREATE EXTENSION mtpower;' . frames_sql() . q{
CREATE FUNCTION make(name text, rows int, kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE %2$s TABLE %1$I (a int, b text COLLATE "C", v int);
		CREATE INDEX %1$s_a ON %1$I USING mtpower_blink (a);
		CREATE INDEX %1$s_ba ON %1$I USING mtpower_blink (b, a)', name, kind);
	PERFORM fill(name, 1, rows);
END $$;
CREATE FUNCTION fill(name text, low int, high int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %I SELECT g, md5(g::text), g %% 7 FROM generate_series(%s, %s) g', name, low, high);
END $$;
-- What all ways to read have to agree on: each leaf is somewhere among the answers.
CREATE FUNCTION wrong(name text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(disagree(replace(query, '@', name)), '') FROM unnest(ARRAY[
		'SELECT t.* FROM @ t WHERE a BETWEEN 100 AND 3000', 'SELECT t.* FROM @ t WHERE a > 9000',
		'SELECT t.* FROM @ t WHERE b >= ''f'' AND a > 0', 'SELECT t.* FROM @ t WHERE b < ''8'' ORDER BY b DESC, a DESC LIMIT 2000',
		'SELECT min(a), max(a), min(b), max(b) FROM @', 'SELECT a FROM @ ORDER BY a LIMIT 3', 'SELECT b FROM @ ORDER BY b DESC LIMIT 700',
		'SELECT t.* FROM generate_series(-200, 16000, 13) g JOIN @ t ON t.a = g',
		'SELECT t.* FROM generate_series(-200, 16000, 17) g JOIN @ t ON t.b = md5(g::text)']) query $$;};
sql($objects);

# A reader that has known the indexes all the time
my $reader = $node->background_psql('postgres');

sub right
{
	my ($what) = @_;
	is(sql(q{SELECT wrong('t')}), '', "$what: right answers");
	is($reader->query_safe(q{SELECT wrong('t')}), '', "$what: right answers in a session that was there before");
	is(sql('SELECT orphans()'), '0', "$what: no frames of files that have gone");
	return;
}

# Table t, with frames of both indexes, which are read
sub warmed
{
	my ($what, $kind) = @_;
	sql('DROP TABLE IF EXISTS t');
	sql(qq{SELECT make('t', 10000, '@{[ $kind // '' ]}')});
	sql(q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	$reader->query_safe(q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	my $hits = sql(q{SELECT stat('hits')});
	sql(q{SELECT warm('t', 'a', 200)});
	cmp_ok(sql(q{SELECT stat('hits')}) - $hits, '>=', 100, "$what: frames are read");
	cmp_ok(sql(q{SELECT least(frames_of('t_a'), frames_of('t_ba'))}), '>=', 20, "$what: frames of both indexes");
	return;
}

# ---------- changes of pages, and of files ----------

my $space = PostgreSQL::Test::Utils::tempdir_short;
sql(qq{CREATE TABLESPACE ts LOCATION '$space'});

# Name, what is counted, what happens, statement by statement
foreach my $case (
	[ 'insertion', 'staled', q{INSERT INTO t VALUES (-5, 'e', 1), (500, 'g', 2)} ],
	[ 'insertions one by one', 'staled', q{SET mtpower.batching = off; INSERT INTO t SELECT g * 11, md5(g::text), 1 FROM generate_series(1, 900) g} ],
	[ 'splits', 'staled', q{SELECT fill('t', 1000, 3000)}, q{SELECT fill('t', 1000, 3000)} ],
	[ 'splits one by one', 'staled', q{SET mtpower.batching = off; SELECT fill('t', 1000, 3000)}, q{SET mtpower.batching = off; SELECT fill('t', 1000, 2000)} ],
	[ 'splits at the end, and of inner pages', 'staled', q{SELECT fill('t', 10001, 15000)} ],
	# Each split is the one change of its leaf.
	[ 'splits of full leaves', 'staled', q{DROP INDEX t_a; CREATE INDEX t_a ON t USING mtpower_blink (a) WITH (fillfactor = 100); SELECT warm('t', 'a', 40)},
		q{SET mtpower.batching = off; INSERT INTO t SELECT g, md5(g::text), -1 FROM generate_series(50, 10000, 390) g} ],
	[ 'splits of full leaves by a batch', 'staled', q{DROP INDEX t_a; CREATE INDEX t_a ON t USING mtpower_blink (a) WITH (fillfactor = 100); SELECT warm('t', 'a', 40)},
		q{INSERT INTO t SELECT g, md5(g::text), -1 FROM generate_series(50, 10000, 390) g} ],
	[ 'deletion and VACUUM', 'staled', 'DELETE FROM t WHERE a % 3 = 0', 'VACUUM t', q{SELECT fill('t', 1, 200)} ],
	[ 'update of the keys', 'staled', 'UPDATE t SET a = a + 7000 WHERE a % 9 = 0' ],
	[ 'page deletion and recycling', 'staled', 'DELETE FROM t WHERE a BETWEEN 2000 AND 8000', 'VACUUM t', 'SELECT txid_current()', 'VACUUM t', q{SELECT fill('t', 12000, 14000)},
		q{SELECT fill('t', -100, 0)} ],
	[ 'room from dead entries', 'staled', 'DELETE FROM t WHERE a % 2 = 0', q{SELECT scans('locked'); SET enable_seqscan = off; SELECT count(v) FROM t WHERE a > 0}, q{SELECT fill('t', 4000, 6000)} ],
	[ 'a queue', 'staled', 'DELETE FROM t WHERE a < 1500',
		map({ q{SET enable_seqscan = off; SET enable_sort = off; DELETE FROM t WHERE a = (SELECT a FROM t ORDER BY a LIMIT 1); DELETE FROM t WHERE a = (SELECT a FROM t ORDER BY a DESC LIMIT 1)} } 1 .. 5),
		q{INSERT INTO t SELECT g, md5(g::text), 1 FROM generate_series(10001, 10010) g} ],
	[ 'an aborted load', 'staled', q{BEGIN; SELECT fill('t', 1, 5000); ROLLBACK}, q{SELECT fill('t', 1, 50)} ],
	[ 'TRUNCATE', 'purged', 'TRUNCATE t', q{SELECT fill('t', 3000, 9000)} ],
	[ 'TRUNCATE rolled back', undef, q{BEGIN; TRUNCATE t; SELECT fill('t', 3000, 9000); SELECT warm('t', 'a', 40), frames_of('t_a') > 5; ROLLBACK} ],
	[ 'TRUNCATE rolled back to a savepoint', undef,
		q{BEGIN; SAVEPOINT s; TRUNCATE t; SELECT fill('t', 3000, 9000); SELECT warm('t', 'a', 40); ROLLBACK TO s; SELECT warm('t', 'a', 40); COMMIT} ],
	[ 'REINDEX', 'purged', q{SELECT fill('t', 1, 1000)}, 'REINDEX INDEX t_a', 'REINDEX TABLE t' ],
	[ 'REINDEX CONCURRENTLY', 'purged', 'REINDEX INDEX CONCURRENTLY t_a' ],
	[ 'CREATE INDEX rolled back', 'purged', q{BEGIN; DROP INDEX t_a; CREATE INDEX t_x ON t USING mtpower_blink (a); SELECT warm('t', 'a', 40); ROLLBACK} ],
	[ 'DROP INDEX', 'purged', 'DROP INDEX t_a', q{SELECT fill('t', 1, 1000)}, 'CREATE INDEX t_a ON t USING mtpower_blink (a)' ],
	[ 'DROP INDEX CONCURRENTLY', 'purged', 'DROP INDEX CONCURRENTLY t_a', q{SELECT fill('t', 1, 1000)}, 'CREATE INDEX CONCURRENTLY t_a ON t USING mtpower_blink (a)' ],
	[ 'CLUSTER', 'purged', 'CLUSTER t USING t_ba' ],
	[ 'VACUUM FULL', 'purged', 'DELETE FROM t WHERE a % 5 < 3', 'VACUUM FULL t' ],
	[ 'ALTER TYPE', 'purged', 'ALTER TABLE t ALTER a TYPE bigint USING -a + 9000' ],
	[ 'ALTER INDEX SET TABLESPACE', 'purged', 'ALTER INDEX t_a SET TABLESPACE ts', q{SELECT fill('t', 1, 1000), warm('t', 'a', 40)}, 'ALTER INDEX t_a SET TABLESPACE pg_default', q{SELECT fill('t', 1, 1000)} ],
	[ 'SET UNLOGGED and SET LOGGED', 'purged', 'ALTER TABLE t SET UNLOGGED', q{SELECT fill('t', 1, 100), warm('t', 'a', 40)}, 'ALTER TABLE t SET LOGGED' ],
	[ 'adopt and release', undef, q{SELECT mtpower.adopt('t')}, q{SELECT fill('t', 1, 1000), warm('t', 'a', 40)}, 'DELETE FROM t WHERE a % 3 = 0', q{SELECT mtpower.release('t')}, 'VACUUM t', q{SELECT fill('t', 500, 600)} ],
	[ 'DROP TABLE and the same name again', 'purged', 'DROP TABLE t', q{SELECT make('t', 3000, '')} ])
{
	my ($what, $count, @changes) = @$case;

	warmed($what);
	my $before = sql(qq{SELECT stat('@{[ $count // 'hits' ]}')});
	sql($_) foreach @changes;
	my $after = sql(qq{SELECT stat('@{[ $count // 'hits' ]}')});
	cmp_ok($after - $before, '>=', $count eq 'purged' ? 15 : 1, "$what: frames are $count") if $count;
	right($what);
	# And with the frames that there are now
	sql(q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	right("$what, warmed again");
}

# Leaves are deleted and used again under other parents; nothing but their deletion has changed those that they had.
sql(q{CREATE FUNCTION k(i int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(i::text, 8, '0') || repeat(md5(i::text), 32) $$;
	CREATE TABLE w (a int, b text COLLATE "C", v int);
	ALTER TABLE w ALTER b SET STORAGE plain;
	CREATE INDEX w_b ON w USING mtpower_blink (b);
	INSERT INTO w SELECT g, k(g), g FROM generate_series(1, 1000) g;
	SELECT warm('w', 'b', 1), warm('w', 'b', 1);});
my $pages = q{FROM mtpower.stat_get_content() c, LATERAL mtpower.page_info('w_b', c.block) p WHERE c.relation = 'w_b'::regclass};
cmp_ok(sql("SELECT count(*) $pages AND p.level = 1"), '>', 5, 'frames of inner pages');
# First the ends of what goes, so that the siblings on the left, too, are changed by the deletion of pages alone.
sql($_) foreach 'DELETE FROM w WHERE a % 50 < 7 OR a % 50 BETWEEN 18 AND 24', 'VACUUM w', q{SELECT warm('w', 'b', 1), warm('w', 'b', 1)},
	'DELETE FROM w WHERE a % 50 < 25', 'VACUUM w', 'SELECT txid_current()', 'VACUUM w', 'INSERT INTO w SELECT g, k(g), g FROM generate_series(2000, 2400) g',
	'SET mtpower.batching = off; INSERT INTO w SELECT g, k(g), g FROM generate_series(1, 1000) g WHERE g % 50 BETWEEN 7 AND 17';
is(sql(q{SELECT disagree('SELECT w.a, w.v FROM generate_series(1, 2500) g JOIN w ON w.b = k(g)'), disagree('SELECT a, v FROM w WHERE b > k(300)')}), '|', 'leaves used again under other parents: right answers');
is(sql(q{SELECT mtpower.verify_index('w_b', true)}), '', 'and the index verifies');
sql('DROP TABLE w');

# The file begins anew: the table is this transaction's.
is(sql(q{BEGIN;
	SELECT make('n', 10000, '');
	SELECT warm('n', 'a', 40) > 0, frames_of('n_a') > 20;
	CREATE TEMP TABLE file AS SELECT pg_relation_filenode('n_a') f;
	TRUNCATE n;
	SELECT frames_of('n_a'), frames_of('n_ba'), pg_relation_filenode('n_a') = f FROM file;
	SELECT fill('n', 5000, 12000);
	SELECT wrong('n');
	COMMIT}), "\nt|t\n0|0|t\n\n", 'TRUNCATE in the transaction that made the table takes the frames away');
sql('DROP TABLE n');

# What a subtransaction made goes with it.
is(sql(q{BEGIN;
	SAVEPOINT s;
	SELECT make('n', 10000, '');
	SELECT warm('n', 'a', 40) > 0, frames_of('n_a') > 20;
	ROLLBACK TO s;
	SELECT orphans();
	COMMIT}), "\nt|t\n0", 'ROLLBACK TO takes the frames of what was made away');
is(sql('SELECT orphans()'), '0', 'they stay away');
$node->psql('postgres', q{DO $$ BEGIN PERFORM make('n', 10000, ''); PERFORM warm('n', 'a', 40); RAISE 'no'; EXCEPTION WHEN raise_exception THEN END $$});
is(sql('SELECT orphans()'), '0', 'an EXCEPTION block does as well');
$node->psql('postgres', q{BEGIN; SELECT make('n', 10000, ''); SELECT warm('n', 'a', 40); SELECT 1/0; COMMIT});
is(sql('SELECT orphans()'), '0', 'so does an error');

# ---------- prepared transactions ----------

foreach my $end ('COMMIT', 'ROLLBACK')
{
	foreach my $restart (0, 1)
	{
		my $what = "$end PREPARED" . ($restart ? ' after a restart' : '');

		warmed($what);
		sql(q{BEGIN;
			SELECT make('n', 10000, ''), warm('n', 'a', 40);
			DROP INDEX t_a;
			PREPARE TRANSACTION 'p'});
		is(sql(q{SELECT orphans(), frames_of('t_a'), frames_of('t_ba') > 0}), '0|0|t', "$what: no frames of files that go either way");
		if ($restart)
		{
			$reader->quit;
			$node->restart;
			$reader = $node->background_psql('postgres');
		}
		sql("$end PREPARED 'p'");
		sql($end eq 'COMMIT' ? 'CREATE INDEX t_a ON t USING mtpower_blink (a); DROP TABLE n' : q{SELECT fill('t', 1, 1000)});
		right($what);
	}
}

# ---------- dead hints ----------

# A row a block: a queue whose left end has died.  A scan pays for the dead rows once, also where it
# reads the leaf in a frame.
foreach my $kind ('', 'UNLOGGED')
{
	my $what = "dead hints" . ($kind && ", $kind");

	sql(qq{DROP TABLE IF EXISTS q;
		CREATE $kind TABLE q (a int, v int, pad text DEFAULT repeat('x', 5000));
		ALTER TABLE q ALTER pad SET STORAGE plain;
		CREATE INDEX q_a ON q USING mtpower_blink (a);
		INSERT INTO q SELECT g, g FROM generate_series(1, 240) g;});
	my $first = q{SELECT scans('frames'); EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) SELECT v FROM q WHERE a > 0 ORDER BY a LIMIT 1;};
	my $blocks = sub {
		my $plan = sql("BEGIN; $first COMMIT");
		like($plan, qr/Index Scan using q_a/, "$what: an index scan");
		my ($hit, $read) = ($plan =~ /shared hit=(\d+)/, $plan =~ /read=(\d+)/);
		return $hit + ($read // 0);
	};
	$blocks->() for 1 .. 3;
	is(sql(q{SELECT frames_of('q_a')}), '1', "$what: the leaf has a frame");
	sql('DELETE FROM q WHERE a <= 200');
	is(sql(q{SELECT frames_of('q_a')}), '1', "$what: and still has it when rows are deleted");
	cmp_ok($blocks->(), '>', 190, "$what: the first one reads all dead rows");
	my @later = map { $blocks->() } 1 .. 4;
	cmp_ok($_, '<', 70, "$what: those behind do not") foreach @later;
	is(sql(q{SELECT sum(p.dead) FROM mtpower.page_info('q_a', 1) p}), '200', "$what: the page has the hints");

	# The TIDs that a scan has judged dead are other rows' when it comes back.
	sql(q{INSERT INTO q SELECT g, g FROM generate_series(1, 100) g});
	sql('VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) q');
	# The page rests for long by now.  (Without a frame the cursor would pin the leaf of an unlogged index, and VACUUM wait for it.)
	for (1 .. 300) { $blocks->(); last if sql(q{SELECT frames_of('q_a')}) }
	is(sql(q{SELECT frames_of('q_a')}), '1', "$what: the leaf has a frame again");
	sql('DELETE FROM q WHERE a <= 50');
	$reader->query_safe(q{BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT scans('frames'); DECLARE c CURSOR FOR SELECT v FROM q WHERE a > 0 ORDER BY a});
	$reader->query_safe('FETCH 1 FROM c');
	my $vacuumed = $node->psql('postgres', q{VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) q});
	sql(q{INSERT INTO q SELECT g, -g FROM generate_series(1, 50) g});
	$reader->query_safe('CLOSE c');
	$reader->query_safe('COMMIT');
	is(sql(q{SELECT disagree('SELECT a, v FROM q WHERE a > 0')}), '', "$what: new rows in the places of the dead get none");
	cmp_ok(sql(q{SELECT count(*) FROM q WHERE v < 0}), '==', 50, "$what: they are there");
}

# ---------- what has no frames ----------

my $published = sql(q{SELECT stat('published') + stat('hits')});
is(sql(q{BEGIN; SELECT make('n', 10000, 'TEMP'); SELECT warm('n', 'a', 40) > 0, frames_of('n_a'), wrong('n'); ROLLBACK}), "\nt|0|", 'temporary tables have no frames');
is(sql(q{SELECT stat('published') + stat('hits')}), $published, 'and nothing is looked for');
warmed('use_frames');
is(sql(q{SET mtpower.use_frames = off; SET enable_seqscan = off;
	CREATE TEMP TABLE was AS SELECT stat('published') + stat('hits') AS n;
	SELECT count(v) FROM t WHERE a BETWEEN 10 AND 20;
	SELECT stat('published') + stat('hits') - n FROM was}), "11\n0", 'with use_frames off, none is read or published');
sql(q{SET mtpower.use_frames = off; SELECT fill('t', 1, 1000)});
right('changed by a session that uses no frames');

# ---------- databases ----------

sql('CREATE DATABASE d');
in('d', $objects);
in('d', q{SELECT make('t', 10000, ''), make('u', 3000, 'UNLOGGED'), warm('t', 'a', 40), warm('t', 'b', 40), warm('u', 'a', 40)});
cmp_ok(in('d', q{SELECT frames_of('t_a')}), '>', 20, 'frames of another database');
sql('ALTER DATABASE d SET TABLESPACE ts');
in('d', q{DELETE FROM t WHERE a % 5 = 0});
in('d', 'VACUUM t');
in('d', q{SELECT fill('t', 1, 3000), fill('u', 1, 500)});
is(in('d', q{SELECT wrong('t') || wrong('u')}), '', 'right answers where the database was moved to');
in('d', q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
sql('ALTER DATABASE d SET TABLESPACE pg_default');
is(in('d', q{SELECT wrong('t') || wrong('u')}), '', 'right answers where it was moved back');
in('d', q{SELECT fill('t', 3000, 6000), warm('t', 'a', 40), warm('t', 'b', 40)});
sql('ALTER DATABASE d SET TABLESPACE ts');
is(in('d', q{SELECT wrong('t') || wrong('u')}), '', 'and to again');

# A database of the same number, with the same files as they were
sql('ALTER DATABASE d SET TABLESPACE pg_default');
foreach my $strategy ('wal_log', 'file_copy')
{
	sql("CREATE DATABASE e OID 77777 TEMPLATE d STRATEGY $strategy");
	in('e', 'DELETE FROM t WHERE a % 3 = 0');
	in('e', 'VACUUM t');
	in('e', q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	cmp_ok(in('e', q{SELECT frames_of('t_a')}), '>', 20, "frames of a database to be dropped, $strategy");
	sql('DROP DATABASE e');
	sql("CREATE DATABASE e OID 77777 TEMPLATE d STRATEGY $strategy");
	is(in('e', q{SELECT orphans(), frames_of('t_a'), wrong('t')}), '0|0|', "a database of the same number, $strategy");
	sql('DROP DATABASE e');
}

# What core refuses takes nothing away, and locks nothing before core does; nor does what leaves the files where they are.
in('d', q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
sql('CREATE ROLE nobody');
my $frames = q{SELECT frames_of('t_a') || ' ' || frames_of('t_ba') || ' ' || stat('purged')};
my $there_were = in('d', $frames);
like($there_were, qr/^[2-9]\d \d+ /, 'frames of a database that stays');
foreach my $case (
	[ '42501', 'DROP DATABASE, as somebody else', 'SET ROLE nobody', 'DROP DATABASE d' ],
	[ '42501', 'SET TABLESPACE, as somebody else', 'SET ROLE nobody', 'ALTER DATABASE d SET TABLESPACE ts' ],
	[ '25001', 'DROP DATABASE in a function', q{DO 'BEGIN DROP DATABASE d; END'} ],
	[ '25001', 'SET TABLESPACE in a function', q{DO 'BEGIN ALTER DATABASE d SET TABLESPACE ts; END'} ],
	[ '25001', 'DROP DATABASE in a transaction', 'BEGIN', 'DROP DATABASE d' ],
	[ '42704', 'SET TABLESPACE to none', 'ALTER DATABASE d SET TABLESPACE nowhere' ],
	[ '', 'SET TABLESPACE to the same', 'ALTER DATABASE d SET TABLESPACE pg_default' ],
	[ '', 'RENAME', 'ALTER DATABASE d RENAME TO another', 'ALTER DATABASE another RENAME TO d' ],
	[ '', 'CONNECTION LIMIT', 'ALTER DATABASE d CONNECTION LIMIT 50', 'ALTER DATABASE d OWNER TO nobody', 'ALTER DATABASE d OWNER TO CURRENT_USER' ],
	[ '42809', 'DROP DATABASE of a template', 'ALTER DATABASE d IS_TEMPLATE true', 'DROP DATABASE d' ])
{
	my ($state, $what, @commands) = @$case;
	$node->psql('postgres', join(";\n", @commands) . ';', stderr => \my $err, on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
	is(join(',', $err =~ /ERROR:\s+(\w+)/g), $state, "$what: core's answer");
	is(in('d', $frames), $there_were, "$what: the frames stay");
}
sql('ALTER DATABASE d IS_TEMPLATE false');
{
	my $inside = $node->background_psql('d');
	foreach my $command ('DROP DATABASE d', 'ALTER DATABASE d SET TABLESPACE ts')
	{
		$node->psql('postgres', $command, stderr => \my $err);
		like($err, qr/is being accessed by other users/, "$command beside a session is refused");
		is(in('d', $frames), $there_were, '... and the frames stay');
	}
	$inside->quit;
	in('d', 'CREATE TABLE elsewhere (a int) TABLESPACE ts');
	$node->psql('postgres', 'ALTER DATABASE d SET TABLESPACE ts', stderr => \my $err);
	like($err, qr/already in tablespace/, 'a move that core gives up late');
	is(in('d', $frames), $there_were, '... takes nothing away');
	in('d', 'DROP TABLE elsewhere');
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN');
	$locker->query_safe('ALTER DATABASE d RENAME TO d2');
	$node->psql('postgres', q{SET ROLE nobody; SET lock_timeout = '10ms'; DO 'BEGIN DROP DATABASE d; END'}, stderr => \$err);
	like($err, qr/cannot be executed from a function/, 'a command that core refuses before it locks the database waits for no lock');
	$locker->query_safe('ROLLBACK');
	$locker->quit;
}

# A command that fails, or crashes, when all is done but the commit
SKIP:
{
	skip 'injection points are there with assertions only', 9 unless sql('SHOW debug_assertions') eq 'on';
	my $stopped = sub { my ($how, $command) = @_; $node->psql('postgres', "SET mtpower.debug_injection = 'databases_leave=$how';\n$command;", stderr => \my $err); return $err; };
	my $make = q{CREATE DATABASE e OID 77777 TEMPLATE d};

	like($stopped->('error', 'ALTER DATABASE d SET TABLESPACE ts'), qr/databases_leave/, 'SET TABLESPACE fails at its commit');
	is(in('d', $frames), $there_were, 'the database is where it was, with its frames');
	is(in('d', q{SELECT wrong('t')}), '', 'right answers');
	# Core leaves the copies there when a commit fails.
	rmtree(glob("$space/PG_*/" . in('d', q{SELECT oid FROM pg_database WHERE datname = 'd'})));
	sql('ALTER DATABASE d SET TABLESPACE ts');
	in('d', q{SELECT fill('t', 1, 3000), warm('t', 'a', 40)});
	sql('ALTER DATABASE d SET TABLESPACE pg_default');
	is(in('d', q{SELECT wrong('t')}), '', 'and when it has been moved, and has come back');

	sql($make);
	in('e', 'DELETE FROM t WHERE a % 3 = 0');
	in('e', 'VACUUM t');
	in('e', q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	cmp_ok(in('e', q{SELECT frames_of('t_a')}), '>', 20, 'frames of a database to be dropped');
	like($stopped->('error', 'DROP DATABASE e'), qr/databases_leave/, 'DROP DATABASE fails at its commit');
	sql('DROP DATABASE e');
	sql($make);
	is(in('e', q{SELECT orphans(), frames_of('t_a'), wrong('t')}), '0|0|', 'once it is dropped, one of the same number has no frames');

	in('e', q{SELECT warm('t', 'a', 40), warm('t', 'b', 40)});
	$reader->quit;
	$node->append_conf('postgresql.conf', 'restart_after_crash = on');
	$node->reload;
	$stopped->('panic', 'ALTER DATABASE e SET TABLESPACE ts');
	wait_for_restart($node);
	is(in('e', q{SELECT frames_of('t_a'), wrong('t')}), '0|', 'after a crash in SET TABLESPACE: no frames');
	$stopped->('panic', 'DROP DATABASE e');
	wait_for_restart($node);
	sql('DROP DATABASE e');
	sql($make);
	is(in('e', q{SELECT orphans(), frames_of('t_a'), wrong('t')}), '0|0|', 'after a crash in DROP DATABASE: one of the same number has none either');
	sql('DROP DATABASE e');
	$reader = $node->background_psql('postgres');
}

# ---------- crash ----------

warmed('crash');
sql(q{SELECT make('u', 10000, 'UNLOGGED'), warm('u', 'a', 40)});
sql('CHECKPOINT');
sql(q{SELECT fill('t', 1, 1000), fill('u', 1, 1000)});
sql(q{DELETE FROM t WHERE a % 3 = 0});
$reader->quit;
$node->stop('immediate');
$node->start;
$reader = $node->background_psql('postgres');
is(sql(q{SELECT frames_of('t_a'), frames_of('u_a'), orphans(), (SELECT count(*) FROM u)}), '0|0|0|0', 'after a crash, there are no frames');

# A file that was cut shorter since its pages had frames: while there is room, images are left of a table that was adopted for a transaction, and heap truncates it.
sql(q{CREATE TABLE c (a int, v int); INSERT INTO c SELECT g, g FROM generate_series(1, 20000) g});
sql('VACUUM c');
sql(q{BEGIN; SELECT mtpower.adopt('c'), mtpower.warm('c'); ROLLBACK});
cmp_ok(sql(q{SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = 'c'::regclass}), '>', 20, 'images of a table that is heap\'s again');
sql('DELETE FROM c WHERE a > 100');
sql('VACUUM c');
is(sql(q{SELECT pg_relation_size('c')}), 8192, 'heap cuts it to one block');
my $purged = sql(q{SELECT stat('purged', 'table')});
sql('DROP TABLE c');
is(sql('SELECT orphans()'), '0', 'DROP TABLE takes all images away');
cmp_ok(sql(q{SELECT stat('purged', 'table')}) - $purged, '>', 20, 'which were there');

right('after a crash');
sql(q{SELECT fill('u', 1, 1000), fill('t', 1, 500)});
is(sql(q{SELECT wrong('u')}), '', 'an unlogged table after a crash');

# Shared memory is made anew where the postmaster stays.
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
warmed('a process that is killed');
$reader->quit;
kill_a_session($node);
$node->poll_query_until('postgres', q{SELECT frames_of('t_a') = 0}) or die;
$reader = $node->background_psql('postgres');
right('after a process was killed');

# ---------- standby ----------

sql('DROP DATABASE d');
sql('DROP TABLESPACE ts');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $there = $standby->background_psql('postgres');
my $queries = q{SELECT wrong('t'), warm('t', 'a', 40) >= 0, stat('hits'), stat('published'), orphans()};

warmed('standby');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($there->query_safe($queries), '|t|0|0|0', 'a standby reads no frames, and publishes none');
sql(q{SELECT fill('t', 1000, 3000)});
sql(q{DELETE FROM t WHERE a BETWEEN 4000 AND 7000});
sql('VACUUM t');
sql(q{SELECT fill('t', 1, 500)});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($there->query_safe($queries), '|t|0|0|0', 'nor after replay of changes');
$reader->quit;
$node->stop;
$standby->promote;
is($there->query_safe(q{SELECT wrong('t')}), '', 'right answers after promotion');
$standby->safe_psql('postgres', q{SELECT fill('t', 2000, 4000)});
is($there->query_safe(q{SELECT wrong('t'), warm('t', 'a', 40) > 0, warm('t', 'a', 40) > 0}), '|t|t', 'and after changes');
cmp_ok($there->query_safe(q{SELECT stat('hits')}), '>', 100, 'now in frames');
$there->quit;

# ---------- none at all ----------

$standby->append_conf('postgresql.conf', 'mtpower.buffer_size = 0');
$standby->restart;
is($standby->safe_psql('postgres', q{SELECT count(*) FROM mtpower.stat_buffer}), '0', 'mtpower.buffer_size = 0: nothing to count');
is($standby->safe_psql('postgres', q{SELECT wrong('t')}), '', 'right answers');
$standby->safe_psql('postgres', $_) foreach q{SELECT fill('t', 2000, 4000)}, 'REINDEX TABLE t', 'DELETE FROM t WHERE a % 2 = 0', 'VACUUM t', 'ALTER TABLE t ALTER a TYPE bigint';
is($standby->safe_psql('postgres', q{SELECT wrong('t'), frames_of('t_a')}), '|0', 'and after changes');
$standby->stop;

unlike(slurp_file($_->logfile), qr/TRAP|PANIC(?!:  crash at injection point)/, $_->name . ': the log is clean') foreach $node, $standby;
done_testing();
