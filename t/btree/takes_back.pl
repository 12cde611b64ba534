# INSERT … ON CONFLICT takes a row back whose entry is in a batch already: the next index's entry
# found memory short, so the fullest batch was submitted, that of the index before. The entry goes in
# before the row dies; else VACUUM would give the row's place to another one, and the entry would
# lead there (invariant E11 in src/batch/README.md).
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_memory = 1MB
mtpower.batch_min_rows = 0
mtpower.batch_size = 1MB
autovacuum = off
restart_after_crash = on
fsync = off
});
$node->start;
my $faults = MtpFaults->new($node, 'race');
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE TABLE u (a int) USING mtpower;
CREATE INDEX u_a ON u (a);
} . MtpFaults::gate_sql() . q{
-- Waits at gate 1 when the row's entry is made, after ON CONFLICT has looked for one and found none.
CREATE FUNCTION slow_key(k int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF current_setting('race.waits', true) = k::text THEN
		PERFORM set_config('race.waits', '', false);
		PERFORM gate(1);
	ELSIF current_setting('race.comes', true) = k::text THEN
		PERFORM set_config('race.waits', k::text, false), set_config('race.comes', '', false);
	END IF;
	RETURN k;
END $$;
});

sub sql { return $node->safe_psql('postgres', $_[0]); }

# Entries of the second index have 32 bytes, so the 2017th needs a run: those before have 1 kB to 32 kB.  The 2017th of the first one, of 16 bytes, lies in the middle
# of a run.
my $row = 2017;
foreach my $am (qw(btree mtpower_blink))
{
	sql(qq{DROP TABLE IF EXISTS race;
		CREATE TABLE race (k int, b int) USING mtpower;
		CREATE INDEX race_a ON race USING $am (b);
		CREATE INDEX race_b ON race USING $am (b, k);
		CREATE UNIQUE INDEX race_k ON race (slow_key(k))});
	sql(q{SELECT mtpower.stat_reset('batches')});
	$faults->hold($_) foreach 1 .. 4;

	# It waits before the row, in the middle of it, and behind it.
	my $load = $faults->start("SET race.comes = '1'",
		"INSERT INTO race SELECT CASE i WHEN $row THEN 1 ELSE 10000 + i END, -i FROM generate_series(1, 3000) i
			WHERE CASE i WHEN $row THEN gate(2) WHEN @{[ $row + 2 ]} THEN gate(3) ELSE 0 END = 0 ON CONFLICT DO NOTHING");
	$faults->wait_for(MtpFaults::stands(2), "$am: the load comes to the row");
	my $holder = $faults->start('INSERT INTO u SELECT hashint4(g) FROM generate_series(1, 45000) g UNION ALL SELECT gate(4)');
	$faults->wait_for(MtpFaults::stands(4), "$am: another load holds memory");
	is(sql('SELECT held_bytes > total_bytes * 3 / 4, held_bytes < total_bytes FROM mtpower.stat_memory'), 't|t', "$am: memory is short, and there is some");
	$faults->release(2);
	$faults->wait_for(MtpFaults::stands(1), "$am: the load has the row, and some of its entries");
	sql('SET mtpower.batching = off; INSERT INTO race VALUES (1, 100)');
	$faults->release(1);
	$faults->wait_for(MtpFaults::stands(3), "$am: the row is taken back");
	is(sql(q{SELECT coalesce(sum(entries) FILTER (WHERE index = 'race_a'::regclass), 0), coalesce(sum(entries) FILTER (WHERE index = 'race_b'::regclass), 0) FROM mtpower.stat_batches}), "$row|0",
		"$am: the entry that was submitted is in before the row dies, and the other one has left its queue");

	# Other rows get the row's place.
	sql('VACUUM (INDEX_CLEANUP ON, TRUNCATE OFF) race');
	sql('SET mtpower.batching = off; INSERT INTO race SELECT 5000 + g, 500 FROM generate_series(1, 400) g');
	$faults->release(3);
	is($faults->finish($load), '', "$am: the load ends");
	$faults->release(4);
	is($faults->finish($holder), '', "$am: so does the other one");
	is(sql("SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT count(*) FROM race WHERE b = 500 AND ctid > (SELECT ctid FROM race WHERE b = 1 - $row) AND ctid < (SELECT ctid FROM race WHERE b = -1 - $row)"), 1, "$am: the row's place is another row's");
	foreach my $other (qw(race_a race_b))
	{
		my $scan = "BEGIN; DROP INDEX $other; SET LOCAL enable_seqscan = off; SET LOCAL enable_indexonlyscan = off; SELECT %s FROM race WHERE %s; ROLLBACK";
		is(sql(sprintf($scan, 'ctid, k, b', "b = -$row")), '', "$am without $other: no stranger's row comes");
		is(sql(sprintf($scan, 'count(*)', 'b BETWEEN -3000 AND -1')), 2999, "$am without $other: all others are found");
	}
	is(sql('SELECT count(*), count(*) FILTER (WHERE k = 1) FROM race'), '3400|1', "$am: rows");
	is(sql($am eq 'btree' ? q{SELECT bt_index_parent_check('race_a', true, true), bt_index_parent_check('race_b', true, true)} : q{SELECT mtpower.verify_index('race_a', true), mtpower.verify_index('race_b', true)}), '|',
		"$am: its indexes are sound");
	is(sql('SELECT held_bytes FROM mtpower.stat_memory'), 0, "$am: no memory is held");
	sql('TRUNCATE u');
}
$node->stop;
$faults->log_is_clean;
done_testing();
