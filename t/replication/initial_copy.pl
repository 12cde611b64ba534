# Initial copies of subscriptions into tables with B-link indexes are batches without a statement
# around them. The test interrupts them, and has triggers and partitions; changes that are applied
# afterwards include TRUNCATE between INSERTs.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpLoad;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', q{
logical_decoding_work_mem = 64kB
max_wal_senders = 20
max_replication_slots = 20
autovacuum = off
});
$publisher->start;

my $modules = MtpFaults::compile('c_inserts');
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init;
$subscriber->append_conf('postgresql.conf', qq{
dynamic_library_path = '$modules:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_memory = 2MB
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 40
max_logical_replication_workers = 30
max_sync_workers_per_subscription = 3
wal_retrieve_retry_interval = 100ms
autovacuum = off
});
$subscriber->start;
my $stops = $subscriber->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
$subscriber->safe_psql('postgres', 'CREATE EXTENSION mtpower');

my $connection = $publisher->connstr . ' dbname=postgres';

# Creates the tables of a publication named after the first on both sides; $sql is what only the subscriber does.
sub tables
{
	my ($tables, $fill, $sql) = @_;
	foreach my $table (@$tables)
	{
		$publisher->safe_psql('postgres', "CREATE TABLE $table (a int, b text, c int); INSERT INTO $table $fill");
	}
	$subscriber->safe_psql('postgres', $sql);
	$publisher->safe_psql('postgres', "CREATE PUBLICATION $tables->[0] FOR TABLE " . join(', ', @$tables));
}

sub subscribe
{
	my ($name, $with) = @_;
	$subscriber->safe_psql('postgres', "CREATE SUBSCRIPTION $name CONNECTION '$connection application_name=$name' PUBLICATION $name" . ($with // ''));
}

# Subscription disabled, workers gone: nothing may hold memory, and all indexes agree with their tables.
sub clean
{
	my ($what) = @_;
	$subscriber->poll_query_until('postgres', q{SELECT NOT EXISTS (SELECT FROM pg_subscription s JOIN pg_stat_subscription t ON t.subid = s.oid
		WHERE t.pid IS NOT NULL AND NOT s.subenabled)}) or die;
	is_clean($subscriber, $what);
}

my $sum = 'SELECT count(*), sum(a), sum(c), sum(hashtext(b)) FROM ';
sub same
{
	my ($what, @tables) = @_;
	foreach my $table (@tables)
	{
		is($subscriber->safe_psql('postgres', $sum . $table), $publisher->safe_psql('postgres', $sum . $table), "$what: rows of $table");
	}
	clean($what);
}

# Entries that came in batches, by index
sub batched
{
	my ($pattern) = @_;
	return $subscriber->safe_psql('postgres', qq{SELECT string_agg(c.relname || ' ' || coalesce(s.entries, 0), ', ' ORDER BY c.relname)
		FROM pg_class c JOIN pg_am a ON a.oid = c.relam AND a.amname = 'mtpower_blink' LEFT JOIN mtpower.stat_batches s ON s.indexid = c.oid
		WHERE c.relkind = 'i' AND c.relname ~ '^$pattern'});
}

sub log_has
{
	my ($pattern, $from) = @_;
	foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return 1 if slurp_file($subscriber->logfile, $from) =~ $pattern;
		select(undef, undef, undef, 0.1);
	}
	return 0;
}

my $rows = 'SELECT i, md5(i::text), hashint4(i) % 1000 FROM generate_series(1, 20000) i';
my $wide = q{SELECT i, repeat(md5(i::text), 20), hashint4(i) % 1000 FROM generate_series(1, 3000) i};

# Several tables at a time: one mtpower, one heap, one with generated columns and an expression index, one with rows so
# wide that no multi_insert is a load by itself.
tables([ 'several', 's_heap', 's_more' ], $rows, q{
	CREATE TABLE several (a int, b text, c int) USING mtpower;
	CREATE INDEX several_a ON several USING mtpower_blink (a);
	CREATE INDEX several_b ON several USING mtpower_blink (b COLLATE "C" DESC);
	CREATE INDEX several_c ON several USING mtpower_blink (c, a) INCLUDE (b) WHERE c > 0;
	CREATE TABLE s_heap (LIKE several);
	CREATE INDEX several_h ON several USING mtpower_hash (a);
	CREATE INDEX s_heap_a ON s_heap USING mtpower_blink (a);
	CREATE INDEX s_heap_h ON s_heap USING mtpower_hash (b, a);
	CREATE TABLE s_more (c int, d int DEFAULT 7, b text, double int GENERATED ALWAYS AS (a * 2) STORED, a int PRIMARY KEY) USING mtpower;
	CREATE INDEX s_more_double ON s_more USING mtpower_blink (double);
	CREATE INDEX s_more_expr ON s_more USING mtpower_blink (upper(b), d);
	CREATE TABLE s_wide (LIKE several) USING mtpower;
	CREATE INDEX s_wide_a ON s_wide USING mtpower_blink (a);});
$publisher->safe_psql('postgres', "CREATE TABLE s_wide (a int, b text, c int); INSERT INTO s_wide $wide; ALTER PUBLICATION several ADD TABLE s_wide");
my $part = $publisher->safe_psql('postgres', 'SELECT count(*) FROM several WHERE c > 0');
subscribe('several');
$subscriber->wait_for_subscription_sync($publisher, 'several');
same('several tables', qw(several s_heap s_more s_wide));
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM s_more WHERE double = 2 * a AND d = 7'), 20000, 'several tables: generated and default columns');
is(batched('s'), "s_heap_a 0, s_more_double 20000, s_more_expr 20000, s_wide_a 3000, several_a 20000, several_b 20000, several_c $part",
	'several tables: all loads of mtpower tables came in batches');
cmp_ok($subscriber->safe_psql('postgres', q{SELECT batches FROM mtpower.stat_batches WHERE index = 'several_b'::regclass}), '>', 3, 'several tables: in several batches');

# Half-way, the copy waits for another session's row, with entries queued.
tables([ 'half' ], $rows, q{
	CREATE TABLE half (a int, b text, c int, UNIQUE (a)) USING mtpower;
	CREATE INDEX half_b ON half USING mtpower_blink (b);
	CREATE INDEX half_c ON half USING mtpower_blink (c);
	CREATE INDEX half_h ON half USING mtpower_hash (b) WITH (initial_buckets = 1);});
my $holder = $subscriber->background_psql('postgres');
$holder->query_safe('BEGIN; INSERT INTO half VALUES (15000);');
subscribe('half');
my $waiting = q{SELECT min(l.pid) FROM pg_locks l JOIN pg_stat_subscription s USING (pid) WHERE locktype = 'transactionid' AND NOT granted};
my $pid = 0;
foreach my $by ('cancel', 'terminate')
{
	$subscriber->poll_query_until('postgres', "SELECT coalesce(($waiting) <> $pid, false)") or die;
	$pid = $subscriber->safe_psql('postgres', $waiting);
	cmp_ok($subscriber->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), '>', 0, "half-way, $by: entries are queued");
	is($subscriber->safe_psql('postgres', "SELECT pg_${by}_backend($pid)"), 't', "half-way, $by");
}
$subscriber->poll_query_until('postgres', "SELECT coalesce(($waiting) <> $pid, false)") or die;
my $from = -s $subscriber->logfile;
$holder->query_safe('COMMIT');
$holder->quit;
ok(log_has(qr/duplicate key value violates unique constraint "half_a_key"/, $from), 'half-way: unique violation');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION half DISABLE');
clean('half-way, after failures');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM half'), 1, 'half-way: nothing of it is visible');

# What raises errors: when a row comes in, when its entry is formed, when batches are applied, when constraints are checked at the end.
my @obstacles = (
	[ 'a constraint', qr/violates check constraint "not_yet"/, 'ALTER TABLE half ADD CONSTRAINT not_yet CHECK (a <> 19900)', 'ALTER TABLE half DROP CONSTRAINT not_yet' ],
	[ 'an expression', qr/division by zero/, 'CREATE INDEX half_expr ON half USING mtpower_blink ((1 / (a - 19900)))', 'DROP INDEX half_expr' ],
	[ 'a foreign key', qr/violates foreign key constraint "half_fk"/, q{
		CREATE TABLE parent (a int PRIMARY KEY); INSERT INTO parent SELECT generate_series(1, 19999);
		ALTER TABLE half ADD CONSTRAINT half_fk FOREIGN KEY (a) REFERENCES parent;
		DO $$ DECLARE t text; BEGIN
			FOR t IN SELECT tgname FROM pg_trigger WHERE tgrelid = 'half'::regclass LOOP
				EXECUTE format('ALTER TABLE half ENABLE ALWAYS TRIGGER %I', t);
			END LOOP; END $$}, 'INSERT INTO parent VALUES (20000)' ]);
push @obstacles, [ 'no disk space', qr/no disk space at injection point/, q{ALTER SYSTEM SET mtpower.debug_injection = 'step_checked=disk_full'}, 'ALTER SYSTEM RESET mtpower.debug_injection' ],
	[ 'a failing split', qr/error at injection point/, q{ALTER SYSTEM SET mtpower.debug_injection = 'leaf_split=error'}, 'ALTER SYSTEM RESET mtpower.debug_injection' ] if $stops;
$subscriber->safe_psql('postgres', 'TRUNCATE half');
foreach my $obstacle (@obstacles)
{
	my ($what, $error, $put, $remove) = @$obstacle;
	$subscriber->safe_psql('postgres', $put);
	$subscriber->reload;
	my $from = -s $subscriber->logfile;
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION half ENABLE');
	ok(log_has(qr/ERROR:  [^\n]*$error/, $from), "$what stops the copy");
	$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION half DISABLE');
	clean($what);
	$subscriber->safe_psql('postgres', $remove);
	$subscriber->reload;
	is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM half'), 0, "$what: nothing of it is visible");
}
SKIP: { skip 'the server was built without assertions, so without injection points', 1 if !$stops; ok(1) }
$subscriber->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
$subscriber->safe_psql('postgres', 'ALTER SUBSCRIPTION half ENABLE');
$subscriber->wait_for_subscription_sync($publisher, 'half');
same('half-way, in the end', 'half');
is(batched('half'), 'half_b 20000, half_c 20000', 'half-way: in the end all came in batches');

# Triggers that fire in replication too: they read the table by its indexes, write others, and fail in subtransactions.
tables([ 'trig' ], 'SELECT i, md5(i::text), i % 10 FROM generate_series(1, 3000) i', q{
	CREATE TABLE trig (a int, b text, c int) USING mtpower;
	CREATE INDEX trig_a ON trig USING mtpower_blink (a);
	CREATE INDEX trig_c ON trig USING mtpower_blink (c);
	CREATE TABLE trig_seen (a int, n int) USING mtpower;
	CREATE INDEX trig_seen_a ON trig_seen USING mtpower_blink (a);
	CREATE FUNCTION each_row() RETURNS trigger LANGUAGE plpgsql SET search_path = public SET enable_seqscan = off AS $$
	BEGIN
		BEGIN
			INSERT INTO trig_seen SELECT -g, 0 FROM generate_series(1, NEW.a) g WHERE NEW.a % 100 = 0;
			PERFORM 1 / (NEW.a % 100);
		EXCEPTION WHEN division_by_zero THEN END;
		INSERT INTO trig_seen SELECT NEW.a, count(*) FROM trig WHERE a = NEW.a;
		RETURN NEW;
	END $$;
	CREATE FUNCTION each_copy() RETURNS trigger LANGUAGE plpgsql SET search_path = public SET enable_seqscan = off AS $$
	BEGIN
		INSERT INTO trig_seen SELECT 10000 + n.a, (SELECT count(*) FROM trig t WHERE t.c = 7) FROM n;
		CREATE TABLE trig_copy USING mtpower AS SELECT * FROM trig WHERE c = 5;
		RETURN NULL;
	END $$;
	CREATE TRIGGER each_row AFTER INSERT ON trig FOR EACH ROW EXECUTE FUNCTION each_row();
	CREATE TRIGGER each_copy AFTER INSERT ON trig REFERENCING NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION each_copy();
	ALTER TABLE trig ENABLE ALWAYS TRIGGER each_row, ENABLE REPLICA TRIGGER each_copy;});
subscribe('trig');
$subscriber->wait_for_subscription_sync($publisher, 'trig');
same('triggers', 'trig');
is($subscriber->safe_psql('postgres', 'SELECT count(*), count(DISTINCT a), min(n), max(n), count(*) FILTER (WHERE a < 0) FROM trig_seen WHERE a < 10000'), '3000|3000|1|1|0',
	'triggers: each saw its own row by the index, and failed subtransactions left nothing');
is($subscriber->safe_psql('postgres', 'SELECT count(*), min(n), max(n) FROM trig_seen WHERE a > 10000'), '3000|300|300', 'triggers: the one for the whole copy saw all rows');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM trig_copy'), 300, 'triggers: and copied a table');
is(batched('trig'), 'trig_a 3000, trig_c 3000, trig_seen_a 41776', 'triggers: batches of the copy, and of the statement in the trigger');

# Partitions: more than CopyFrom keeps buffers for, some heap, in an order that makes it drop and open buffers again and again.
tables([ 'parts' ], 'SELECT i, md5(i::text), (i / 700) * 7 % 50 FROM generate_series(1, 35000) i', q{
	CREATE TABLE parts (a int, b text, c int) PARTITION BY LIST (c);
	CREATE INDEX parts_a ON parts USING mtpower_blink (a);
	CREATE INDEX parts_b ON parts USING mtpower_blink (b);
	CREATE INDEX parts_h ON parts USING mtpower_hash (b);
	DO $$ BEGIN
		FOR i IN 0 .. 49 LOOP
			EXECUTE format('CREATE TABLE parts_%s PARTITION OF parts FOR VALUES IN (%s) USING %s', i, i, CASE i % 10 WHEN 3 THEN 'heap' ELSE 'mtpower' END);
		END LOOP; END $$;});
$publisher->safe_psql('postgres', q{INSERT INTO parts SELECT i, 'late', i % 50 FROM generate_series(40001, 42000) i; INSERT INTO parts SELECT i, 'later', i / 400 FROM generate_series(0, 19999) i});
subscribe('parts');
$subscriber->wait_for_subscription_sync($publisher, 'parts');
same('partitions', 'parts');
cmp_ok($subscriber->safe_psql('postgres', q{SELECT sum(entries) FROM mtpower.stat_batches WHERE index::text LIKE 'parts%a_idx'}), '>', 40000, 'partitions: came in batches');

# A partition's BEFORE trigger changes something, then looks into another partition, whose rows are queued and older than the change.
$publisher->safe_psql('postgres', 'CREATE TABLE looks (a int, b text, c int)');
$publisher->safe_psql('postgres', "INSERT INTO looks SELECT i, 'x', CASE WHEN i % 900 IN (0, 1) THEN 0 ELSE 1 END FROM generate_series(1, 9000) i");
$publisher->safe_psql('postgres', 'CREATE PUBLICATION looks FOR TABLE looks');
$subscriber->safe_psql('postgres', q{
	CREATE TABLE looks (a int, b text, c int) PARTITION BY LIST (c);
	CREATE TABLE looks_0 PARTITION OF looks FOR VALUES IN (0) USING mtpower;
	CREATE TABLE looks_1 PARTITION OF looks FOR VALUES IN (1) USING mtpower;
	CREATE INDEX looks_c ON looks USING mtpower_blink (c);
	CREATE TABLE looked (a int, by_index int, by_table int);
	CREATE FUNCTION by_index() RETURNS int LANGUAGE plpgsql SET search_path = public SET enable_seqscan = off AS
		$$ BEGIN RETURN (SELECT count(*) FROM looks_1 WHERE c = 1); END $$;
	CREATE FUNCTION by_table() RETURNS int LANGUAGE plpgsql SET search_path = public AS $$ BEGIN RETURN (SELECT count(*) FROM looks_1 WHERE c + 0 = 1); END $$;
	CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
	DECLARE i int := by_index();	-- with the snapshot that the last call's INSERT left
	BEGIN
		INSERT INTO looked VALUES (NEW.a, i, by_table());
		RETURN NEW;
	END $$;
	CREATE TRIGGER look BEFORE INSERT ON looks_0 FOR EACH ROW EXECUTE FUNCTION look();
	ALTER TABLE looks_0 ENABLE ALWAYS TRIGGER look;});
subscribe('looks');
$subscriber->wait_for_subscription_sync($publisher, 'looks');
same('a trigger that looks', 'looks');
is($subscriber->safe_psql('postgres', 'SELECT count(*), max(by_table), string_agg(looked::text, \' \' ORDER BY a) FILTER (WHERE by_index IS DISTINCT FROM by_table) FROM looked'),
	'20|8980|', 'a trigger that looks: finds by the index what is in the table');
cmp_ok($subscriber->safe_psql('postgres', q{SELECT sum(entries) FROM mtpower.stat_batches WHERE index::text LIKE 'looks_1%'}), '>', 4000, 'a trigger that looks: into queues');

# Changes that are applied: large transactions with TRUNCATE in the middle, streamed or not, and what triggers batch meanwhile.
foreach my $streaming (qw(off on))
{
	my $name = "apply_$streaming";
	tables([ $name, "${name}_heap" ], 'SELECT i, md5(i::text), i % 10 FROM generate_series(1, 1000) i', qq{
		CREATE TABLE $name (a int, b text, c int) USING mtpower;
		CREATE TABLE ${name}_heap (a int, b text, c int);
		CREATE TABLE ${name}_log (a int, b text) USING mtpower;
		CREATE INDEX ON $name USING mtpower_blink (a); CREATE INDEX ON $name USING mtpower_blink (b);
		CREATE INDEX ON ${name}_heap USING mtpower_blink (a); CREATE INDEX ON ${name}_heap USING mtpower_blink (c, b);
		CREATE INDEX ${name}_log_b ON ${name}_log USING mtpower_blink (b);
		CREATE FUNCTION ${name}_log() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS \$\$ BEGIN
			INSERT INTO ${name}_log SELECT g, NEW.b FROM generate_series(1, 400) g WHERE NEW.a % 1000 = 999;
			RETURN NEW; END \$\$;
		CREATE TRIGGER log AFTER INSERT ON $name FOR EACH ROW EXECUTE FUNCTION ${name}_log();
		ALTER TABLE $name ENABLE ALWAYS TRIGGER log;});
	subscribe($name, " WITH (streaming = $streaming)");
	$subscriber->wait_for_subscription_sync($publisher, $name);
	foreach my $end ('COMMIT', 'ROLLBACK', 'COMMIT')
	{
		my $insert = sub { my ($from, $n) = @_; return join(';', map { "INSERT INTO $_ SELECT i, md5(i::text), i % 10 FROM generate_series($from, $from + $n) i" } $name, "${name}_heap") };
		$publisher->safe_psql('postgres', join(';', 'BEGIN', $insert->(10000, 2500), 'SAVEPOINT a', $insert->(20000, 2000), "TRUNCATE $name, ${name}_heap",
			$insert->(30000, 2600), 'SAVEPOINT b', "TRUNCATE $name", $insert->(40000, 1500), 'ROLLBACK TO b', $insert->(50000, 2100), $end));
	}
	$publisher->wait_for_catchup($name);
	same("INSERT, TRUNCATE, INSERT, streaming $streaming", $name, "${name}_heap");
	is($subscriber->safe_psql('postgres', "SELECT count(*), count(DISTINCT b) FROM ${name}_log"), '6800|9', "streaming $streaming: what the trigger wrote");
	cmp_ok($subscriber->safe_psql('postgres', "SELECT entries FROM mtpower.stat_batches WHERE index = '${name}_log_b'::regclass"), '>', 1000, "streaming $streaming: came in batches");
	my $streamed = $publisher->safe_psql('postgres', "SELECT pg_stat_force_next_flush(); SELECT stream_txns > 0 FROM pg_stat_replication_slots WHERE slot_name = '$name'");
	is($streamed =~ s/^\n//r, $streaming eq 'on' ? 't' : 'f', "streaming $streaming: what the publisher did");
}

# C code in a trigger that fails between multi_insert and finish_bulk_insert: what comes after it must not queue, for TRUNCATE
# would find it queued.
tables([ 'stray' ], 'SELECT 10000', q{
	CREATE TABLE stray (a int, b text, c int) USING mtpower;
	CREATE INDEX stray_a ON stray USING mtpower_blink (a);
	CREATE TABLE stray_to (a int, b text) USING mtpower;
	CREATE INDEX stray_to_a ON stray_to USING mtpower_blink ((1 / (a - 5000)));
	CREATE FUNCTION c_insert_multi(regclass, int, int, text) RETURNS int LANGUAGE c AS 'c_inserts';
	CREATE FUNCTION stray() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$ BEGIN
		PERFORM c_insert_multi('stray_to', 4500, CASE NEW.a WHEN 1 THEN 1000 ELSE 400 END, 'x');
		RETURN NEW;
	EXCEPTION WHEN division_by_zero THEN RETURN NEW; END $$;
	CREATE TRIGGER stray AFTER INSERT ON stray FOR EACH ROW WHEN (NEW.a < 3) EXECUTE FUNCTION stray();
	ALTER TABLE stray ENABLE ALWAYS TRIGGER stray;});
subscribe('stray');
$subscriber->wait_for_subscription_sync($publisher, 'stray');
$subscriber->safe_psql('postgres', 'SELECT mtpower.stat_reset()');
foreach my $not (1, 2)
{
	$publisher->safe_psql('postgres', "BEGIN; INSERT INTO stray SELECT i FROM generate_series(1, 3000) i WHERE i <> $not; TRUNCATE stray; INSERT INTO stray SELECT i FROM generate_series(3001, 5000) i; COMMIT");
}
$publisher->wait_for_catchup('stray');
same('C code', 'stray');
is($subscriber->safe_psql('postgres', 'SELECT count(*) FROM stray_to'), 400, 'C code: what failed is not there');
is(batched('stray'), 'stray_a 0, stray_to_a 400', 'C code: only its own rows came in batches');

log_is_clean($subscriber);
$subscriber->stop;
$publisher->stop;
done_testing();
