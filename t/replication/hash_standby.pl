# A hot standby replays loads, growth, deletions with hints and VACUUM of hash indexes. Its
# queries see what its tables have, redo agrees with every page, and queries are cancelled where
# they must be. Then it is promoted while the primary stands in the middle of growths, and both go
# on.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;
use MtpLoad;

my $seconds = $ENV{MTP_LONG} ? 60 : 6;
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batch_min_rows = 100
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 12
wal_consistency_checking = 'all, mtpower'
wal_keep_size = 8GB
max_wal_size = 8GB
autovacuum = off
});
$primary->start;
my $faults = MtpFaults->new($primary, 'fed');

# compare(table, k) reads the rows with a key by an index scan and by a bitmap, and raises an error where they differ from the table.
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . scans_sql() . hash_model_sql() . q{
CREATE FUNCTION read_key(name text, key int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(txt, '' '' ORDER BY txt)), '''') FROM %I WHERE k = $1 AND txt >= ''''', name) INTO t USING key;
	RETURN t;
END $$;
CREATE FUNCTION compare_key(name text, key int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE want text;
BEGIN
	PERFORM scans(true, false, false, false);
	want := read_key(name, key);
	PERFORM scans(false, true, false, false);
	IF read_key(name, key) <> want THEN RAISE 'index: % %', name, key; END IF;
	PERFORM scans(false, false, false, true);
	IF read_key(name, key) <> want THEN RAISE 'bitmap: % %', name, key; END IF;
	RETURN want;
END $$;
CREATE TABLE fed (k int, txt text COLLATE "C") USING mtpower;
CREATE TABLE kept (k int, txt text COLLATE "C") USING heap;
CREATE TABLE few (k int, txt text COLLATE "C") USING mtpower;
CREATE UNLOGGED TABLE brief (k int, txt text COLLATE "C") USING mtpower;
CREATE INDEX fed_k ON fed USING mtpower_hash (k);
CREATE INDEX fed_txt ON fed USING mtpower_hash (txt, k);
CREATE INDEX kept_k ON kept USING mtpower_hash (k) WITH (initial_buckets = 1, fillfactor = 10);
CREATE INDEX kept_part ON kept USING mtpower_hash (txt) WHERE k % 3 = 0;
CREATE INDEX few_k ON few USING mtpower_hash (k) WITH (initial_buckets = 2);
CREATE INDEX brief_k ON brief USING mtpower_hash (k);
INSERT INTO few SELECT g % 4, 'few' FROM generate_series(1, 4000) g;
INSERT INTO brief SELECT g, 'brief' FROM generate_series(1, 4000) g;
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 1s');
$standby->start;
my $from = $primary->lsn('insert');

sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); return; }

# One key in eight rows is 7: its chain is read, hinted, emptied, filled.
my $load = q{\set n random(1, 1000000)
	COPY fed FROM PROGRAM 'awk "BEGIN { srand(:n); for (i = 0; i < 3000; i++) { k = i % 8 ? int(rand() * 20000) : 7; printf(\"%d\tload %d\n\", k, k * i) } }"';};
my $insert = q{\set n random(1, 1000000)
	INSERT INTO kept SELECT CASE WHEN g % 8 > 0 THEN abs(hashint4(g)) % 20000 ELSE 7 END, g::text FROM generate_series(:n, :n + 2000) g;};
my $single = q{\set k random(0, 3)
	DELETE FROM few WHERE ctid = ANY (ARRAY(SELECT ctid FROM few WHERE k = :k LIMIT 200));
	SELECT count(*) FROM few WHERE k = :k;
	INSERT INTO few SELECT :k, g::text FROM generate_series(1, 50) g;
	INSERT INTO few SELECT :k, g::text FROM generate_series(1, 140) g;};
my $delete = q{\set k random(0, 19)
	DELETE FROM fed WHERE k % 20 = :k;
	DELETE FROM kept WHERE k % 20 = :k;
	DELETE FROM kept WHERE k = 7;};
my $update = q{\set k random(0, 20000)
	UPDATE fed SET k = k + 1 WHERE k BETWEEN :k AND :k + 100;};
my $reads = q{\set k random(0, 20000)
	SELECT compare_key('fed', :k), compare_key('kept', :k), compare_key('fed', 7), compare_key('kept', 7), compare_key('few', :k % 4);};
my $vacuum = q{VACUUM (INDEX_CLEANUP on) fed;
	VACUUM (INDEX_CLEANUP on) kept;
	VACUUM (INDEX_CLEANUP on) few;
	CHECKPOINT;
	\sleep 100 ms};
my %runs = (
	'changes' => start_pgbench($primary, $seconds, 3, $load => 4, $insert => 4, $delete => 2, $update => 2, $reads => 4),
	'few keys' => start_pgbench($primary, $seconds, 2, $single => 1),
	'VACUUM' => start_pgbench($primary, $seconds, 1, $vacuum => 1),
	'queries on the standby' => start_pgbench($standby, $seconds, 2, $reads => 1));
my ($verified, @wrong) = (0);
my $end = time + $seconds;
while (time < $end)
{
	foreach my $index (qw(fed_k fed_txt kept_k kept_part few_k))
	{
		my ($rc, $out, $err) = $standby->psql('postgres', "SELECT mtpower.verify_index('$index', true)");
		if ($rc == 0) { $verified++; }
		elsif ($err !~ /conflict with recovery/) { push @wrong, $err; }
	}
}
my $gone = qr/conflict with recovery|backend died|transaction status|connection to server/;
finish_pgbench($runs{$_}, "together, $_", 1, $_ =~ /standby/ ? $gone : undef) foreach sort keys %runs;
is(join("\n", @wrong), '', 'verification on the standby beside replay finds nothing');
cmp_ok($verified, '>', 0, 'and came to its end');

# Everything compared: each table on both, each index on both, and bucket by bucket
sub compare_all
{
	my ($what) = @_;
	my %sum;
	catch_up();
	foreach my $server ($primary, $standby)
	{
		is_sound($server, "$what, " . $server->name);
		foreach my $table (qw(fed kept few))
		{
			$sum{$table}{ $server->name } = $server->safe_psql('postgres', "SELECT count(*), sum(hashtext(x::text)::bigint) FROM $table x");
			is($server->safe_psql('postgres', "SELECT compare_key('$table', 7) = compare_key('$table', 7) AND count(compare_key('$table', k)) = 40 FROM generate_series(0, 39) k"), 't', "$what, " . $server->name . ": scans of $table agree");
		}
	}
	is($sum{$_}{standby}, $sum{$_}{primary}, "$what: the same rows of $_") foreach sort keys %sum;
	return;
}
compare_all('under load');
$primary->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $_") foreach qw(fed kept few);
catch_up();
foreach my $server ($primary, $standby)
{
	is(differences($server, "${_}_k", "SELECT spread(hashint4(k)) FROM $_"), '', "vacuumed, " . $server->name . ": each bucket of ${_}_k is as the model has it") foreach qw(fed kept few);
}
# A snapshot on the standby that sees rows whose entries an inserter took away on the primary must go, or they would be missing.  The rows are so long that
# the pages of the table are not pruned: that would be a conflict of its own.
$standby->append_conf('postgresql.conf', 'max_standby_streaming_delay = 0');
$standby->reload;
$primary->safe_psql('postgres', q{
	CREATE TABLE long (k int, txt text) USING heap;
	ALTER TABLE long ALTER txt SET STORAGE plain;
	CREATE INDEX long_k ON long USING mtpower_hash (k) WITH (initial_buckets = 2);
	INSERT INTO long SELECT 1, repeat('x', 3000) FROM generate_series(1, 650) g});
catch_up();
my $log = -s $standby->logfile;
my $old = $standby->background_psql('postgres', on_error_stop => 0);
$old->query('BEGIN ISOLATION LEVEL REPEATABLE READ');
is($old->query('SELECT count(*) FROM long'), '650', 'a snapshot on the standby');
$primary->safe_psql('postgres', q{
	DELETE FROM long;
	SET enable_seqscan = off; SET enable_bitmapscan = off;
	SELECT count(*) FROM long WHERE k = 1;
	SET mtpower.batching = off;
	INSERT INTO long SELECT 1, 'new' FROM generate_series(1, 300) g});
is($primary->safe_psql('postgres', q{SELECT sum(items) FROM pages('long_k')}), '300', 'an inserter has deleted the entries');
catch_up();
# The session is gone, and psql with it.
my $answer = eval { $old->query(q{SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM long WHERE k = 1}) };
ok(!$answer || $answer eq '650', 'it does not miss any of its rows') or diag("it found $answer");
like(slurp_file($standby->logfile, $log), qr/conflict with recovery/, 'it is cancelled');
eval { $old->quit };
is($standby->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM long WHERE k = 1}), '300', 'a new one sees the new rows');

# pg_waldump does not know their names.
my ($records) = run_command([ 'pg_waldump', '--rmgr=custom155', '--path=' . $primary->data_dir . '/pg_wal', "--start=$from", '--end=' . $primary->lsn('flush') ]);
my %codes = (insert => '80', add => '90', split => 'a0', meta => 'b0', delete => 'c0', vacuum => 'd0', pages => 'e0');
my %seen;
$seen{$1}++ while $records =~ /desc: UNKNOWN \((..)\)/g;
cmp_ok($seen{ $codes{$_} } // 0, '>', 0, "records: $_") foreach sort keys %codes;

# ---------- promotion in the middle of growth ----------

SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$faults->has_stops;
	my @growths = qw(hash_extended hash_initial hash_split hash_piece);
	# One bucket with so many rows: a cursor keeps it from being split.
	my %rows = (hash_extended => 300, hash_initial => 0, hash_split => 20000, hash_piece => 40000);
	foreach my $point (@growths)
	{
		my $fixed = $rows{$point} ? 'WITH (initial_buckets = 1)' : '';
		$primary->safe_psql('postgres', qq{
			CREATE TABLE g_$point (k int, txt text) USING mtpower;
			CREATE INDEX g_${point}_k ON g_$point USING mtpower_hash (k) $fixed;});
		$primary->safe_psql('postgres', qq{
			SET enable_seqscan = off; SET enable_bitmapscan = off;
			INSERT INTO g_$point VALUES (-1, 'pinned'), (-1, 'pinned');
			BEGIN;
			DECLARE c CURSOR FOR SELECT k FROM g_$point WHERE k = -1;
			FETCH 1 FROM c;
			INSERT INTO g_$point SELECT hashint4(g), 'before' FROM generate_series(1, $rows{$point}) g;
			COMMIT}) if $rows{$point};
	}
	$faults->hold;
	$faults->set_all('mtpower.workers', 0);
	$faults->wait_for('SELECT count(*) = 0 FROM mtpower.stat_workers', 'the workers to go');
	my @jobs = map { $faults->start("SET mtpower.batch_min_rows = 0; SET mtpower.debug_injection = '$_=wait'", "INSERT INTO g_$_ SELECT hashint4(g), 'load' FROM generate_series(100001, 103000) g") } @growths;
	$faults->stopped(q{query LIKE 'INSERT INTO g\_%'}, scalar(@growths));
	$primary->safe_psql('postgres', "INSERT INTO few VALUES (1, 'last')");
	catch_up();
	is(space_of($standby, "g_${_}_k")->{b}, space_of($primary, "g_${_}_k")->{b}, "$_: as many buckets on the standby") foreach @growths;
	like($standby->safe_psql('postgres', qq{SELECT string_agg(source::text, ' ') FROM pages('g_${_}_k')}), qr/\d/, "$_: a split is not finished") foreach qw(hash_split hash_piece);
	$standby->promote;
	$standby->append_conf('postgresql.conf', 'mtpower.workers = 2');
	foreach my $point (@growths)
	{
		my $rows = $rows{$point} ? $rows{$point} + 2 : 0;
		is($standby->safe_psql('postgres', "SELECT count(*), mtpower.verify_index('g_${point}_k', true) FROM g_$point"), "$rows|", "$point: promoted, nothing of the load is visible, and its index is sound");
		$standby->safe_psql('postgres', qq{
			INSERT INTO g_$point SELECT hashint4(g), 'after' FROM generate_series(200001, 206000) g;
			INSERT INTO g_$point SELECT hashint4(g), 'after' FROM generate_series(206001, 240000) g});
		is(differences($standby, "g_${point}_k", "SELECT spread(hashint4(k)) FROM g_$point"), '', "$point: promoted, grown further");
		is($standby->safe_psql('postgres', "SELECT count(*), mtpower.verify_index('g_${point}_k', true) FROM g_$point"), $rows + 40000 . '|', "$point: promoted, and loaded");
		$standby->safe_psql('postgres', "DELETE FROM g_$point WHERE txt = 'before' OR k % 2 = 0; VACUUM g_$point; INSERT INTO g_$point SELECT hashint4(g), 'more' FROM generate_series(300001, 310000) g");
		is(differences($standby, "g_${point}_k", "SELECT spread(hashint4(k)) FROM g_$point"), '', "$point: promoted, vacuumed and grown further");
		my $s = space_of($standby, "g_${point}_k");
		is($standby->safe_psql('postgres', "SELECT $s->{b} * $s->{per_bucket} >= 40000"), 't', "$point: promoted, it is large enough");
	}
	is_sound($standby, 'promoted');

	# The primary's own go on as if nothing had happened.
	$faults->release;
	is($faults->finish($_), '', 'the load ends on the old primary') foreach @jobs;
	is(differences($primary, "g_${_}_k", "SELECT spread(hashint4(k)) FROM g_$_"), '', "$_: the old primary has grown further") foreach @growths;
}
is_sound($primary, 'primary');
is($standby->safe_psql('postgres', 'SELECT count(*) FROM brief'), $faults->has_stops ? '0' : '', 'an unlogged table is empty') if $faults->has_stops;
is_clean($standby, 'in the end') if $faults->has_stops;
log_is_clean($_) foreach $primary, $standby;
$standby->stop;
$primary->stop;
done_testing();
