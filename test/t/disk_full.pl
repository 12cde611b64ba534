# A disk that is full: indexes on a small file system of their own.
use strict;
use warnings;
use MtpSmallDisk '48m';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

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
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION incomplete(i regclass, leaves bool) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM generate_series(1, pg_relation_size(i) / current_setting('block_size')::int - 1) b,
		mtpower.page_info(i, b) p WHERE p.flags @> '{incomplete_split}' AND (p.level = 0) = leaves $$;
CREATE FUNCTION key(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(a::text, 10, '0') || repeat(md5(a::text), 14) $$;
CREATE TABLE t (a int, b text COLLATE "C" GENERATED ALWAYS AS (key(a)) STORED) USING mtpower;
CREATE INDEX t_b ON t USING mtpower_blink (b) WITH (fillfactor = 100) TABLESPACE small;
CREATE PROCEDURE fill() LANGUAGE plpgsql AS $$
BEGIN
	FOR g IN 1 .. 10000 LOOP
		INSERT INTO t VALUES (g * 100);
		EXIT WHEN (SELECT count(*) FROM generate_series(1, pg_relation_size('t_b') / current_setting('block_size')::int - 1) b,
			mtpower.page_info('t_b', b) p WHERE p.level = 1 AND p.free_bytes < 500) = 1;
	END LOOP;
END $$;
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

# Somebody may take what is left meanwhile.
sub leave_room { system(room(@_)); return; }

sub files { return join(' ', sort split /\n/, `cd $disk/space && find . -type f -size +0`); }

# Each number of free blocks, from none up: an insert that splits a leaf, and with it inner pages, fails when it
# allocates one page or another; among them those that the downlinks need, when the leaf's split is in the index already.  Then back
# to the savepoint; there is space again; and on.
foreach my $case (
	[ 'one row', 'INSERT INTO t VALUES (3001)' ],
	[ 'a batch into one leaf', 'INSERT INTO t SELECT 3001 + g FROM generate_series(1, 60) g' ],
	[ 'a COPY into many leaves', q{COPY t (a) FROM PROGRAM 'seq 301 23 8000'} ])
{
	my ($name, $insert) = @$case;
	my %seen = (leaf => 0, inner => 0, failed => 0);
	my @wrong;
	foreach my $room (0 .. 400)
	{
		# A root of level 1, and leaves below it, all of them full.
		my ($out, $err);
		my $rc = $node->psql('postgres', qq{
			TRUNCATE t;
			CALL fill();
			BEGIN;
			INSERT INTO t VALUES (1000000);
			SAVEPOINT s;
			\\! @{[ room($room) ]}
			$insert;
			ROLLBACK TO s;
			\\! @{[ room() ]}
			SELECT incomplete('t_b', true), incomplete('t_b', false);
			$insert;
			COMMIT;
			SELECT held_bytes, mtpower.verify_index('t_b', true) FROM mtpower.stat_memory},
			stdout => \$out, stderr => \$err, on_error_stop => 0, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
		my ($leaf, $inner, $held) = $out =~ /^(\d+)\|(\d+)\n(\d+)\|$/ or die "unexpected: $out$err";
		$err =~ s/^psql:<stdin>:\d+: |\n//g;
		$seen{leaf}++ if $leaf > 0;
		$seen{inner}++ if $inner > 0;
		push @wrong, "room for $room: $err$held" if $held != 0 || $err !~ /^(ERROR:  53100)?$/;
		# The first attempt that has room enough is the last one.
		last if $err eq '';
		$seen{failed}++;
	}
	is(join("\n", @wrong), '', "$name: clean errors, a sound index, no memory held");
	cmp_ok($seen{failed}, '>', 1, "$name: failed in $seen{failed} places, cleanly");
	cmp_ok($seen{leaf}, '>', 0, "$name: without downlinks of leaves $seen{leaf} times");
	cmp_ok($seen{inner}, '>', 0, "$name: without downlinks of inner pages $seen{inner} times");
	$faults->sound($name);
}

# An index build, and the files that it sorts with
foreach my $what ('sorts' , 'writes')
{
	leave_room();
	$node->safe_psql('postgres', 'DROP INDEX t_b; TRUNCATE t; INSERT INTO t SELECT g FROM generate_series(1, 10000) g');
	my $before = files();
	leave_room($what eq 'sorts' ? 20 : 60);
	my $space = $what eq 'sorts' ? 'SET temp_tablespaces = small;' : '';
	my $tablespace = $what eq 'sorts' ? 'pg_default' : 'small';
	my ($out, $err);
	isnt($node->psql('postgres', "$space SET maintenance_work_mem = '1MB'; CREATE INDEX t_b ON t USING mtpower_blink (b) TABLESPACE $tablespace",
		stderr => \$err, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]), 0, "no disk space where CREATE INDEX $what");
	like($err, qr/53100/, "where CREATE INDEX $what: clean error");
	is(files(), $before, "where CREATE INDEX $what: no file is left");
	leave_room();
	$node->safe_psql('postgres', "$space SET maintenance_work_mem = '1MB'; CREATE INDEX t_b ON t USING mtpower_blink (b) TABLESPACE $tablespace");
	$faults->sound("where CREATE INDEX $what");
}

# A backend and workers extend the same indexes; the disk is full all of a sudden.
$node->append_conf('postgresql.conf', q{
mtpower.workers = 2
mtpower.batch_size = 64kB
});
$node->restart;
$node->safe_psql('postgres', q{
	DROP INDEX t_b;
	CREATE TABLE u (a int, b text COLLATE "C") USING mtpower;
	CREATE INDEX u_a ON u USING mtpower_blink (a) TABLESPACE small;
	CREATE INDEX u_b ON u USING mtpower_blink (b) TABLESPACE small;});
$faults->{table} = 'u';
my $csv = $node->basedir . '/rows';
$node->safe_psql('postgres', "COPY (SELECT hashint4(g), md5(g::text) FROM generate_series(1, 10000) g) TO '$csv'");
my $rounds = $ENV{MTP_LONG} ? 1000 : 100;
my %errors;
my $rows = 0;
foreach my $round (1 .. $rounds)
{
	# Two loads, and room for a part of what they need
	leave_room($round % 5 == 0 ? 600 : int(rand(100)));
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
	my $counts = $node->safe_psql('postgres', 'SELECT sum(failed_error), sum(entries_workers) FROM mtpower.stat_batches');
	note "round $round: $counts";
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
cmp_ok($errors{'53100'} // 0, '>', $rounds / 2, 'loads failed for want of disk space');
is(join(' ', grep { $_ ne '53100' && $_ ne 'none' } keys %errors), '', 'and for nothing else');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(failed_error) FROM mtpower.stat_batches'), '>', 0, 'so did workers');
$faults->log_is_clean;
$node->stop;
unlink "$disk/balloon";
done_testing();
