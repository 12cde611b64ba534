# A disk that is full when a hash index grows, or takes what does not fit: clean errors, sound indexes, and on when there is space again.
use strict;
use warnings;
use MtpSmallDisk '48m';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpHash;

my $disk = $ENV{MTP_SMALL_DISK};
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
mtpower.batch_min_rows = 1
autovacuum = off
});
$node->start;
mkdir "$disk/space" or die "$disk/space: $!";
$node->safe_psql('postgres', "CREATE TABLESPACE small LOCATION '$disk/space'");
$node->safe_psql('postgres', 'CREATE EXTENSION mtpower;' . hash_model_sql() . q{
CREATE TABLE t (a int) USING mtpower;
CREATE INDEX t_a ON t USING mtpower_hash (a) WITH (initial_buckets = 2) TABLESPACE small;
});
my $faults = MtpFaults->new($node, 't');
my $block = $node->safe_psql('postgres', 'SHOW block_size');

# Leaves room for so many blocks on the disk; without a number, all of it.  As a shell command, for psql.
sub room
{
	my ($blocks) = @_;
	return "rm -f $disk/balloon" if !defined $blocks;
	return "rm -f $disk/balloon; head -c \$(( \$(df -B1 --output=avail $disk | tail -n 1) - $blocks * $block )) /dev/zero > $disk/balloon 2>/dev/null";
}

sub leave_room { system(room(@_)); return; }

sub files { return join(' ', sort split /\n/, `cd $disk/space && find . -type f -size +0`); }

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

# An index build, and the files that it sorts with
foreach my $what ('sorts', 'writes')
{
	leave_room();
	$node->safe_psql('postgres', 'DROP INDEX t_a; TRUNCATE t; INSERT INTO t SELECT hashint4(g) FROM generate_series(1, 200000) g');
	my $before = files();
	leave_room($what eq 'sorts' ? 20 : 60);
	my $space = $what eq 'sorts' ? 'SET temp_tablespaces = small;' : '';
	my $tablespace = $what eq 'sorts' ? 'pg_default' : 'small';
	my $err;
	isnt($node->psql('postgres', "$space SET maintenance_work_mem = '1MB'; CREATE INDEX t_a ON t USING mtpower_hash (a) TABLESPACE $tablespace",
		stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]), 0, "no disk space where CREATE INDEX $what");
	like($err, qr/53100/, "where CREATE INDEX $what: clean error");
	is(files(), $before, "where CREATE INDEX $what: no file is left");
	leave_room();
	$node->safe_psql('postgres', "$space SET maintenance_work_mem = '1MB'; CREATE INDEX t_a ON t USING mtpower_hash (a) TABLESPACE $tablespace");
	$faults->sound("where CREATE INDEX $what");
}

# A backend and workers extend the same indexes; the disk is full all of a sudden.
$node->append_conf('postgresql.conf', q{
mtpower.workers = 2
mtpower.batch_size = 64kB
});
$node->restart;
$node->safe_psql('postgres', q{
	DROP INDEX t_a;
	CREATE TABLE u (a int, b text COLLATE "C") USING mtpower;
	CREATE INDEX u_a ON u USING mtpower_hash (a) WITH (initial_buckets = 1, fillfactor = 20) TABLESPACE small;
	CREATE INDEX u_b ON u USING mtpower_hash (b) TABLESPACE small;});
$faults->{table} = 'u';
my $csv = $node->basedir . '/rows';
$node->safe_psql('postgres', "COPY (SELECT hashint4(g), md5(g::text) FROM generate_series(1, 10000) g) TO '$csv'");
my $rounds = $ENV{MTP_LONG} ? 500 : 50;
my %errors;
my $rows = 0;
foreach my $round (1 .. $rounds)
{
	leave_room($round % 5 == 0 ? 600 : int(rand(50)));
	my @jobs = map { $faults->start("COPY u FROM '$csv'") } 1, 2;
	foreach my $job (@jobs)
	{
		my $err = $faults->finish($job);
		$errors{ $err eq '' ? 'none' : $err =~ /53100/ ? '53100' : $err }++;
		$rows += 10000 if $err eq '';
	}
	leave_room();
	next if $round % 25;
	is($faults->finish($faults->start("COPY u FROM '$csv'")), '', "round $round: the next COPY works");
	$faults->sound("round $round", $rows + 10000);
	leave_room(0);
	$node->safe_psql('postgres', 'DELETE FROM u WHERE a % 2 = 0');
	like($faults->finish($faults->start('VACUUM u')), qr/^(ERROR:  53100\n)?$/, "round $round: VACUUM on a full disk");
	leave_room();
	$node->safe_psql('postgres', 'VACUUM u');
	$faults->sound("round $round, VACUUM");
	$node->safe_psql('postgres', 'TRUNCATE u');
	$rows = 0;
}
note join(', ', map { "$_: $errors{$_}" } sort keys %errors);
cmp_ok($errors{'53100'} // 0, '>', 0, 'loads failed for want of disk space');
is(join(' ', grep { $_ ne '53100' && $_ ne 'none' } keys %errors), '', 'and for nothing else');
$faults->log_is_clean;
$node->stop;
unlink "$disk/balloon";
done_testing();
