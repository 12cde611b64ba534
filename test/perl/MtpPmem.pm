# MtpPmem: what tests of the file of frames share: where it may lie, a server that has one, and what its log says.
package MtpPmem;

use strict;
use warnings;
use Exporter 'import';
use File::Temp;
use MtpFrames;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(have_libpmem home_dir home_modes home_server said loaded content);

# Is libpmem in what is tested?
sub have_libpmem
{
	my ($bin) = grep { -x "$_/postgres" } split /:/, $ENV{PATH};
	chomp(my $lib = `$bin/pg_config --pkglibdir`);
	return `nm -D $lib/mtpower.so 2>/dev/null` =~ /pmem_map_file/;
}

# A directory of its own on tmpfs, or elsewhere; undef where there is none.
sub home_dir
{
	my ($tmpfs) = @_;
	foreach my $parent ($tmpfs ? '/dev/shm' : (PostgreSQL::Test::Utils::tempdir, '/var/tmp'))
	{
		my $type = `stat -f -c %T $parent 2>/dev/null`;
		next if !-w $parent || ($tmpfs xor $type =~ /tmpfs/);
		return File::Temp::tempdir('mtpowerXXXXXX', DIR => $parent, CLEANUP => 1);
	}
	return;
}

# Name, directory, and what is in the environment: tmpfs as it is, and persistent memory as far as libpmem is told so.
sub home_modes
{
	my $tmpfs = home_dir(1) or return;
	return ([ 'tmpfs', $tmpfs, {} ], [ 'tmpfs, forced', $tmpfs, { PMEM_IS_PMEM_FORCE => 1 } ]);
}

# home_server NAME, FILE, MORE: not started.
sub home_server
{
	my ($name, $file, $more) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
mtpower.buffer_size = 4MB
mtpower.pmem_path = '$file'
mtpower.batch_min_rows = 0
mtpower.workers = 0
autovacuum = off
jit = off
} . ($more // ''));
	return $node;
}

# What the log has said since the last call for this server.
my %read;

sub said
{
	my ($node) = @_;
	my $log = slurp_file($node->logfile);
	my $new = substr($log, $read{ $node->name } // 0);
	$read{ $node->name } = length $log;
	return $new;
}

# A table with two indexes; its pages and theirs have frames.
sub loaded
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . frames_sql() . q{
		CREATE TABLE t (a int, b text COLLATE "C", v int) USING mtpower;
		CREATE INDEX t_a ON t USING mtpower_blink (a);
		CREATE INDEX t_h ON t USING mtpower_hash (b);
		INSERT INTO t SELECT g, md5(g::text), g % 7 FROM generate_series(1, 20000) g;
		CREATE FUNCTION wrong() RETURNS text LANGUAGE sql AS $$
			SELECT string_agg(disagree(query), '') FROM unnest(ARRAY[
				'SELECT t.* FROM t WHERE a BETWEEN 100 AND 3000', 'SELECT t.* FROM t WHERE a > 19000',
				'SELECT t.* FROM generate_series(-200, 22000, 13) g JOIN t ON t.a = g',
				'SELECT t.* FROM generate_series(-200, 22000, 17) g JOIN t ON t.b = md5(g::text)']) query $$;
		-- Probes by both indexes, skewed; the hits among a hundred accesses, frames alone
		CREATE FUNCTION probes(n int, seed int) RETURNS numeric LANGUAGE plpgsql AS $$
		DECLARE before bigint[]; after bigint[];
		BEGIN
			PERFORM scans('frames'), setseed(seed / 1000.0);
			before := ARRAY[stat('hits'), stat('misses')];
			PERFORM count(r.v) FROM (SELECT (20000 * random() ^ 2)::int AS key FROM generate_series(1, n)) g, LATERAL (SELECT v FROM t WHERE a = g.key OFFSET 0) r;
			PERFORM count(r.v) FROM (SELECT md5((20000 * random() ^ 2)::int::text) AS key FROM generate_series(1, n)) g, LATERAL (SELECT v FROM t WHERE b = g.key OFFSET 0) r;
			after := ARRAY[stat('hits'), stat('misses')];
			RETURN 100.0 * (after[1] - before[1]) / greatest(after[1] - before[1] + after[2] - before[2], 1);
		END $$;});
	# Pages whose rows all see have frames of their own.
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', 'SELECT probes(10000, 1)') for 1 .. 3;
	return;
}

# Which pages have frames
sub content
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{SELECT string_agg(relation::oid || ' ' || block || ' ' || kind, ',' ORDER BY relation, block, kind) FROM mtpower.stat_get_content()});
}

1;
