# Queries on a hot standby beside the replay of a split that goes on in pieces: they keep what they began with, see each row once, and neither
# waits for the other without end, whatever order a session comes to the two buckets in.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpFaults;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
fsync = off
max_standby_streaming_delay = -1
});
$node->start;
my $faults = MtpFaults->new($node, 'k');
plan skip_all => 'the server was built without assertions, so without stop points' if !$faults->has_stops;
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
	$node->psql('postgres', q{SET mtpower.debug_stop = 'hash_split=error'; INSERT INTO k VALUES (1, 1)});
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

unlike(slurp_file($standby->logfile), qr/inconsistent page|TRAP|PANIC|FATAL:  (?!the database system is starting up|terminating connection)/, 'redo agrees with every page');
$standby->stop;
$node->stop;
done_testing();
