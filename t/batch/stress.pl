# pgbench and autovacuum run beside loads of the same tables. Each transaction does the same to an
# mtpower table, to a heap table with B-link indexes, and to a heap table with btrees; these must
# be equal at each moment. The variant says which indexes the mtpower table has. MTP_LONG=1 takes
# two minutes.
#
# Variants: blink btree
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpLoad;
use MtpVariant;

my $am = access_method();
my $seconds = $ENV{MTP_LONG} ? 120 : 6;
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
shared_buffers = 4MB
mtpower.batching = on
mtpower.batch_memory = 2MB
mtpower.batch_size = 64kB
mtpower.batch_min_rows = 100
mtpower.workers = 2
max_worker_processes = 8
autovacuum_naptime = 1
autovacuum_max_workers = 3
autovacuum_vacuum_threshold = 50
autovacuum_vacuum_insert_threshold = 50
autovacuum_analyze_threshold = 50
autovacuum_vacuum_scale_factor = 0
autovacuum_vacuum_insert_scale_factor = 0
autovacuum_analyze_scale_factor = 0
autovacuum_vacuum_cost_delay = 0
log_autovacuum_min_duration = -1
fsync = off
});
$node->start;
my $tables = '';
foreach my $table ('fed', 'kept', 'mirror')
{
	my $using = $table eq 'fed' ? $am : $table eq 'kept' ? 'mtpower_blink' : 'btree';
	my $hash = $table eq 'mirror' ? 'hash' : 'mtpower_hash';
	$tables .= qq{
CREATE TABLE $table (id int, k int, v int, txt text) USING } . ($table eq 'fed' ? 'mtpower' : 'heap') . qq{;
CREATE INDEX ${table}_id ON $table USING $using (id);
CREATE INDEX ${table}_k ON $table USING $using (k);
CREATE INDEX ${table}_txt ON $table USING $using (txt COLLATE "C" DESC, v) WHERE k % 5 > 0;
CREATE INDEX ${table}_h ON $table USING $hash (txt);
};
}
$node->safe_psql('postgres', scans_sql() . qq{
CREATE EXTENSION mtpower;
@{[ verifying() ]}} . q{
CREATE FUNCTION same(lo int, hi int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE t text; want text;
BEGIN
	want := compare('mirror', lo, hi);
	FOREACH t IN ARRAY ARRAY['fed', 'kept'] LOOP
		IF compare(t, lo, hi) <> want THEN RAISE 'table % is not as its mirror, % to %', t, lo, hi; END IF;
	END LOOP;
END $$;} . $tables);

# The same for all tables
sub all { my ($sql) = @_; return join('', map { $sql =~ s/TABLE_NAME/$_/gr } 'fed', 'kept', 'mirror'); }
my $begin = q{\set n random(1, 100000000)
\set lo random(0, 999999)
BEGIN;
};
my $copy = $begin . all(q{COPY TABLE_NAME FROM PROGRAM 'awk "BEGIN { srand(:n); for (i = 0; i < 2000; i++) { k = int(rand() * 1000000); printf(\"%d\t%d\t0\t%s\n\", :n + i, k, k * 7) } }"';
}) . "END;\n";
my $insert = $begin . all(q{INSERT INTO TABLE_NAME SELECT :n + g, hashint4(:n + g) & 1048575, 0, md5(g::text) FROM generate_series(1, 1000) g WHERE hashint4(:n + g) & 1048575 < 1000000;
}) . "END;\n";
my $few = $begin . all(q{INSERT INTO TABLE_NAME VALUES (:n, :lo, 0, 'one'), (:n + 1, :lo, 0, 'two');
UPDATE TABLE_NAME SET k = (k + :n) % 1000000, v = v + 1 WHERE id BETWEEN :n - 50000 AND :n + 50000 AND k % 3 = 0;
}) . "END;\n";
my $update = $begin . all(q{UPDATE TABLE_NAME SET v = v + 1, txt = txt || 'x' WHERE k BETWEEN :lo AND :lo + 300;
}) . "END;\n";
my $move = $begin . all(q{UPDATE TABLE_NAME SET k = (k * 3 + 1) % 1000000 WHERE k BETWEEN :lo AND :lo + 5000;
}) . "END;\n";
my $delete = $begin . all(q{DELETE FROM TABLE_NAME WHERE k BETWEEN :lo AND :lo + 50000;
}) . "END;\n";
my $savepoint = $begin . all(q{SAVEPOINT s;
INSERT INTO TABLE_NAME SELECT -g, g, 0, 'gone' FROM generate_series(1, 700) g;
DELETE FROM TABLE_NAME WHERE k BETWEEN :lo AND :lo + 5000;
ROLLBACK TO s;
INSERT INTO TABLE_NAME SELECT :n + g, (:lo + g) % 1000000, 0, 'kept' FROM generate_series(1, 700) g;
}) . "END;\n";
my $abort = $begin . all(q{INSERT INTO TABLE_NAME SELECT -g, g, 0, 'gone' FROM generate_series(1, 700) g;
}) . "ROLLBACK;\n";
my $check = q{\set lo random(0, 999999)
SELECT same(:lo, :lo + 30000);
};

my %runs = (
	loads => start_pgbench($node, $seconds, 2, $copy => 4, $insert => 3, $savepoint => 1, $abort => 1),
	changes => start_pgbench($node, $seconds, 2, $few => 6, $update => 6, $move => 3, $delete => 3),
	checks => start_pgbench($node, $seconds, 2, $check => 1));
finish_pgbench($runs{$_}, $_, 5) foreach sort keys %runs;

is_clean($node, 'afterwards');
is($node->safe_psql('postgres', q{SET default_transaction_isolation = 'repeatable read'; SELECT same(0, 1100000)}), '', 'all scans of all tables agree');
is($node->safe_psql('postgres', q{
	SELECT t, (SELECT count(*) FROM mirror) > 1000 FROM (VALUES ('fed'), ('kept')) n (t), LATERAL (SELECT 1) x
	WHERE (SELECT count(*) FROM (TABLE mirror EXCEPT ALL TABLE fed) d) + (SELECT count(*) FROM (TABLE fed EXCEPT ALL TABLE mirror) d) = 0
	AND (SELECT count(*) FROM (TABLE mirror EXCEPT ALL TABLE kept) d) + (SELECT count(*) FROM (TABLE kept EXCEPT ALL TABLE mirror) d) = 0}), "fed|t\nkept|t", 'the tables have the same rows');
my $stat = q{FROM mtpower.stat_batches WHERE index::text ~ '^(fed|kept)_(id|k)$'};
is($node->safe_psql('postgres', "SELECT count(*), min(entries) > 5000, sum(entries_workers) > 0, sum(entries_backends) > 0 $stat"), '4|t|t|t', 'rows came in batches, from workers and sessions');
is($node->safe_psql('postgres', q{SELECT min(autovacuum_count) > 0, min(autoanalyze_count) > 0 FROM pg_stat_user_tables WHERE relname IN ('fed', 'kept')}), 't|t', 'beside autovacuum');
$node->safe_psql('postgres', 'DELETE FROM fed; DELETE FROM kept');
$node->safe_psql('postgres', 'VACUUM fed, kept');
is_clean($node, 'emptied');
$node->stop;
log_is_clean($node);
done_testing();
