# Page directories have frames of two sizes: how many fit into the buffer, which size a pair gets,
# what happens to one that outgrows its frame, and that mtpower.stat_buffer says what is there.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $megabytes = $ENV{MEGABYTES} || 4;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = ${megabytes}MB
mtpower.workers = 0
autovacuum = off
fsync = off
max_parallel_workers_per_gather = 0
});
$node->start;
my $faults = MtpFaults->new($node, 't');

sub sql { my (@sql) = @_; return $node->safe_psql('postgres', join(';', @sql)); }

# Pages that a scan of t for what is not there passes over
sub skipped { return sql('EXPLAIN (ANALYZE, COSTS off) SELECT * FROM t WHERE k = -1') =~ /Pages: 0 by directory, (\d+) skipped, \d+ scanned/ ? $1 : 'none'; }
# Up to the last one with rows
sub pages { return sql(q{SELECT (max(ctid)::text::point)[0] + 1 FROM t}); }
sub frames { return sql(q{SELECT coalesce(frames, 0) FROM mtpower.stat_buffer WHERE kind = 'directory'}); }

# load(COLUMNS, SELECT, [OPTIONS]): a new table whose directories are of k, loaded while the buffer is empty, as far as it has room.
my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';

sub load
{
	my ($columns, $select, $with) = @_;
	sql('DROP TABLE IF EXISTS t');
	$node->restart;
	sql("COPY ($select) TO '$file'", "CREATE TABLE t ($columns) USING mtpower " . ($with // ''), "SELECT mtpower.set_directory('t', 'k')", "COPY t FROM '$file'");
	return;
}

# Each pair has one directory at the most.
sub once { is(sql(q{SELECT count(*) - count(DISTINCT (relation, block)) FROM mtpower.buffer_content WHERE kind = 'directory'}), 0, "$_[0]: no pair has two"); return; }

sql('CREATE EXTENSION mtpower');

# ---------- as many as there is room for ----------

# 140 rows a pair, of whose directory are some 1,000 bytes; 360 rows, some 2,500.
my @small = ('k int, v text', sub { my ($n) = @_; return "SELECT g, repeat('x', 78) FROM generate_series(1, $n) g"; });
my @large = ('k int, v int', sub { my ($n) = @_; return "SELECT g, 1 FROM generate_series(1, $n) g"; });

load($small[0], $small[1]->(90000 * $megabytes));
note(pages() . ' pages');
is(skipped(), $megabytes * 1024, 'a buffer of small directories answers for twice as many pages as it has room for directories of 4 kB');
is(frames(), 512 * $megabytes, 'as stat_buffer tells');
is(sql(q{SELECT sum(bytes) FROM mtpower.stat_buffer WHERE kind = 'directory'}), 1024 * 1024 * $megabytes, 'and how much memory they have');
once('small ones');

load($large[0], $large[1]->(130000 * $megabytes));
note(pages() . ' pages');
is(skipped(), $megabytes * 512, 'of large ones it has room for half as many');
is(frames(), 256 * $megabytes, 'as stat_buffer tells');
once('large ones');

# ---------- other sizes ----------

# One column of 150 rows needs 1,100 bytes, four of them 2,900.
my $columns = 'k int, a int, b int, c int, v text';
load($columns, q{SELECT g, g % 100000, -g, g * 7, repeat('x', 60) FROM generate_series(1, 30000) g});
is(skipped(), pages(), 'of one column: all pages');
is(frames(), 512, '... small directories');
sql(q{SELECT mtpower.set_directory('t', 'k', 'a', 'b', 'c')}, q{SELECT mtpower.warm('t')});
cmp_ok(skipped(), '>=', pages(), 'of four columns: all pages');
is(frames(), 512 + 256, '... large ones, and the small ones have gone');
once('of four columns');
cmp_ok(sql(q{SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory'}) * 2, '>=', pages(), '... as many as there are pairs');
sql(q{SELECT mtpower.set_directory('t', 'k')}, q{SELECT mtpower.warm('t')});
cmp_ok(skipped(), '>=', pages(), 'of one column again: all pages');
once('of one column again');
is(sql('SELECT count(*) FROM t WHERE k BETWEEN 100 AND 4000'), 3901, 'what they name is right');

# ---------- what is too large for the frame that its neighbours have ----------

# The first pairs need small frames, those of narrow rows behind them large ones.
my @mixed = ('k int, v text', q{SELECT g, CASE WHEN g <= 10000 THEN repeat('x', 78) ELSE '' END FROM generate_series(1, 100000) g}, 'WITH (fillfactor = 90)');
my $published = q{SELECT published FROM mtpower.stat_buffer WHERE kind = 'directory'};
load(@mixed);
is(skipped(), pages(), 'of wide rows and narrow ones: all pages');
once('of wide rows and narrow ones');
is(sql($published) * 2, pages() + pages() % 2 + 2, 'one directory was too large for the frame that it got first');

# A builder stands between the frame that was too small and the larger one.
SKIP:
{
	skip 'injection points are in servers with assertions only', 10 if !$faults->has_stops;
	foreach my $meanwhile ([ 'a row comes' ], [ 'a row comes, and another session builds the directory', q{SELECT mtpower.warm('t')} ])
	{
		my ($what, @do) = @$meanwhile;
		load(@mixed);
		$node->restart;	# the buffer is empty
		$faults->hold;
		my $builder = $faults->start(q{SET mtpower.debug_injection = 'directory_outgrown=wait'}, q{SELECT mtpower.warm('t')});
		$faults->stopped("application_name = '$builder->{name}'");
		my $block = sql(q{SELECT max(block) + 2 FROM mtpower.buffer_content WHERE kind = 'directory'});
		sql("UPDATE t SET k = -7 WHERE ctid = '($block,1)'", @do);
		$faults->release;
		is($faults->finish($builder), '', "$what: no error");
		is(skipped(), sql(q{SELECT pg_relation_size('t') / 8192}), "$what: all pages have directories, also empty ones at the end");
		like(sql('EXPLAIN (ANALYZE, COSTS off) SELECT * FROM t WHERE k = -7'), qr/ rows=1(\.00)? .*Pages: 1 by directory, \d+ skipped, 0 scanned/s, "$what: it is found");
		once($what);
		is(sql("SELECT count(*) FROM mtpower.buffer_content WHERE kind = 'directory' AND block = $block"), 1, "$what: the pair has one");
	}
}

done_testing();
