# A crash comes between the two records of an inner page's split. Keys are so wide that inner
# pages split often, and into three pages and more. Afterwards single INSERTs beside look-ups that
# bring pages into frames, batches, and DELETE with VACUUM must go on: each finishes the splits
# that it meets, from left to right. A promoted standby, whose readers had the pages in frames,
# must do so too.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpSessions qw(wait_for_restart);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
restart_after_crash = on
fsync = off
wal_keep_size = 1GB
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';

# A text of 2.5 kB that sorts as the number does, which nothing compresses
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION wide(k int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT repeat('x', 2480) || to_char(k, 'FM00000000') $$;
CREATE FUNCTION inner_incomplete(i regclass) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b,
		mtpower.page_info(i, b) p WHERE p.flags @> '{incomplete_split}' AND p.level > 0 $$;
});

# What has been put in stays there for the standby, too.
my $standby = PostgreSQL::Test::Cluster->new('standby');
$node->backup('base');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;

sub make_table
{
	my ($name) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (k int, t text COLLATE "C");
		ALTER TABLE $name ALTER t SET STORAGE EXTERNAL;
		CREATE INDEX ${name}_t ON $name USING mtpower_blink (t)});
}

# Crashes at an inner page's first split after $rows rows; the statements that come then insert $batch rows each.
sub crash
{
	my ($name, $rows, $batch) = @_;
	my $last = $rows + 200 * $batch;
	my $err;
	$node->psql('postgres', join(";\n",
			(map { insert($name, $_, $batch) } grep { $_ <= $rows } map { 1 + $batch * $_ } 0 .. $rows),
			"SET mtpower.debug_injection = 'inner_split=panic'",
			(map { insert($name, $rows + 1 + $batch * $_, $batch) } 0 .. 199)), stderr => \$err);
	like($err, qr/crash at injection point|terminat|closed/, "$name: the server crashed");
	wait_for_restart($node);
	return $node->safe_psql('postgres', "SELECT inner_incomplete('${name}_t')");
}

sub insert
{
	my ($name, $from, $n) = @_;
	return "INSERT INTO $name SELECT g, wide(g) FROM generate_series($from, $from + $n - 1) g";
}

sub verify
{
	my ($name, $what) = @_;
	my $err;
	is($node->psql('postgres', "SELECT mtpower.verify_index('${name}_t', true)", stderr => \$err), 0, "$name: $what: the index verifies") or diag($err);
}

# All must go well: an error is printed.
sub works
{
	my ($name, $what, $sql) = @_;
	my $err;
	my $status = $node->psql('postgres', $sql, stderr => \$err);
	is($status, 0, "$name: $what") or diag(substr($err, 0, 1000));
	unlike($err, qr/XX00|could not|failed/, "$name: $what: nothing is amiss") or diag(substr($err, 0, 1000));
}

# Probes that bring pages into frames
sub look_ups
{
	my ($name) = @_;
	return join(";\n", map { "SET enable_$_ = off" } qw(seqscan hashjoin mergejoin)) . ';' .
		join(";\n", ("SELECT count(*) FROM $name, LATERAL (SELECT 1 FROM $name u WHERE u.t = $name.t OFFSET 0) s") x 5);
}

# A new session, so that nothing is remembered of the tree
sub go_on
{
	my ($name, $how) = @_;
	my $max = $node->safe_psql('postgres', "SELECT max(k) FROM $name");
	my $new = join(";\n", map { (look_ups($name), insert($name, $max + $_, 1)) } 1 .. 40);
	my $vacuum = "DELETE FROM $name WHERE k BETWEEN 5 AND $max - 3; VACUUM $name";

	works($name, 'look-ups beside INSERTs', $new) if $how eq 'single';
	works($name, 'batches', join(";\n", map { insert($name, $max + 1 + 12 * $_, 12) } 0 .. 4)) if $how eq 'batch';
	works($name, 'DELETE and VACUUM', $vacuum);
	verify($name, 'after VACUUM');
	works($name, 'INSERTs behind VACUUM', join(";\n", map { insert($name, $_, 1) } 5 .. 30));
	works($name, 'a second VACUUM', "DELETE FROM $name; VACUUM $name");
	verify($name, 'at the end');
}

my %widest;
foreach my $batch (1, 12, 24)
{
	foreach my $placement (0 .. 3)
	{
		foreach my $how ('vacuum', $batch == 1 ? 'single' : 'batch')
		{
			my $name = "t_${batch}_${placement}_$how";
			make_table($name);
			my $flags = crash($name, $placement * $batch * ($batch == 1 ? 7 : 1), $batch);
			cmp_ok($flags, '>', 0, "$name: replay leaves an inner page's split incomplete");
			$widest{$batch} = $flags if $flags > ($widest{$batch} // 0);
			verify($name, 'after the crash');
			go_on($name, $how);
		}
	}
}
cmp_ok($widest{$_}, '>=', 2, "batches of $_ rows: inner pages were split into three pages and more") foreach (12, 24);

# The same behind a promotion.
my @promoted;
foreach my $batch (1, 12, 24)
{
	foreach my $placement (0 .. 2)
	{
		my $how = $batch == 1 ? 'single' : $placement % 2 ? 'vacuum' : 'batch';
		my $name = "p_${batch}_${placement}_$how";
		make_table($name);
		crash($name, $placement * $batch * ($batch == 1 ? 7 : 1), $batch);
		push @promoted, [ $name, $how ];
	}
}
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop;
my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
unlike($log, qr/TRAP|terminated by signal 11/, 'no assertion failed');

$node = $standby;
works($_->[0], 'look-ups on a standby', look_ups($_->[0])) foreach @promoted;
$standby->promote;
foreach (@promoted)
{
	my ($name, $how) = @$_;
	cmp_ok($node->safe_psql('postgres', "SELECT inner_incomplete('${name}_t')"), '>', 0, "$name: the split is incomplete behind the promotion");
	go_on($name, $how);
}
$node->stop;
$log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
unlike($log, qr/TRAP|terminated by signal 11/, 'no assertion failed');
done_testing();
