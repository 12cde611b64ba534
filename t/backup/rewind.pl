# pg_rewind takes back a primary that stopped, and one that crashed, after both sides went on from
# the middle of a load: with splits, growth, page deletions, dead hints, and indexes that were
# created and dropped on each side. The old primary then follows the new one and has the same
# pages. The roles change once more.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpBackup;
use MtpFaults;

my $a = PostgreSQL::Test::Cluster->new('a');
$a->init(allows_streaming => 1);
$a->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
mtpower.workers = 1
max_worker_processes = 12
wal_keep_size = 1GB
max_wal_size = 1GB
autovacuum = off
});
$a->start;
$a->safe_psql('postgres', backup_schema() . 'BEGIN;' . fill_sql(1, 12000) . 'COMMIT;' . q{
	CREATE EXTENSION amcheck;
	CREATE INDEX fed_ver ON fed USING btree (ver);
	CREATE INDEX fed_both ON fed USING btree (txt, k);
	CREATE TABLE small (k int) USING mtpower;
	CREATE INDEX small_k ON small USING mtpower_blink (k);
	CREATE INDEX small_h ON small USING mtpower_hash (k);
	INSERT INTO small SELECT generate_series(1, 5000);
	-- empty until both sides load into them
	CREATE TABLE vacant1 (k int, txt text) USING mtpower;
	CREATE INDEX vacant1_k ON vacant1 USING mtpower_blink (k);
	CREATE INDEX vacant1_h ON vacant1 USING mtpower_hash (k);
	CREATE TABLE vacant2 (LIKE vacant1) USING mtpower;
	CREATE INDEX vacant2_k ON vacant2 USING mtpower_blink (k);
	CREATE INDEX vacant2_h ON vacant2 USING mtpower_hash (k);
	-- by_index: counts all rows as each kind of index finds them, and raises an error where the table has others
	CREATE FUNCTION by_index() RETURNS void LANGUAGE plpgsql SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_bitmapscan = off AS $$
	DECLARE n bigint; m bigint; q text;
	BEGIN
		FOREACH q IN ARRAY ARRAY['SELECT count(*), (SELECT count(*) FROM fed WHERE k + 0 >= 0) FROM fed WHERE k >= 0',
			'SELECT count(*), (SELECT count(*) FROM fed) FROM (SELECT DISTINCT load, k FROM fed OFFSET 0) d JOIN fed USING (load, k)',
			'SELECT count(*), (SELECT count(*) FROM kept WHERE ver + 0 >= 0) FROM kept WHERE ver >= 0',
			'SELECT count(*), (SELECT count(*) FROM kept) FROM (SELECT DISTINCT k FROM kept OFFSET 0) d JOIN kept USING (k)']
		LOOP
			EXECUTE q INTO n, m;
			IF n <> m THEN RAISE '% rows by index, % in the table: %', n, m, q; END IF;
		END LOOP;
	END $$;
});
my $dead = q{SELECT c.relname, sum(p.dead) FROM pg_class c, generate_series(1, pg_relation_size(c.oid) / current_setting('block_size')::int - 1) b, mtpower.page_info(c.oid, b) p
	WHERE c.relname IN ('fed_k', 'kept_k') GROUP BY 1 ORDER BY 1};
$a->backup('base');
my $b = PostgreSQL::Test::Cluster->new('b');
$b->init_from_backup($a, 'base', has_streaming => 1);
$b->start;

# The one server gets a load, half of which the other has when it is promoted; then both go their own ways.
sub diverge
{
	my ($old, $new, $round) = @_;
	my $faults = MtpFaults->new($old, 'fed');
	my $what = "round $round";
	$old->safe_psql('postgres', 'CHECKPOINT; SELECT mtpower.stat_reset()');
	my $load = $faults->start_fed('', 'COPY fed (load, k, txt) FROM STDIN');
	my @rows = map { my $k = int(rand(1e8)); $round . "00\t$k\tt$k\n" } 1 .. 8000;
	my $feed = sub { my $part = join('', splice(@rows, 0, 4000)); while ($part ne '') { $faults->feed($load, substr($part, 0, 8192, '')); } };
	$feed->();
	$faults->wait_for(q{SELECT sum(entries) > 1000 FROM mtpower.stat_batches WHERE index = 'fed_txt'::regclass}, 'batches');
	$old->wait_for_catchup($new, 'replay', $old->lsn('insert'));
	$new->promote;
	$new->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
	$feed->();
	is($faults->finish($load), '', "$what: the load ends where it began");

	my $unlinked = q{SELECT count(*) FROM pg_class c, generate_series(1, pg_relation_size(c.oid) / current_setting('block_size')::int - 1) b, mtpower.page_info(c.oid, b) p
		WHERE c.relname = 'kept_ver' AND p.type = 'deleted'};
	foreach my $node ($old, $new)
	{
		my $own = $node == $old ? 1 : 2;
		my $low = 30000000 * $own;
		# Rows that are dead here alone, and that scans have found dead; then other loads, page deletions, files that come and go.
		$node->safe_psql('postgres', $_) foreach "UPDATE kept SET ver = $round WHERE ver < $round AND k > $low", "DELETE FROM kept WHERE load = 1 AND ver = $round AND k < $low + 20000000",
			"DELETE FROM fed WHERE k BETWEEN $low AND $low + 3000000", 'SELECT by_index()', 'SELECT by_index()';
		my %dead = map { split /\|/ } split /\n/, $node->safe_psql('postgres', $dead);
		cmp_ok($dead{$_}, '>', 0, "$what: scans of $_ have found dead rows: " . $node->name) foreach qw(fed_k kept_k);
		$node->safe_psql('postgres', 'CHECKPOINT') if $round == 1;
		$node->safe_psql('postgres', $_) foreach 'BEGIN;' . fill_sql(10 * $round + $own, 4000 + 3000 * $own) . 'COMMIT', 'VACUUM (INDEX_CLEANUP on) kept',
			"COPY vacant$round (k) FROM PROGRAM 'seq $own 3 ${own}0000'", 'TRUNCATE small', "INSERT INTO small SELECT generate_series(1, 3000 * $own)", 'DROP INDEX IF EXISTS fed_new', 'REINDEX INDEX fed_h',
			"INSERT INTO fed SELECT 5, g FROM generate_series(1, 300) g", 'CREATE INDEX fed_new ON fed USING mtpower_blink (ver, k)';
		cmp_ok($node->safe_psql('postgres', $unlinked), '>', 0, "$what: VACUUM has deleted pages: " . $node->name);
		$node->safe_psql('postgres', $_) foreach 'BEGIN;' . fill_sql(10 * $round + $own + 5, 3000) . 'COMMIT', 'CHECKPOINT',
			"DELETE FROM fed WHERE k BETWEEN 70000000 + 10000000 * $own AND 73000000 + 10000000 * $own", 'SELECT by_index()';
		indexes_serve($node, "$what, " . $node->name . ' on its own way', 15);
	}
	isnt(contents($old), contents($new), "$what: they have gone their own ways");
	return;
}

sub rewind
{
	my ($old, $new, $what, $stop, @source) = @_;
	$old->stop($stop);
	my $conf = slurp_file($old->data_dir . '/postgresql.conf');
	$new->stop if $source[0] =~ /pgdata/;
	command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $old->data_dir, @source ], "$what: pg_rewind");
	$new->start if $source[0] =~ /pgdata/;
	unlink($old->data_dir . '/postgresql.conf');
	append_to_file($old->data_dir . '/postgresql.conf', $conf);
	$old->append_conf('postgresql.conf', "primary_conninfo = '" . $new->connstr . ' application_name=' . $old->name . "'\n");
	$old->set_standby_mode;
	$old->start;
	follows($old, $new, $what);
	return;
}

sub follows
{
	my ($standby, $primary, $what) = @_;
	$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
	same_contents($standby, contents($primary), $what);
	indexes_serve($standby, $what, 15);
	same_pages($standby, $primary, $what);
	my $sound = q{SELECT count(CASE WHEN pg_is_in_recovery() THEN bt_index_check(i, true) ELSE bt_index_parent_check(i, true, true) END::text)
		FROM unnest('{fed_ver,fed_both}'::regclass[]) i};
	is($_->safe_psql('postgres', $sound), 2, "$what: btrees, " . $_->name) foreach $standby, $primary;
	return;
}

foreach my $round (1, 2)
{
	diverge($a, $b, $round);
	if ($round == 1) { rewind($a, $b, 'stopped, from a server', 'fast', '--source-server', $b->connstr('postgres')); }
	else { rewind($a, $b, 'crashed, from a directory', 'immediate', '--source-pgdata', $b->data_dir); }
	$b->safe_psql('postgres', $_) foreach 'BEGIN;' . fill_sql(90 + $round, 3000) . 'COMMIT', 'DELETE FROM fed WHERE k % 5 = 0', 'VACUUM (INDEX_CLEANUP on) fed', 'SELECT by_index()';
	follows($a, $b, "round $round, later");
	# Now the other way round; whatever hints are on its pages count when it is a primary.
	($a, $b) = ($b, $a);
}

# A base backup of the standby, beside loads on the primary, makes a server of its own.
my $faults = MtpFaults->new($a, 'fed');
my $load = $faults->start(map { ('BEGIN;' . fill_sql(200 + $_, 1500) . 'COMMIT', 'VACUUM (INDEX_CLEANUP on) fed') } 1 .. 4);
$faults->wait_for('SELECT count(*) > 0 FROM fed WHERE load = 201', 'the first load');
$b->backup('of_standby', backup_options => ['--max-rate=8M']);
is($faults->finish($load), '', 'loads beside a backup of the standby');
my $c = PostgreSQL::Test::Cluster->new('c');
$c->init_from_backup($b, 'of_standby');
unlink($c->data_dir . '/standby.signal');
$c->start;
is($c->safe_psql('postgres', 'SELECT load, count(*) FROM (SELECT load FROM fed UNION ALL SELECT load FROM kept) x WHERE load > 200 AND load < 205 GROUP BY load HAVING count(*) <> 3000'), '', 'no load is there in part');
indexes_serve($c, 'a backup of the standby', 15);
$c->safe_psql('postgres', $_) foreach 'BEGIN;' . fill_sql(300, 4000) . 'COMMIT', 'DELETE FROM kept WHERE k % 3 = 1', 'VACUUM (INDEX_CLEANUP on) kept', 'SELECT by_index()';
indexes_serve($c, 'a backup of the standby, later', 15);
$_->stop foreach $c, $b, $a;
log_is_quiet($_) foreach $a, $b, $c;
done_testing();
