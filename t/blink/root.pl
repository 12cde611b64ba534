# A session remembers an index's root. If the file has been replaced or is shorter, the session
# notices and asks the metapage.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $dir = MtpFaults::compile('root');
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
dynamic_library_path = '$dir:\$libdir'
shared_preload_libraries = 'mtpower'
mtpower.batching = off
autovacuum = off
fsync = off
});
$node->start;
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION remember_root(regclass, bigint, int) RETURNS bigint LANGUAGE c STRICT AS 'root';
CREATE TABLE t (a int) USING mtpower;
INSERT INTO t SELECT g FROM generate_series(1, 5000) g;
CREATE INDEX t_a ON t USING mtpower_blink (a);
});
my $blocks = $node->safe_psql('postgres', q{SELECT pg_relation_size('t_a') / current_setting('block_size')::int});

# A descent remembers the root; then it is made another one.  The same session looks for a row, and inserts one.
my $n = 5000;
foreach my $frames ('off', 'on')
{
	foreach my $case ([ 'just beyond the end', $blocks, 1 ], [ 'far beyond it', 1_000_000, 1 ], [ 'far beyond it, of another level', 1_000_000, 3 ], [ 'a leaf', 1, 1 ], [ 'the metapage', 0, 1 ])
	{
		my ($what, $block, $level) = @$case;
		my $remember = "SELECT r BETWEEN 1 AND $blocks - 1 FROM remember_root('t_a', $block, $level) r";
		$n++;
		my ($status, $out, $err) = $node->psql('postgres', qq{SET mtpower.use_frames = $frames; SET enable_seqscan = off; SET enable_bitmapscan = off; SET mtpower.enable_directoryscan = off;
			SELECT count(*) FROM t WHERE a = 4000;
			$remember; SELECT count(*) FROM t WHERE a = 4000;
			$remember; INSERT INTO t VALUES ($n); SELECT count(*) FROM t WHERE a = $n;
			$remember; SELECT max(a) FROM t});
		is("$out$err", "1\nt\n1\nt\n1\nt\n$n", "frames $frames: a remembered root, $what");
	}
}
is($node->safe_psql('postgres', q{SELECT mtpower.verify_index('t_a', true)}), '', 'the index is sound');

done_testing();
