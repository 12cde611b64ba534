# The disk is full when a hash index grows or takes entries that do not fit. Statements fail
# cleanly, indexes are sound, and work goes on when there is space again.
use strict;
use warnings;
use MtpSmallDisk '48m';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFullDisk;
use MtpHash;

my $node = small_disk_node();
$node->safe_psql('postgres', hash_model_sql() . q{
CREATE TABLE t (a int) USING mtpower;
CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 2) TABLESPACE small;
});
my $faults = MtpFaults->new($node, 't');
my $block = $node->safe_psql('postgres', 'SHOW block_size');

# Each number of free blocks, from none up: growth fails at one page or another, or the entries' overflow does.  Then back to the
# savepoint; there is space again; and on.
foreach my $case (
	[ 'growth', 'INSERT INTO t SELECT hashint4(g) FROM generate_series(5001, 20000) g', 1 ],
	[ 'one key', 'INSERT INTO t SELECT 7 FROM generate_series(1, 15000) g', 1 ],
	[ 'many batches', "SET LOCAL mtpower.batch_size = '64kB'; INSERT INTO t SELECT CASE WHEN g % 3 > 0 THEN hashint4(g) ELSE 7 END FROM generate_series(5001, 35000) g", 5 ],
	[ 'single rows', 'SET LOCAL mtpower.batching = off; INSERT INTO t SELECT hashint4(g) FROM generate_series(5001, 15000) g', 1 ])
{
	my ($name, $insert, $step) = @$case;
	my @wrong;
	my $failed = 0;
	for (my $room = 0; $room < 400; $room += $step)
	{
		my ($out, $err);
		my $rc = $node->psql('postgres', qq{
			TRUNCATE t;
			INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 2000) g;
			BEGIN;
			INSERT INTO t VALUES (1000000);
			SAVEPOINT s;
			\\! @{[ room($room) ]}
			$insert;
			ROLLBACK TO s;
			\\! @{[ room() ]}
			SELECT count(*) FROM t;
			$insert;
			COMMIT;
			SELECT held_bytes, mtpower.verify_index('t_a', true) FROM mtpower.stat_memory},
			stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
		$err =~ s/^psql:<stdin>:\d+: |\n//g;
		push @wrong, "room for $room: $err$out" if $out ne "2001\n0|" || $err !~ /^(ERROR:  53100)?$/;
		# The first attempt that has room enough is the last one.
		last if $err eq '';
		$failed++;
	}
	is(join("\n", @wrong), '', "$name: clean errors, a sound index, no memory held");
	cmp_ok($failed, '>', 1, "$name: failed in $failed places, cleanly");
	$node->safe_psql('postgres', 'VACUUM t');
	is(differences($node, 't_a', 'SELECT spread(hashint4(a)) FROM t'), '', "$name: every bucket is as the model has it");
	$faults->sound($name);
}

# Growth that fails for want of space, several times: the index keeps what it got, so that it is no larger in the end than it need be.
$node->safe_psql('postgres', 'DROP INDEX t_a; TRUNCATE t; CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 10) TABLESPACE small');
foreach my $room (700, 900, 1100)
{
	leave_room($room);
	isnt($node->psql('postgres', 'INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 220000) g'), 0, "growth with room for $room blocks fails");
	leave_room();
}
$node->safe_psql('postgres', 'INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 220000) g');
{
	my $s = space_of($node, 't_a');
	my $blocks = $node->safe_psql('postgres', "SELECT pg_relation_size('t_a') / $block");
	cmp_ok($s->{b}, '<=', 2 + 220000 / $s->{per_bucket}, 'it has as many buckets as its rows need');
	cmp_ok($blocks, '<=', $s->{b} + $s->{b} / 16 + 3 * 256 + 100, "and not many more blocks: $blocks, for $s->{b} buckets");
	$faults->sound('growth that failed', 220000);
}

# With few buffers the metapage is not there any more when the disk is full in the middle of adding blocks: taking back what was counted reads no page.
$node->append_conf('postgresql.conf', 'shared_buffers = 320kB');
$node->restart;
foreach my $room (60, 150, 400)
{
	$node->safe_psql('postgres', 'DROP INDEX t_a; TRUNCATE t; CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 10) TABLESPACE small');
	leave_room($room);
	isnt($faults->finish($faults->start('INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 60000) g')), '', "few buffers: growth with room for $room blocks fails");
	leave_room();
	is($faults->finish($faults->start('INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 60000) g')), '', "few buffers: and works with more, after room for $room");
	$faults->sound("few buffers, room for $room", 60000);
	# The first row goes in at once.
	is(space_of($node, 't_a')->{entries}, 59999, 'few buffers: what failed is not counted');
}
$node->append_conf('postgresql.conf', 'shared_buffers = 128MB');
$node->restart;

fail_builds($faults, 't_a', 'CREATE INDEX t_a ON t USING mtpower_hash (a)', 'INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 200000) g');

$node->safe_psql('postgres', 'DROP INDEX t_a');
my $failed = fail_loads($faults, $ENV{MTP_LONG} ? 500 : 50, 50, q{
	CREATE INDEX u_a ON u USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 20) TABLESPACE small;
	CREATE INDEX u_b ON u USING mtpower_hash (b) TABLESPACE small;});
cmp_ok($failed, '>', 0, 'loads failed for want of disk space');
$faults->log_is_clean;
$node->stop;
done_testing();
