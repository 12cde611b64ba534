# A worker is terminated, is cancelled or fails, wherever it stands or waits. The load goes on,
# and so does VACUUM afterwards.
#
# Variants: blink hash btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpFaults;
use MtpVariant;

my $am = access_method();
my $hash = $am eq 'mtpower_hash';
my $btree = $am eq 'btree';

my $dir = MtpFaults::compile('faults');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_size = 64kB
mtpower.batch_min_rows = 0
autovacuum = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
my $stops = $faults->has_stops;
$node->safe_psql('postgres', qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}
CREATE FUNCTION hold_extension(regclass, text) RETURNS void LANGUAGE c AS 'faults';
CREATE FUNCTION hold_page(regclass, bigint, text) RETURNS void LANGUAGE c AS 'faults';
-- Only the comparison tells the order of b, whose batches are sharpened to ranks.
CREATE TABLE t (a int, b text COLLATE "en-x-icu") USING mtpower;
CREATE INDEX t_a ON t USING $am (a);
CREATE INDEX t_b ON t USING $am (b);
});
my $failed = 'SELECT coalesce(sum(failed_%s), 0) FROM mtpower.stat_batches';

# A load that ends when lock 7 is let go; until then its worker has all work to itself.
my @load = ("SET mtpower.debug_injection = ''",
	q{INSERT INTO t SELECT hashint4(g), 'https://' || md5(g::text) FROM generate_series(1, 20000) g UNION ALL SELECT 0, pg_advisory_xact_lock_shared(7)::text});
shift @load if !$stops;

# With other rows of generate_series(…) g, if they are given
sub start_load
{
	my ($rows) = @_;
	my @sql = @load;
	$sql[-1] =~ s/SELECT .*? FROM/SELECT $rows FROM/ if $rows;
	$faults->hold(7);
	return $faults->start(@sql);
}

# The load ends well, all rows are there, and VACUUM, which has to look into the indexes, does not hang.
sub end_load
{
	my ($what, $job) = @_;
	$faults->release(7) if $faults->{held}{7};
	is($faults->finish($job), '', "$what: the load goes on");
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 20001, "$what: rows");
	$node->safe_psql('postgres', "DELETE FROM t WHERE a % 10 = 0");
	is($faults->finish($faults->start("SET statement_timeout = '30s'", 'VACUUM (INDEX_CLEANUP on) t')), '', "$what: VACUUM does not hang");
	$faults->sound($what);
	$node->safe_psql('postgres', 'TRUNCATE t');
}

sub gone { my ($pid, $what) = @_; $faults->wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", $what, 10); }

# At each point of the code; where it holds the lock of a page, it goes later.
SKIP:
{
	skip 'the server was built without assertions, so without injection points', 1 if !$stops;
	foreach my $point (qw(worker_claimed sort cut step_registered step_checked step_applied step_gone), $hash ? qw(prepare hash_extended hash_initial hash_split)
		: $btree ? qw(sharpened compare btree_locked btree_allocates btree_page_allocated btree_split btree_unfinished) : qw(sharpened compare split_begins leaf_split))
	{
		foreach my $signal ('terminate', 'cancel')
		{
			my $kind = $signal eq 'terminate' ? 'exit' : 'error';
			my $before = $node->safe_psql('postgres', sprintf($failed, $kind));
			my $page = $point =~ /^(split_begins|leaf_split|btree_(locked|allocates|page_allocated|split))$/;
			$faults->hold;
			$faults->stop_all("$point=wait");
			my $job = start_load();
			my ($pid) = $faults->stopped($MtpFaults::WORKER);
			# The load asks for no other worker any more.
			$faults->stopped("application_name = '$job->{name}'");
			$faults->stop_all('');
			$node->safe_psql('postgres', "SELECT pg_${signal}_backend($pid)");
			$faults->release if $page;
			if ($signal eq 'terminate')
			{
				gone($pid, "$point: the worker to go");
				# No other one comes that could mend what it left.
				$faults->set_all('mtpower.workers', 0);
			}
			else { $faults->wait_for(sprintf($failed, $kind) =~ s/SELECT (.*?) FROM/SELECT $1 > $before FROM/r, "$point: the worker to fail", 10); }
			end_load("$signal at $point", $job);
			$faults->set_all('mtpower.workers', 1) if $signal eq 'terminate';
			$faults->release if !$page;
			# At a page it may have come to the unit's end before.
			is($node->safe_psql('postgres', sprintf($failed, $kind)), $before + 1, "$signal at $point: counted") if !$page;
		}
	}

	# Comparisons that fail, in workers and everywhere.  Hashes are compared without any code that could: something before.
	my $before = $node->safe_psql('postgres', sprintf($failed, 'error'));
	my $compare = $hash ? 'cut' : 'compare';
	$faults->stop_all("$compare=error");
	my $job = start_load();
	$faults->wait_for(sprintf($failed, 'error') =~ s/SELECT (.*?) FROM/SELECT $1 > $before FROM/r, 'the worker to fail', 20);
	# What it failed at is left to the owner: it does not try again and again.
	my ($failures, $same) = (0, 0);
	for (my $until = time + 20; $same < 5 && time < $until; sleep(0.1))
	{
		my $now = $node->safe_psql('postgres', sprintf($failed, 'error'));
		$same = $now == $failures ? $same + 1 : 0;
		$failures = $now;
	}
	is($same, 5, 'comparison fails in a worker: it is given up');
	end_load('comparison fails in a worker', $job);
	like($faults->finish($faults->start('INSERT INTO t SELECT g, md5(g::text) FROM generate_series(1, 20000) g')), qr/^ERROR:  XX000\n$/, 'comparison fails everywhere: clean error');
	$faults->stop_all('');
	$faults->sound('comparison fails everywhere', 0);

	# A step of a hash index fails when a part of it is in, for want of a stash page.
	if ($hash)
	{
		$node->safe_psql('postgres', "DROP INDEX t_b; CREATE INDEX t_b ON t USING $am (b) WITH (initial_buckets = 64)");
		$before = $node->safe_psql('postgres', sprintf($failed, 'error'));
		$faults->stop_all('hash_page=disk_full');
		$job = start_load(q{hashint4(g), 'one key'});
		$faults->wait_for(sprintf($failed, 'error') =~ s/SELECT (.*?) FROM/SELECT $1 > $before FROM/r, 'the worker to fail', 20);
		$faults->stop_all('');
		end_load('no page for a worker', $job);
		$node->safe_psql('postgres', "DROP INDEX t_b; CREATE INDEX t_b ON t USING $am (b)");
	}
}

# Waiting for the lock that extends the index's file, and for a page's: held by somebody else.
my $flag = "$dir/held";
# The page of any index that a step needs, and a load's session does not: a btree's only leaf, which it has if it has had a row
my $block = $btree ? 1 : 0;
foreach my $wait (
	[ 'extend', "SELECT hold_extension('t_b', '$flag')" ],
	[ 'BufferContent', "SELECT hold_page('t_b', $block, '$flag')" ])
{
	my ($event, $hold) = @$wait;
	append_to_file($flag, '');
	$node->safe_psql('postgres', q{INSERT INTO t VALUES (0, ''); DELETE FROM t}) if $btree && $event eq 'BufferContent';
	my $holder = $faults->start($hold);
	$faults->wait_for("SELECT true FROM pg_stat_activity WHERE application_name = '$holder->{name}' AND query LIKE 'SELECT hold%' AND state = 'active'", 'the holder');
	my $job = start_load();
	my $pid = $faults->wait_for("SELECT pid FROM pg_stat_activity WHERE $MtpFaults::WORKER AND wait_event = '$event'", "a worker to wait for $event");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	unlink $flag;
	is($faults->finish($holder), '', "$event is let go");
	gone($pid, "$event: the worker to go");
	end_load("terminate while waiting for $event", $job);
}

# Idle ones, each time that there is one, while loads go on
foreach my $round (1 .. 5)
{
	my $job = start_load();
	my $pid = $faults->wait_for("SELECT pid FROM mtpower.stat_workers WHERE phase = 'idle' AND entries > 0", 'an idle worker');
	$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
	gone($pid, 'the idle worker to go');
	end_load("terminate idle, round $round", $job);
}

$faults->log_is_clean;
$node->stop;
done_testing();
