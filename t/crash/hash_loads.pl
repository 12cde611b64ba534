# A crash or an error comes between the records of a hash index's growth. Replay leaves a sound
# index, on the server and on a standby, and the index grows on. Loads are killed at random
# moments.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpHash;
use MtpJudgeDisturb;
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 0
wal_consistency_checking = 'mtpower'
autovacuum = off
restart_after_crash = on
wal_keep_size = 1GB
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
# The spread hashes of nearly all rows, computed once
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE TABLE spreads AS SELECT a, spread(hashint4(a)) AS h FROM (SELECT hashint4(g) AS a FROM generate_series(1, 40000) g UNION SELECT hashint4(g) FROM generate_series(100001, 105000) g
	UNION SELECT hashint4(g) FROM generate_series(500001, 540000) g UNION SELECT hashint4(g) FROM generate_series(600001, 610000) g UNION VALUES (-1), (7), (8)) x});
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $scan = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;';

# A table whose index has one bucket, however many rows: a cursor kept the bucket from being split.  (But "handful" is few enough to be dealt
# out over the first number of buckets.)
sub make_table
{
	my ($name, $rows, $query) = @_;
	if ($name eq 'handful')
	{
		$node->safe_psql('postgres', "SET mtpower.batching = off; CREATE TABLE $name (a int) USING mtpower; CREATE INDEX ${name}_a ON $name USING mtpower_hash (a); INSERT INTO $name $query");
		return;
	}
	$node->safe_psql('postgres', qq{$scan
		CREATE TABLE $name (a int) USING mtpower;
		CREATE INDEX ${name}_a ON $name USING mtpower_hash (a) WITH (initial_buckets = 1);
		INSERT INTO $name VALUES (-1), (-1);
		BEGIN;
		DECLARE c CURSOR FOR SELECT a FROM $name WHERE a = -1;
		FETCH 1 FROM c;
		INSERT INTO $name $query;
		COMMIT}) if $rows;
	$node->safe_psql('postgres', "CREATE TABLE $name (a int) USING mtpower; CREATE INDEX ${name}_a ON $name USING mtpower_hash (a)") if !$rows;
	return;
}

sub check
{
	my ($server, $name, $what, $model) = @_;
	my $err;
	is($server->psql('postgres', "SELECT mtpower.verify_index('${name}_a', true)", stderr => \$err), 0, "$name: $what: verifies") or diag($err);
	is(differences($server, "${name}_a", $model eq 'known' ? "SELECT h FROM $name JOIN spreads USING (a)" : "SELECT spread(hashint4(a)) FROM $name"), '',
		"$name: $what: every bucket is as the model has it") if $model;
	is($server->safe_psql('postgres', "$scan SELECT count(*) FROM (SELECT DISTINCT a FROM $name) d JOIN $name t ON t.a = d.a"),
		$server->safe_psql('postgres', "SELECT count(*) FROM $name"), "$name: $what: all rows are found");
	return;
}

sub both
{
	my ($name, $what) = @_;
	check($node, $name, $what, 'known');
	$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
	check($standby, $name, "$what, standby", 'known');
	is(join(' ', %{ space_of($standby, "${name}_a") }{qw(m n p0 b)}), join(' ', %{ space_of($node, "${name}_a") }{qw(m n p0 b)}), "$name: $what: as large on the standby");
	return;
}

# Name; rows that are in the one bucket to begin with, and where from; the load; at which points it crashes, one after another
my @cases = (
	[ 'few', 300, 'SELECT hashint4(g) FROM generate_series(1, 300) g', 'SELECT hashint4(g) FROM generate_series(1001, 9000) g', ('hash_extended', ('hash_split') x 7) ],
	[ 'stash', 3000, 'SELECT hashint4(g) FROM generate_series(1, 3000) g', 'SELECT hashint4(g) FROM generate_series(10001, 19000) g', ('hash_split') x 5 ],
	[ 'long', 40000, 'SELECT hashint4(g) FROM generate_series(1, 40000) g', 'SELECT hashint4(g) FROM generate_series(100001, 101000) g', qw(hash_split hash_piece hash_piece hash_split hash_piece hash_split) ],
	[ 'heavy', 20000, 'SELECT CASE WHEN g % 10 < 3 THEN 7 WHEN g % 10 < 5 THEN 8 ELSE hashint4(g) END FROM generate_series(1, 20000) g',
		'SELECT CASE WHEN g % 10 < 3 THEN 7 ELSE hashint4(g) END FROM generate_series(100001, 105000) g', qw(hash_split hash_piece hash_split hash_split) ],
	[ 'handful', 300, 'SELECT hashint4(g) FROM generate_series(1, 300) g', 'SELECT hashint4(g) FROM generate_series(1001, 21000) g', qw(hash_extended hash_initial) ],
	[ 'empty', 0, '', 'SELECT hashint4(g) FROM generate_series(1, 20000) g', qw(hash_extended hash_initial) ]);

foreach my $case (@cases)
{
	my ($name, $rows, $from, $load, @points) = @$case;
	my ($out, $err);
	make_table($name, $rows, $from);
	check($node, $name, 'made', 'known');
	is(space_of($node, "${name}_a")->{b}, 1, "$name: one bucket") if $rows;

	# An error exactly there, then back to a savepoint, and on
	my ($first) = $points[0];
	is($node->psql('postgres', qq{
		\\set ON_ERROR_STOP 0
		\\set VERBOSITY sqlstate
		CREATE TABLE ${name}_copy (LIKE $name INCLUDING ALL);
		INSERT INTO ${name}_copy SELECT a FROM $name LIMIT 200;
		BEGIN;
		SAVEPOINT s;
		SET LOCAL mtpower.debug_injection = '$first=disk_full';
		INSERT INTO ${name}_copy $load;
		ROLLBACK TO s;
		SELECT mtpower.verify_index('${name}_copy_a_idx', true);
		INSERT INTO ${name}_copy $load;
		COMMIT;
		SELECT held_bytes, mtpower.verify_index('${name}_copy_a_idx', true) FROM mtpower.stat_memory}, on_error_stop => 0, stdout => \$out, stderr => \$err), 0, "$name: going on after an error at $first");
	like($err, qr/53100/, "$name: the error has its SQLSTATE");
	is($out, "\n0|", "$name: no memory is held");

	# A crash there, and at the next one, …
	my $round = 0;
	foreach my $point (@points)
	{
		my $what = 'crash ' . ++$round . " at $point";
		my $before = space_of($node, "${name}_a");
		$node->psql('postgres', "SET mtpower.debug_injection = '$point=panic'; INSERT INTO $name $load", stderr => \$err);
		like($err, qr/crash at injection point|terminat|closed/, "$name: $what");
		wait_for_restart($node);
		my $after = space_of($node, "${name}_a");
		is($after->{b}, $before->{b} + 1, "$name: $what: there is one bucket more") if $point eq 'hash_split';
		is($after->{b}, $before->{b}, "$name: $what: there are as many buckets") if $point eq 'hash_extended';
		both($name, $what);
	}
}

# All of it grows further: here, and on the promoted standby.
$node->stop;
$standby->promote;
foreach my $server ($standby, $node)
{
	$node->start if $server == $node;
	my $where = $server == $node ? 'primary' : 'promoted standby';
	foreach my $case (@cases)
	{
		my ($name, $rows, $from, $load) = @$case;
		my $before = space_of($server, "${name}_a");
		my $err;
		is($server->psql('postgres', "INSERT INTO $name $load", stderr => \$err), 0, "$name: the load works on the $where") or diag($err);
		check($server, $name, "$where, load", 'known');
		$server->safe_psql('postgres', "INSERT INTO $name SELECT hashint4(g) FROM generate_series(500001, 540000) g");
		check($server, $name, "$where, another load", 'known');
		my $space = space_of($server, "${name}_a");
		my $entries = $server->safe_psql('postgres', "SELECT count(*) FROM $name WHERE a NOT IN (7, 8)");
		cmp_ok($space->{b}, '>', $before->{b}, "$name: it grew on the $where");
		cmp_ok($space->{b} * $space->{per_bucket}, '>=', $entries, "$name: as far as its rows need") if $name ne 'heavy';
		# FREEZE waits for a page that the background writer has pinned, whose dead rows would stay.
		$server->safe_psql('postgres', "DELETE FROM $name WHERE a % 2 = 0; VACUUM (FREEZE) $name; INSERT INTO $name SELECT hashint4(g) FROM generate_series(600001, 610000) g");
		check($server, $name, "$where, rows deleted and added", 'known');
		$server->safe_psql('postgres', "DELETE FROM $name; VACUUM (FREEZE) $name");
		check($server, $name, "$where, emptied", 'known');
	}
	unlike(slurp_file($server->logfile), qr/inconsistent page|TRAP/, "the $where: redo agrees with every page");
	$server->stop;
}

# kill -9 at random moments of loads that split all the time, with checkpoints in between
my $rounds = $ENV{MTP_LONG} ? 20 : 4;
my $seed = $ENV{SEED} || int(time);
srand($seed);
note "seed $seed";
$node->append_conf('postgresql.conf', "mtpower.workers = 2\nmtpower.batch_size = 64kB\nwal_consistency_checking = ''\nrestart_after_crash = off");
$node->start;
$node->safe_psql('postgres', q{DROP TABLE few; CREATE TABLE few (a int) USING mtpower; CREATE INDEX few_a ON few USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 10)});
my $rows = 0;
foreach my $round (1 .. $rounds)
{
	my $err = '';
	my $from = $round * 1_000_000;
	my $load = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'),
			map { my $f = $from + $_ * 5000; ('-c', "INSERT INTO few SELECT hashint4(g) FROM generate_series($f + 1, $f + 5000) g", '-c', $_ % 7 == 3 ? 'CHECKPOINT' : '', '-c', 'SELECT ' . ($_ + 1)) } 0 .. 199 ],
		'<', '/dev/null', '>', \my $out, '2>', \$err);
	my $end = time + 20;
	my $until = 1 + int(rand(8));
	$load->pump_nb while ($out // '') !~ /^$until$/m && time < $end;
	sleep(rand(0.1));
	MtpJudgeDisturb::kill_server($node);
	eval { $load->finish };
	my ($acked) = reverse(($out // '') =~ /^(\d+)$/mg);
	$node->start;
	my $is = $node->safe_psql('postgres', "SELECT count(*) FROM few") - $rows;
	ok($is % 5000 == 0 && $is >= 5000 * ($acked // 0) && $is <= 5000 * (($acked // 0) + 1), "round $round: $is rows, acknowledged were " . 5000 * ($acked // 0));
	$rows += $is;
	check($node, 'few', "round $round, killed");
	# With FREEZE for the same reason as above.
	$node->safe_psql('postgres', 'VACUUM (FREEZE) few');
	check($node, 'few', "round $round, VACUUM", 'any');
}
$node->stop;
done_testing();
