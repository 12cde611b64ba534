# A frame was copied before another scan set the page's dead hints. The next reader pays for the
# dead rows once; those behind it do not.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFrames;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 2MB
autovacuum = off
fsync = off
jit = off
});
$node->start;
my $faults = MtpFaults->new($node, 'q');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
sub sql { return $node->safe_psql('postgres', $_[0]); }

sql('CREATE EXTENSION mtpower;' . frames_sql());
my $query = 'SELECT v FROM q WHERE a > 0 ORDER BY a LIMIT 1';

sub blocks
{
	my $plan = sql("BEGIN; SELECT scans('frames'); EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) $query; COMMIT");
	like($plan, qr/Index Scan using q_a/, 'an index scan');
	my ($hit, $read) = ($plan =~ /shared hit=(\d+)/, $plan =~ /read=(\d+)/);
	return $hit + ($read // 0);
}

# A row a block: a queue whose left end will have died.
foreach my $kind ('', 'UNLOGGED')
{
	my $what = $kind || 'logged';

	sql(qq{DROP TABLE IF EXISTS q;
		CREATE $kind TABLE q (a int, v int, pad text DEFAULT repeat('x', 5000));
		ALTER TABLE q ALTER pad SET STORAGE plain;
		CREATE INDEX q_a ON q USING mtpower_blink (a);
		INSERT INTO q SELECT g, g FROM generate_series(1, 240) g;});
	blocks() for 1 .. 3;
	sql('DELETE FROM q WHERE a <= 200');
	sql('INSERT INTO q VALUES (241, 241)');
	is(sql(q{SELECT frames_of('q_a')}), '0', "$what: the leaf has lost its frame");

	# Until it is copied again it has to be missed some times.
	sql(q{SELECT scans('frames'); SELECT v FROM q WHERE a = 230}) for 1 .. 2;
	is(sql(q{SELECT frames_of('q_a')}), '0', "$what: and has no other one at once");

	$faults->hold;
	my $publisher = $faults->start('SET enable_seqscan = off', 'SET enable_bitmapscan = off', 'SET enable_sort = off', q{SET mtpower.debug_injection = 'frame_copied=wait'}, $query);
	$faults->stopped("application_name = '$publisher->{name}'");
	cmp_ok(blocks(), '>', 190, "$what: another scan reads all dead rows");
	is(sql(q{SELECT sum(dead) FROM mtpower.page_info('q_a', 1)}), '200', "$what: and leaves hints on the page");
	is(sql(q{SELECT frames_of('q_a')}), '0', "$what: and no frame");
	$faults->release;
	is($faults->finish($publisher), '', "$what: no error");
	is(sql(q{SELECT frames_of('q_a')}), '1', "$what: the frame that was copied before has come");

	# The third frame in a row that has not paid: the page rests for eight misses.
	my @later = map { blocks() } 1 .. 12;
	cmp_ok($later[0], '>', 190, "$what: who reads it pays for the dead rows");
	cmp_ok($later[$_], '<', 20, "$what: those behind do not") foreach 1 .. 11;
	is(sql(q{SELECT frames_of('q_a')}), '1', "$what: and read a frame in the end");
}
$faults->log_is_clean;
$node->stop;
done_testing();
