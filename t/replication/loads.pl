# Loads run beside queries on a standby, beside a base backup, beside a recovery that ends within
# them, and beside the standby's promotion. Nothing of an unfinished load is visible, and every
# index is sound. MTP_LONG=1 loads for a minute.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpLoad;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $seconds = $ENV{MTP_LONG} ? 60 : 5;
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, has_archiving => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 12
wal_consistency_checking = 'mtpower'
max_wal_size = 10GB
autovacuum = off
});
$primary->start;

$primary->safe_psql('postgres', scans_sql() . q{
CREATE EXTENSION mtpower;
CREATE TABLE fed (load int, k int, txt text) USING mtpower;
CREATE TABLE kept (load int, k int, txt text) USING heap;
CREATE UNLOGGED TABLE brief (load int, k int, txt text) USING mtpower;
CREATE INDEX fed_k ON fed USING mtpower_blink (k);
CREATE INDEX fed_txt ON fed USING mtpower_blink (txt COLLATE "C" DESC) INCLUDE (k);
CREATE INDEX kept_k ON kept USING mtpower_blink (k, load);
CREATE INDEX kept_load ON kept USING mtpower_blink (load) WHERE k % 3 = 0;
CREATE INDEX brief_k ON brief USING mtpower_blink (k);
CREATE INDEX fed_h ON fed USING mtpower_hash (txt);
CREATE INDEX kept_h ON kept USING mtpower_hash (load) WITH (initial_buckets = 1);
CREATE INDEX brief_h ON brief USING mtpower_hash (txt);
INSERT INTO fed SELECT 0, hashint4(g) & 1048575, md5(g::text) FROM generate_series(1, 20000) g;
INSERT INTO kept SELECT * FROM fed;
INSERT INTO brief SELECT * FROM fed;
VACUUM ANALYZE;
});
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "max_standby_streaming_delay = 1s\n");
$standby->start;

sub catch_up { $primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert')); return; }

sub verify
{
	my ($node, $what) = @_;
	is_sound($node, $what);
	is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory WHERE NOT pg_is_in_recovery()') || 0, 0, "$what: no memory is held");
	my ($rc, $out, $err) = $node->psql('postgres', q{SET default_transaction_isolation = 'repeatable read'; SELECT compare('fed', 0, 1048575), compare('kept', 0, 1048575)});
	is("$rc $err", '0 ', "$what: all scans agree");
	return;
}

# ---------- queries on the standby beside replay ----------

my $load = q{\set n random(1, 1000000)
	COPY fed FROM PROGRAM 'awk "BEGIN { srand(:n); for (i = 0; i < 4000; i++) { k = int(rand() * 1048576); printf(\"1\t%d\t%s\n\", k, k * 7) } }"';};
my $insert = q{\set n random(1, 1000000)
	INSERT INTO kept SELECT :n, hashint4(g) & 1048575, g::text FROM generate_series(:n, :n + 3000) g;};
my $delete = q{\set lo random(0, 1048575)
	DELETE FROM fed WHERE k BETWEEN :lo AND :lo + 200000;
	DELETE FROM kept WHERE k BETWEEN :lo AND :lo + 200000;};
my $vacuum = q{VACUUM (INDEX_CLEANUP on) fed;
	VACUUM (INDEX_CLEANUP on) kept;
	\sleep 100 ms};
my $compare = q{\set lo random(0, 1048575)
	SELECT compare('fed', :lo, :lo + 20000), compare('kept', :lo, :lo + 20000);};
my $pages = q{SELECT count(*) FROM (VALUES ('fed_k'), ('kept_k')) i (i), generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b,
	mtpower.page_info(i::regclass, b) p WHERE p.type = 'deleted'};
my %runs = (
	'changes' => start_pgbench($primary, $seconds, 2, $load => 4, $insert => 4, $delete => 3),
	'VACUUM' => start_pgbench($primary, $seconds, 1, $vacuum => 1),
	'queries on the standby' => start_pgbench($standby, $seconds, 2, $compare => 1));
my ($verified, @wrong) = (0);
my $end = time + $seconds;
while (time < $end)
{
	foreach my $index (qw(fed_k fed_txt fed_h kept_k kept_load kept_h))
	{
		my ($rc, $out, $err) = $standby->psql('postgres', "SELECT mtpower.verify_index('$index', true)");
		if ($rc == 0) { $verified++; }
		elsif ($err !~ /conflict with recovery/) { push @wrong, $err; }
	}
}
finish_pgbench($runs{$_}, "together, $_", 1, qr/conflict with recovery|backend died|transaction status/) foreach sort keys %runs;
is(join("\n", @wrong), '', 'verification on the standby beside replay finds nothing');
cmp_ok($verified, '>', 0, 'and came to its end');
$primary->safe_psql('postgres', "DELETE FROM $_ WHERE k < 300000;\nVACUUM (INDEX_CLEANUP on) $_") foreach qw(fed kept);
catch_up();
verify($_, $_->name) foreach $primary, $standby;
cmp_ok($primary->safe_psql('postgres', q{SELECT min(entries) FROM mtpower.stat_batches WHERE index::text ~ 'fed|kept_k'}), '>', 10000, 'the loads came in batches');
cmp_ok($standby->safe_psql('postgres', $pages), '>', 0, 'and pages were deleted');

# ---------- unfinished loads ----------

my $chunk = "$dir/chunk";
append_to_file($chunk, join('', map { my $k = ($_ * 7919 * 31) % 1048576; "2\t$k\t" . $k * 7 . "\n" } 1 .. 2000));
my $feed = "for i in `seq 900`; do [ -e $dir/end ] && break; cat $chunk; sleep 0.2; done";
# Pages are compared above; here they would only be much WAL.
$primary->append_conf('postgresql.conf', q{wal_consistency_checking = ''});
$primary->reload;
my $committed = $primary->safe_psql('postgres', 'SELECT (SELECT count(*) FROM fed), (SELECT count(*) FROM kept)');
$primary->safe_psql('postgres', q{SELECT mtpower.stat_reset()});
my @loads = map { my $load = { err => '' };
	$load->{h} = IPC::Run::start([ 'psql', '-XAtq', '-d', $primary->connstr('postgres'), '-c', "COPY $_ FROM PROGRAM '$feed'" ], '<', \undef, '2>', \$load->{err});
	$load } qw(fed kept);

# The loads are under way, and workers have put entries of both into indexes.
sub underway
{
	my ($what, $min) = @_;
	$primary->poll_query_until('postgres', "SELECT min(entries_workers) > $min FROM mtpower.stat_batches WHERE index::text IN ('fed_k', 'kept_k')") or die;
	is($primary->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'COPY %PROGRAM%' AND backend_type = 'client backend' AND pid <> pg_backend_pid()}),
		2, "$what: the loads are under way");
	return;
}

# Entries on leaves, whoever's rows they lead to
my $entries = q{SELECT sum(p.items) FROM generate_series(1, pg_relation_size('fed_k') / current_setting('block_size')::int - 1) b, mtpower.page_info('fed_k', b) p WHERE p.level = 0 AND p.type = 'leaf'};

sub unfinished
{
	my ($node, $what) = @_;
	is($node->safe_psql('postgres', 'SELECT (SELECT count(*) FROM fed), (SELECT count(*) FROM kept)'), $committed, "$what: nothing of the unfinished loads is visible");
	cmp_ok($node->safe_psql('postgres', $entries), '>', (split /\|/, $committed)[0], "$what: though they left entries");
	verify($node, $what);
	$node->safe_psql('postgres', q{VACUUM (INDEX_CLEANUP on) fed; VACUUM (INDEX_CLEANUP on) kept});
	$node->safe_psql('postgres', "COPY fed FROM '$chunk'; COPY kept FROM '$chunk'");
	$node->safe_psql('postgres', "INSERT INTO fed SELECT 3, hashint4(g) & 1048575, g::text FROM generate_series(1, 10000) g");
	verify($node, "$what, after VACUUM and loads");
	return;
}

underway('before the backup', 4000);
$primary->backup('during');
underway('after the backup', 8000);
my $target = $primary->lsn('insert');
underway('behind the target', 12000);
catch_up();
ok($standby->safe_psql('postgres', 'SELECT pg_promote()') eq 't', 'the standby is promoted');
underway('after the promotion', 12000);
append_to_file("$dir/end", '');
is($_->{h}->finish ? '' : $_->{err}, '', 'the load on the primary ends') foreach @loads;
unfinished($standby, 'promoted');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM brief}), 0, 'promoted: an unlogged table is empty');
$standby->safe_psql('postgres', "COPY brief FROM '$chunk'");
$standby->stop('immediate');
$standby->start;
verify($standby, 'promoted, after a crash');
is($standby->safe_psql('postgres', q{SET enable_seqscan = off; SELECT count(*) FROM brief WHERE k > 0}), 0, 'promoted, after a crash: an unlogged table is empty');
$standby->stop;

verify($primary, 'primary');
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
my $segment = $primary->safe_psql('postgres', "SELECT pg_walfile_name('$target')");
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver") or die;

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($primary, 'during');
$restored->start;
unfinished($restored, 'restored backup');
$restored->stop;

my $past = PostgreSQL::Test::Cluster->new('past');
$past->init_from_backup($primary, 'during', has_restoring => 1, standby => 0);
$past->append_conf('postgresql.conf', "recovery_target_lsn = '$target'\nrecovery_target_action = promote\n");
$past->start;
$past->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
unfinished($past, 'recovered to a moment of the loads');
$past->stop;

log_is_clean($_) foreach $primary, $standby, $restored, $past;
$primary->stop;
done_testing();
