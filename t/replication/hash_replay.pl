# Queries on a hot standby run beside the replay of a split that goes on in pieces. They keep what
# they began with and see each row once. Neither side waits for the other without end, in
# whichever order a session comes to the two buckets.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpFaults;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, no_data_checksums => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
bgwriter_lru_maxpages = 0
shared_buffers = 16MB
fsync = off
max_standby_streaming_delay = -1
});
$node->start;
my $faults = MtpFaults->new($node, 'k');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my @settings = ('SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET enable_hashjoin = off', 'SET enable_mergejoin = off');

# One query in the open session, whose answer has to come: a wait for a page's lock can't be cancelled.
sub ask
{
	my ($session, $query, $what) = @_;
	my $answer;
	local $SIG{ALRM} = sub { $standby->stop('immediate'); $node->stop('immediate'); die "$what: no answer"; };
	alarm(60);
	$answer = $session->query_safe($query);
	alarm(0);
	return $answer;
}

sub replay_waits
{
	my ($what) = @_;
	ok($standby->poll_query_until('postgres', q{SELECT wait_event = 'BufferPin' FROM pg_stat_activity WHERE backend_type = 'startup'}), "$what: replay waits for the cursor");
	return;
}

# Frequent keys more than there are chains for fill the stash, so the filter lacks most other keys: who looks for one of those that is on the primary
# page pins nothing else.
my $lower = 'spread(hashint4(a)) < 2147483648';
my $in_stash = q{SELECT (spread(hashint4(g)) >> 8) % 256 FROM generate_series(1, 20) g};
sub unfinished
{
	$node->safe_psql('postgres', join(';', @settings, q{
		DROP TABLE IF EXISTS k;
		CREATE TABLE k (a int, b int) USING mtpower;
		CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO k SELECT g, g FROM generate_series(1000, 1249) g, generate_series(1, 2);
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM k WHERE a = 1000;
		FETCH 1 FROM c;
		INSERT INTO k SELECT g % 20 + 1, 100000 + g FROM generate_series(1, 30000) g;
		COMMIT}));
	$node->psql('postgres', q{SET mtpower.debug_injection = 'hash_split=error'; INSERT INTO k VALUES (1, 1)});
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	return;
}

sub key_of
{
	my ($half) = @_;
	return $node->safe_psql('postgres', "SELECT min(a) FROM k WHERE a >= 1000 AND " . ($half eq 'old' ? $lower : "NOT $lower") . " AND (spread(hashint4(a)) >> 8) % 256 NOT IN ($in_stash)");
}

# A frequent key that lies in the stash: whether it has a chain of its own can't be seen here, so all of them are read.
sub frequent
{
	my ($half) = @_;
	return split /\n/, $node->safe_psql('postgres', "SELECT a FROM generate_series(1, 20) a WHERE " . ($half eq 'old' ? $lower : "NOT $lower"));
}

# A cursor in each bucket, of a key on its primary page, and then one of a key in the stash; replay of the pieces comes, and waits.  The same session, and others,
# then read either bucket.
foreach my $half ('old', 'new')
{
	foreach my $frequent (0, 1)
	{
		my $what = "cursor in the $half bucket" . ($frequent ? ', on the stash' : '');
		unfinished();
		is($standby->safe_psql('postgres', "SELECT count(*) FROM pages('k_a') WHERE source IS NOT NULL"), 1, "$what: a split is unfinished on the standby");
		my $session = $standby->background_psql('postgres');
		$session->query_safe($_) foreach @settings, 'BEGIN';
		my @keys = $frequent ? frequent($half) : key_of($half);
		my %want;
		foreach my $key (@keys)
		{
			$want{$key} = $standby->safe_psql('postgres', "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM k WHERE a = $key");
			$session->query_safe("DECLARE c$key CURSOR FOR SELECT b FROM k WHERE a = $key");
			isnt($session->query_safe("FETCH 1 FROM c$key"), '', "$what: a row of $key");
		}

		# The primary finishes the split, deletes, and splits on.
		$node->safe_psql('postgres', 'INSERT INTO k SELECT g, g FROM generate_series(2000, 2010) g');
		replay_waits($what);
		foreach my $first ('new', 'old')
		{
			my $key = key_of($first);
			is(ask($session, "SELECT count(*) FROM k WHERE a = $key", "$what, same session, $first bucket"), 2, "$what: the same session reads the $first bucket");
			is($standby->safe_psql('postgres', join(';', @settings, "SELECT count(*) FROM k WHERE a = $key")), 2, "$what: another session does");
			foreach my $more ((frequent($first))[ 0, -1 ])
			{
				is(ask($session, "SELECT count(*) FROM k WHERE a = $more", $what), 1500, "$what: and frequent keys of the $first bucket");
			}
		}
		foreach my $key (@keys)
		{
			my @rest = split /\n/, ask($session, "FETCH ALL FROM c$key", $what);
			is(1 + @rest, $want{$key}, "$what: the cursor reads on, all rows of $key");
		}
		$session->query_safe('COMMIT');
		$session->quit;
		$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
		foreach my $server ($node, $standby)
		{
			my $where = $server == $node ? 'primary' : 'standby';
			my $err;
			is($server->psql('postgres', q{SELECT mtpower.verify_index('k_a', true)}, stderr => \$err), 0, "$what: then, $where: verifies") or diag($err);
			is(differences($server, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: then, $where: every bucket is as the model has it");
			is($server->safe_psql('postgres', "SELECT count(*) FROM pages('k_a') WHERE source IS NOT NULL"), 0, "$what: then, $where: the split is finished");
		}
	}
}

# Dead hints, which come with pages' images, are the primary's: an older snapshot on the standby sees the rows.
$node->safe_psql('postgres', q{CREATE TABLE hinted (a int, b int) USING mtpower; CREATE INDEX hinted_a ON hinted USING mtpower_hash (a) WITH (initial_buckets = 1);
	INSERT INTO hinted SELECT 7, g FROM generate_series(1, 100) g});
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
my $old = $standby->background_psql('postgres');
$old->query_safe($_) foreach @settings, 'BEGIN ISOLATION LEVEL REPEATABLE READ';
is($old->query_safe('SELECT count(*) FROM hinted WHERE a = 7'), 100, 'hints: before');
$node->safe_psql('postgres', join(';', 'DELETE FROM hinted WHERE b > 10', @settings, 'SELECT count(*) FROM hinted WHERE a = 7', 'SELECT count(*) FROM hinted WHERE a = 7'));
$node->safe_psql('postgres', 'CHECKPOINT; INSERT INTO hinted VALUES (8, 8)');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', q{SELECT dead FROM mtpower.page_info('hinted_a', 1)}), 90, 'hints: they are on the standby');
is($old->query_safe('SELECT count(*) FROM hinted WHERE a = 7'), 100, 'hints: an older snapshot sees the rows');
is($standby->safe_psql('postgres', join(';', @settings, 'SELECT count(*) FROM hinted WHERE a = 7')), 10, 'hints: others do not');
is($standby->safe_psql('postgres', q{SELECT dead FROM mtpower.page_info('hinted_a', 1)}), 90, 'hints: the standby sets none');
$old->query_safe('COMMIT');
$old->quit;

# ---------- other records that wait for scans ----------

# Waits until the standby has what is in the primary's WAL up to here, flushed or not.
sub catch_up
{
	my $lsn = $node->lsn('insert');
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS flushed (a int); INSERT INTO flushed VALUES (1)');
	$node->wait_for_catchup($standby, 'replay', $lsn);
	return;
}

# A cursor on the standby: what it fetches first, and then, when replay waits for it, all the rest
sub stand
{
	my ($query, $fetched) = @_;
	my $session = $standby->background_psql('postgres');
	$session->query_safe($_) foreach @settings, 'BEGIN', "DECLARE c CURSOR FOR $query";
	my @rows = split /\n/, $session->query_safe("FETCH $fetched FROM c");
	return { session => $session, rows => \@rows };
}

sub goes_on
{
	my ($cursor, $what, $rows) = @_;
	my %times;
	push @{ $cursor->{rows} }, split /\n/, ask($cursor->{session}, 'FETCH ALL FROM c', $what);
	$times{$_}++ foreach @{ $cursor->{rows} };
	is(scalar(@{ $cursor->{rows} }) . ' ' . scalar(keys %times), "$rows $rows", "$what: the cursor sees each row once");
	$cursor->{session}->query_safe('COMMIT');
	$cursor->{session}->quit;
	catch_up();
	return;
}

sub agrees
{
	my ($what, $index, $query) = @_;
	foreach my $server ($node, $standby)
	{
		my $where = $server == $node ? 'primary' : 'standby';
		my $err;
		is($server->psql('postgres', "SELECT mtpower.verify_index('$index', true)", stderr => \$err), 0, "$what, $where: verifies") or diag($err);
		is(differences($server, $index, $query), '', "$what, $where: every bucket is as the model has it");
	}
	return;
}

# A split of a bucket with a short stash, in one record, which moves what the cursor has yet to read
$node->safe_psql('postgres', join(';', @settings, q{
	CREATE TABLE cut (a int, b int) USING mtpower;
	CREATE INDEX cut_a ON cut USING mtpower_hash (a) WITH (initial_buckets = 1);
	INSERT INTO cut SELECT 9, g FROM generate_series(1, 10) g;
	BEGIN;
	DECLARE c CURSOR FOR SELECT FROM cut WHERE a = 9;
	FETCH 1 FROM c;
	INSERT INTO cut SELECT hashint4(g), 0 FROM generate_series(1, 3000) g;
	INSERT INTO cut SELECT 9, g FROM generate_series(11, 20) g;
	COMMIT}));
catch_up();
my $stand = stand('SELECT b FROM cut WHERE a = 9', 1);
$node->safe_psql('postgres', 'INSERT INTO cut SELECT hashint4(g), 0 FROM generate_series(3001, 3010) g');
replay_waits('split');
is(space_of($standby, 'cut_a')->{b}, 1, 'split: it is not replayed as long as the cursor stands there');
goes_on($stand, 'split', 20);
cmp_ok(space_of($standby, 'cut_a')->{b}, '>', 1, 'split: then it is');
agrees('split', 'cut_a', 'SELECT spread(hashint4(a)) FROM cut');

# VACUUM: deletions, while the cursor stands in the bucket; then squeezing, for a cursor that came after the deletions.
foreach my $case ([ 'deletions', 'vacuum_fenced', 9000 ], [ 'squeezing', 'vacuum_squeeze', 1125 ])
{
	my ($what, $point, $items) = @$case;
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS v;
		CREATE TABLE v (a int, b int) USING mtpower;
		CREATE INDEX v_a ON v USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO v SELECT 7, g FROM generate_series(1, 9000) g;
		DELETE FROM v WHERE b % 8 <> 0});
	$faults->hold;
	my $vacuum = $faults->start("SET mtpower.debug_injection = '$point=wait'", 'VACUUM (TRUNCATE off) v');
	$faults->stopped(q{query LIKE 'VACUUM%'});
	catch_up();
	my $cursor = stand('SELECT b FROM v WHERE a = 7', 400);
	my $pages = q{SELECT count(*) FILTER (WHERE type = 'stash'), sum(items) FROM pages('v_a')};
	my $before = $standby->safe_psql('postgres', $pages);
	like($before, qr/\|$items$/, "$what: what is there when the cursor comes");
	$faults->release;
	is($faults->finish($vacuum), '', "$what: VACUUM ends");
	replay_waits($what);
	is($standby->safe_psql('postgres', $pages), $before, "$what: nothing is replayed in the bucket as long as the cursor stands there");
	goes_on($cursor, $what, 1125);
	my ($left, $now) = split /\|/, $standby->safe_psql('postgres', $pages);
	is($now, 1125, "$what: then it is");
	cmp_ok($left, '<', 4, "$what: and the chain is short");
	agrees($what, 'v_a', 'SELECT spread(hashint4(a)) FROM v');
}

# A bucket where VACUUM finds nothing: replay waits for its scans all the same, as the entries of what they hold may have left it before.
$node->safe_psql('postgres', q{
	CREATE TABLE passed (a int, b int) USING mtpower;
	CREATE INDEX passed_a ON passed USING mtpower_hash (a) WITH (initial_buckets = 8);
	INSERT INTO passed SELECT g, b FROM generate_series(1, 800) g, generate_series(1, 3) b;
	DELETE FROM passed USING space('passed_a') s WHERE bucket_of(spread(hashint4(a)), s.m, s.n, s.p0) <> bucket_of(spread(hashint4(7)), s.m, s.n, s.p0)});
$faults->hold;
my $vacuum = $faults->start(q{SET mtpower.debug_injection = 'vacuum_fenced=wait'}, 'VACUUM (TRUNCATE off) passed');
$faults->stopped(q{query LIKE 'VACUUM%'});
catch_up();
$stand = stand('SELECT b FROM passed WHERE a = 7', 1);
$faults->release;
is($faults->finish($vacuum), '', 'passed: VACUUM ends');
replay_waits('passed');
goes_on($stand, 'passed', 3);
agrees('passed', 'passed_a', 'SELECT spread(hashint4(a)) FROM passed');

# ---------- what replay knows of the number of entries ----------

# A load that failed was counted when the index got its room, and is not any more when the next one has it split.
$node->safe_psql('postgres', 'CREATE TABLE n (a int) USING mtpower; CREATE INDEX n_a ON n USING mtpower_hash (a) WITH (initial_buckets = 1); INSERT INTO n SELECT hashint4(g) FROM generate_series(1, 300) g');
$node->psql('postgres', q{SET mtpower.debug_injection = 'hash_extended=error'; INSERT INTO n SELECT hashint4(g) FROM generate_series(1001, 21000) g});
$node->safe_psql('postgres', 'INSERT INTO n SELECT hashint4(g) FROM generate_series(1001, 6000) g');
catch_up();
is(space_of($node, 'n_a')->{entries}, 5300, 'entries are counted');
is(space_of($standby, 'n_a')->{entries}, 5300, 'on the standby as well');

unlike(slurp_file($standby->logfile), qr/inconsistent page|TRAP|PANIC|FATAL:  (?!the database system is starting up|terminating connection)/, 'redo agrees with every page');

# ---------- what wal_consistency_checking sees ----------

# The standby's copy of a page is another one, by some bytes: replay has to say so.  Without full-page images, which would make it whole.
$node->safe_psql('postgres', 'ALTER SYSTEM SET full_page_writes = off');
$node->reload;
$node->safe_psql('postgres', 'CREATE TABLE d (a int) USING mtpower; CREATE INDEX d_a ON d USING mtpower_hash (a); INSERT INTO d SELECT g FROM generate_series(1, 100) g; CHECKPOINT');
catch_up();
$standby->safe_psql('postgres', 'CHECKPOINT');
my $file = $standby->data_dir . '/' . $standby->safe_psql('postgres', q{SELECT pg_relation_filepath('d_a')});
my $bs = $node->safe_psql('postgres', 'SHOW block_size');
$standby->stop;
open(my $fh, '+<:raw', $file) or die "$file: $!";
# The offset number in the TID of the first entry of the bucket
seek($fh, 2 * $bs - 2, 0);
print $fh pack('S', 77);
close($fh);
my $size = -s $standby->logfile;
$standby->start;
$node->safe_psql('postgres', 'INSERT INTO d VALUES (101)');
my $said = '';
for (my $end = time + 60; time < $end && $said !~ /inconsistent page/; sleep(0.1)) { $said = slurp_file($standby->logfile, $size); }
like($said, qr/inconsistent page found/, 'an entry that is another one is found');
$standby->stop('immediate', fail_ok => 1);
$node->stop;
done_testing();
