# The machine fails while it writes pages, so that only a part of some is on the disk. Recovery
# must restore them from full-page images. Tables and indexes change in all ways under few
# buffers, so that changed pages are on the disk when the server is killed; then parts of them, in
# sectors of 512 bytes, get their bytes of the last checkpoint. ROUNDS= and SEED=.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpJudgeDisturb;
use MtpVariant;

my $rounds = $ENV{ROUNDS} || 2;
my $seed = $ENV{SEED} || 1;
note "seed $seed";
srand($seed);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 2MB
mtpower.batch_size = 256kB
mtpower.batch_memory = 8MB
mtpower.workers = 1
autovacuum = off
bgwriter_delay = 10ms
bgwriter_lru_maxpages = 1000
checkpoint_timeout = 1h
max_wal_size = 4GB
});
$node->append_conf('postgresql.conf', "full_page_writes = off") if $ENV{NO_FULL_PAGES};	# then this test must fail
$node->start;
my $bs = $node->safe_psql('postgres', 'SHOW block_size');
$node->safe_psql('postgres', q{
	CREATE EXTENSION mtpower;
} . verifying() . q{
	CREATE TABLE t (k bigint, a int, b text COLLATE "C", c int) USING mtpower;
	CREATE INDEX t_a ON t USING mtpower_blink (a);
	CREATE INDEX t_b ON t USING mtpower_blink (b, c);
	CREATE INDEX t_ha ON t USING mtpower_hash (a);
	CREATE INDEX t_hc ON t USING mtpower_hash (c);
	CREATE UNIQUE INDEX t_k ON t (k);
	CREATE INDEX t_c ON t (c);
	CREATE INDEX t_ba ON t (b, a);
	INSERT INTO t SELECT g, hashint4(g), md5(g::text), g % 50 FROM generate_series(1, 8000) g});
my @indexes = qw(t_a t_b t_ha t_hc t_k t_c t_ba);

# What is changed in a round, all of it acknowledged: a load, single rows, updates, a range of keys deleted and vacuumed, dead hints.
sub change
{
	my ($round) = @_;
	my ($low, $high) = ($round * 1000000, $round * 1000000 + 12000);
	$node->safe_psql('postgres', qq{
		INSERT INTO t SELECT g, hashint4(g), md5(g::text), g % 50 FROM generate_series($low, $high) g;
		SET mtpower.batching = off;
		INSERT INTO t SELECT g, hashint4(g), md5(g::text), g % 50 FROM generate_series($high + 1, $high + 300) g;
		UPDATE t SET a = a / 2, c = c + 1 WHERE k % 9 = $round;
		DELETE FROM t WHERE b BETWEEN to_hex($round) || '0' AND to_hex($round) || 'a';
		VACUUM t;
		UPDATE t SET c = c + 1 WHERE k % 23 = $round;
		SET enable_seqscan = off; SET enable_bitmapscan = off;
		SELECT count(*), sum(k) FROM t WHERE a > 0;
		SELECT count(*), sum(k) FROM t WHERE c = 10});
	return;
}

# Of each block that has changed since the copy some sectors get their old bytes; at least one does, and one does not.
sub tear
{
	my ($path, $copy) = @_;
	my ($now, $old, $torn) = (slurp_file($path), $copy, 0);
	my $sectors = $bs / 512;
	foreach my $block (0 .. length($now) / $bs - 1)
	{
		my $before = $block * $bs < length($old) ? substr($old, $block * $bs, $bs) : "\0" x $bs;
		next if substr($now, $block * $bs, $bs) eq $before;
		my $way = rand;
		my $cut = 1 + int(rand($sectors - 1));
		foreach my $sector (0 .. $sectors - 1)
		{
			next if $way < 0.4 ? $sector < $cut : $way < 0.8 ? $sector >= $cut : rand(2) < 1;
			substr($now, $block * $bs + $sector * 512, 512) = substr($before, $sector * 512, 512);
		}
		$torn++;
	}
	open(my $file, '+<:raw', $path) or die "$path: $!";
	print $file $now;
	close($file);
	return $torn;
}

sub look
{
	return $node->safe_psql('postgres', q{
		SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_indexonlyscan = off;
		SELECT count(*), sum(k), sum(hashtext(concat(k, a, b, c))) FROM t});
}

foreach my $round (1 .. $rounds)
{
	my %path = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } 't', @indexes;
	$node->safe_psql('postgres', 'CHECKPOINT');
	my %copy = map { $_ => slurp_file($path{$_}) } keys %path;
	change($round);
	my $before = look();
	if ($round % 2) { MtpJudgeDisturb::kill_server($node); }
	else { $node->stop('immediate'); }
	foreach my $name (sort keys %path)
	{
		my $torn = tear($path{$name}, $copy{$name});
		cmp_ok($torn, '>', 0, "round $round: $torn pages of $name are torn");
	}
	$node->start;
	is(look(), $before, "round $round: the rows are there");
	foreach my $index (@indexes)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT verify_one('$index')");
		is("$rc $err", '0 ', "round $round: $index verifies");
	}
	unlike(slurp_file($node->logfile), qr/PANIC|TRAP|invalid page/, "round $round: no complaint");
}
$node->stop;
done_testing();
