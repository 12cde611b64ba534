# A worker dies or fails while it makes a hash index fit for a batch. The process that takes the
# cut over goes on from there, and the batch counts once, so the index does not grow too far.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use POSIX qw(ceil);
use MtpFaults;
use MtpHash;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 1
mtpower.batch_min_rows = 0
mtpower.batch_size = 16MB
autovacuum = off
fsync = off
});
$node->start;
my $faults = MtpFaults->new($node, 'k');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql());

# The owner waits at `drain` until the worker has come to its end; so the worker has the cut.
foreach my $case (
	[ 'split', 'hash_split', 'initial_buckets = 1', 2 ],
	[ 'extent', 'hash_extended', 'initial_buckets = 1', 1 ],
	[ 'first number of buckets', 'hash_initial', 'fillfactor = 75', undef ])
{
	my ($name, $point, $options, $buckets) = @$case;
	foreach my $end ('terminated', 'failed')
	{
		my $what = "$name, $end";
		$node->safe_psql('postgres', "CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH ($options); SELECT mtpower.stat_reset('batches')");
		$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 300) g') if defined $buckets;
		my $before = defined $buckets ? 300 : 0;
		$faults->hold(7);
		$faults->hold if $end eq 'terminated';
		$faults->stop_all("$point=" . ($end eq 'terminated' ? 'wait' : 'error'));
		my $job = $faults->start(q{SET mtpower.debug_injection = 'drain=wait7'}, 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1001, 31000) g');
		if ($end eq 'terminated')
		{
			$faults->stopped($MtpFaults::WORKER, 1, "the worker to come to $point");
			is(space_of($node, 'k_a')->{b}, $buckets, "$what: it has come so far") if defined $buckets;
			# The next worker is not to stop there again.
			$faults->stop_all('');
			$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE $MtpFaults::WORKER");
			$faults->wait_for(q{SELECT sum(failed_exit) > 0 FROM mtpower.stat_batches}, 'the worker to die');
		}
		else
		{
			$faults->wait_for(q{SELECT sum(failed_error) > 0 FROM mtpower.stat_batches}, 'the worker to fail');
			$faults->stop_all('');
		}
		$faults->release if $end eq 'terminated';
		$faults->release(7);
		is($faults->finish($job), '', "$what: the load ends");

		my $space = space_of($node, 'k_a');
		is($space->{entries}, $before + 30000, "$what: entries are counted once");
		cmp_ok(abs($space->{b} - ceil(($before + 30000) / $space->{per_bucket})), '<=', 1, "$what: it has grown as far as it should");
		is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', "$what: every bucket is as the model has it");
		is($node->safe_psql('postgres', 'SELECT splits_overflow FROM mtpower.stat_batches'), 0, "$what: no split on overflow");
		$faults->sound($what, $before + 30000);
		$node->safe_psql('postgres', 'DROP TABLE k');
	}
}

# The load fails while a worker splits buckets for it: the worker ends with the split that it is at, and takes back what it has counted.
{
	$node->safe_psql('postgres', 'CREATE TABLE k (a int) USING mtpower; CREATE INDEX k_a ON k USING mtpower_hash (a) WITH (initial_buckets = 1); INSERT INTO k SELECT hashint4(g) FROM generate_series(1, 300) g');
	$faults->hold(7);
	$faults->hold;
	$faults->stop_all('hash_split=wait');
	my $job = $faults->start(q{SET mtpower.debug_injection = 'drain=wait7'}, 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1001, 31000) g');
	$faults->stopped($MtpFaults::WORKER, 1, 'the worker to come to hash_split');
	my $now = space_of($node, 'k_a')->{b};
	$node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO k%' AND wait_event = 'advisory'});
	like($faults->finish($job), qr/57014/, 'a load is cancelled while a worker splits buckets for it');
	$faults->stop_all('');
	$faults->release;
	$faults->wait_for(q{SELECT count(*) = 0 FROM pg_locks WHERE relation = 'k_a'::regclass}, 'the worker to leave the index');
	my $space = space_of($node, 'k_a');
	is($space->{b}, $now, 'the worker splits no further bucket');
	is($space->{entries}, 300, 'and no entry counts as coming');
	$faults->release(7);
	$faults->sound('cancelled', 300);
	is(differences($node, 'k_a', 'SELECT spread(hashint4(a)) FROM k'), '', 'cancelled: every bucket is as the model has it');
	$node->safe_psql('postgres', 'INSERT INTO k SELECT hashint4(g) FROM generate_series(1001, 31000) g');
	$faults->sound('loaded after all', 30300);
}
$faults->log_is_clean;
$node->stop;
done_testing();
