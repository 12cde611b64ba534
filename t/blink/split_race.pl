# A split stops between its two records, while other sessions split the same page or VACUUM
# passes. All entries are found, and the split is finished.
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
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
});
$node->start;
my $faults = MtpFaults->new($node, 't');
plan skip_all => 'the server was built without assertions, so without injection points' if !$faults->has_stops;
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');

sub waits_for_page
{
	my ($job) = @_;
	$faults->wait_for("SELECT true FROM pg_stat_activity WHERE application_name = '$job->{name}' AND wait_event = 'BufferContent'", 'a wait for a page');
}

# The tree is empty, and two find it so.
foreach my $batching ('off', 'on')
{
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int);
		CREATE INDEX t_a ON t USING mtpower_blink (a);});
	$faults->hold;
	my @jobs = map { $faults->start("SET mtpower.debug_injection = 'no_root=wait'", "SET mtpower.batching = $batching", "INSERT INTO t SELECT $_ * 1000 + g FROM generate_series(1, 100) g") } 1, 2;
	$faults->stopped("application_name = '$_->{name}'") foreach @jobs;
	$faults->release;
	is($faults->finish($_), '', "one of two makes the first page, batching $batching") foreach @jobs;
	$faults->sound("first page, batching $batching", 200);
}

# The root is a leaf, and one backend splits it.  Another has read of this root in the metapage, comes
# to it after that split, and must split it again: it must not look for the parent there.
foreach my $batching ('off', 'on')
{
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (a int);
		CREATE INDEX t_a ON t USING mtpower_blink (a);
		INSERT INTO t SELECT g FROM generate_series(1, 100) g;});
	$faults->hold;
	my $splitter = $faults->start("SET mtpower.debug_injection = 'leaf_split=wait'", "SET mtpower.batching = $batching", 'INSERT INTO t SELECT 1000 + g FROM generate_series(1, 2000) g');
	$faults->stopped("application_name = '$splitter->{name}'");
	my $second = $faults->start('INSERT INTO t SELECT -g FROM generate_series(1, 2000) g');
	waits_for_page($second);
	$faults->release;
	is($faults->finish($_), '', "the root is split, batching $batching, and again by one who knew it as the root") foreach $splitter, $second;
	$faults->sound("root split, batching $batching", 4100);
}

# A leaf is split among equal keys and has no parent yet: whoever comes to it moves right, but for what lies before a key.
$node->safe_psql('postgres', q{
	ALTER INDEX t_a SET (deduplicate_items = off);
	TRUNCATE t;
	INSERT INTO t SELECT g FROM generate_series(1, 20) g;
	INSERT INTO t SELECT 10 FROM generate_series(1, 300) g;});
like($faults->finish($faults->start("SET mtpower.debug_injection = 'leaf_split=error'", 'SET mtpower.batching = off', 'INSERT INTO t SELECT 10 FROM generate_series(1, 300) g')),
	qr/ERROR/, 'a split that fails half-way');
foreach my $cond ('a < 10', 'a <= 10', 'a = 10', 'a >= 10', 'a > 10')
{
	my $count = "SELECT count(*) FROM (SELECT a FROM t WHERE $cond ORDER BY a %s) q";
	my $want = $node->safe_psql('postgres', sprintf($count, ''));
	is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; ' . sprintf($count, $_)), $want, "half a split: $cond $_")
		foreach 'ASC', 'DESC';
}
$faults->sound('half a split', 320);

# A split is about to allocate its new page when a VACUUM begins, passes the free block that the split will take, and
# comes to the page that is being split.  The dead entries that move to the free block have to go all the same.
foreach my $batching ('off', 'on')
{
	$node->safe_psql('postgres', $_) foreach (
		'DROP TABLE t', 'CREATE TABLE t (a int)',
		'INSERT INTO t SELECT g * 10 FROM generate_series(1, 30000) g',
		'CREATE INDEX t_a ON t USING mtpower_blink (a) WITH (fillfactor = 100)',
		'DELETE FROM t WHERE a <= 140000', 'VACUUM t', 'SELECT txid_current()',
		# Now the lower blocks are free.
		'DELETE FROM t WHERE a > 299000', 'VACUUM t',
		'DELETE FROM t WHERE a % 20 = 0');
	my $size = $node->safe_psql('postgres', q{SELECT pg_relation_size('t_a')});
	$faults->hold;
	my $splitter = $faults->start("SET mtpower.debug_injection = 'split_begins=wait'", "SET mtpower.batching = $batching", 'INSERT INTO t SELECT 250001 FROM generate_series(1, 100)');
	$faults->stopped("application_name = '$splitter->{name}'");
	my $vacuum = $faults->start('VACUUM t');
	waits_for_page($vacuum);
	$faults->release;
	is($faults->finish($_), '', "a leaf is split beside VACUUM, batching $batching") foreach $splitter, $vacuum;
	is($node->safe_psql('postgres', q{SELECT pg_relation_size('t_a')}), $size, "the split took a free block, batching $batching");
	# New rows on the line pointers of the dead.
	$node->safe_psql('postgres', 'INSERT INTO t SELECT -g FROM generate_series(1, 20000) g');
	$faults->sound("split beside VACUUM, batching $batching");
}
$faults->log_is_clean;
$node->stop;
done_testing();
