# The disk is full when B-link indexes are built, loaded and split, on a small file system of
# their own. Statements fail cleanly, indexes are sound, and work goes on when there is space
# again.
use strict;
use warnings;
use MtpSmallDisk '48m';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;
use MtpFullDisk;

my $node = small_disk_node();
$node->safe_psql('postgres', q{
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

fail_builds($faults, 't_b', 'CREATE INDEX t_b ON t USING mtpower_blink (b)', 'INSERT INTO t SELECT g FROM generate_series(1, 10000) g');

$node->safe_psql('postgres', 'DROP INDEX t_b');
my $rounds = $ENV{MTP_LONG} ? 1000 : 100;
my $failed = fail_loads($faults, $rounds, 100, q{
	CREATE INDEX u_a ON u USING mtpower_blink (a) TABLESPACE small;
	CREATE INDEX u_b ON u USING mtpower_blink (b) TABLESPACE small;});
cmp_ok($failed, '>', $rounds / 4, 'loads failed for want of disk space');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(failed_error) FROM mtpower.stat_batches'), '>', 0, 'so did workers');
$faults->log_is_clean;
$node->stop;
done_testing();
