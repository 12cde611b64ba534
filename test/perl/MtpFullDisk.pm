# MtpFullDisk: what tests of full disks share, beyond the disk itself (MtpSmallDisk): a tablespace there, how much room is left, and builds and
# loads that run out of it.
package MtpFullDisk;

use strict;
use warnings;
use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(small_disk_node room leave_room files fail_builds fail_loads);

my $disk = $ENV{MTP_SMALL_DISK};
my $block;

# A server whose tablespace "small" is on the disk, without workers, with the extension.
sub small_disk_node
{
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
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower');
	$block = $node->safe_psql('postgres', 'SHOW block_size');
	return $node;
}

# Leaves room for so many blocks on the disk; without a number, all of it.  As a shell command, for psql.
sub room
{
	my ($blocks) = @_;
	return "rm -f $disk/balloon" if !defined $blocks;
	return "rm -f $disk/balloon; fallocate -l \$(( \$(df -B1 --output=avail $disk | tail -n 1) - $blocks * $block )) $disk/balloon 2>/dev/null";
}

# Somebody may take what is left meanwhile.
sub leave_room { system(room(@_)); return; }

sub files { return join(' ', sort split /\n/, `cd $disk/space && find . -type f -size +0`); }

# Index builds that find no room for the files that they sort with, or for the index.  create: CREATE INDEX of the index, without tablespace; rows: makes
# the table's rows.
sub fail_builds
{
	my ($faults, $index, $create, $rows) = @_;
	my $node = $faults->{node};
	foreach my $what ('sorts', 'writes')
	{
		leave_room();
		$node->safe_psql('postgres', "DROP INDEX $index; TRUNCATE t; $rows");
		my $before = files();
		leave_room($what eq 'sorts' ? 20 : 60);
		my $space = $what eq 'sorts' ? 'SET temp_tablespaces = small;' : '';
		my $tablespace = $what eq 'sorts' ? 'pg_default' : 'small';
		my $build = "$space SET maintenance_work_mem = '1MB'; $create TABLESPACE $tablespace";
		my $err;
		isnt($node->psql('postgres', $build, stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]), 0, "no disk space where CREATE INDEX $what");
		like($err, qr/53100/, "where CREATE INDEX $what: clean error");
		is(files(), $before, "where CREATE INDEX $what: no file is left");
		leave_room();
		$node->safe_psql('postgres', $build);
		$faults->sound("where CREATE INDEX $what");
	}
	return;
}

# A backend and workers extend the same indexes of table u; the disk is full all of a sudden.  Two loads at a time, with room for less than `most`
# blocks; every 25 rounds a look at what they have left.  Returns how many loads failed for want of space.
sub fail_loads
{
	my ($faults, $rounds, $most, $indexes) = @_;
	my $node = $faults->{node};
	my $csv = $node->basedir . '/rows';
	my %errors = ('53100' => 0);
	my $rows = 0;
	$node->append_conf('postgresql.conf', "mtpower.workers = 2\nmtpower.batch_size = 64kB");
	$node->restart;
	$node->safe_psql('postgres', "CREATE TABLE u (a int, b text COLLATE \"C\") USING mtpower; $indexes");
	$node->safe_psql('postgres', "COPY (SELECT hashint4(g), md5(g::text) FROM generate_series(1, 10000) g) TO '$csv'");
	$faults->{table} = 'u';
	foreach my $round (1 .. $rounds)
	{
		leave_room($round % 5 == 0 ? 600 : int(rand($most)));
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
		note "round $round: " . $node->safe_psql('postgres', 'SELECT sum(failed_error), sum(entries_workers) FROM mtpower.stat_batches');

		# A VACUUM that meets the full disk, and one that does not
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
	is(join(' ', grep { $_ ne '53100' && $_ ne 'none' } keys %errors), '', 'loads failed for want of space alone');
	return $errors{'53100'};
}

1;
