# MtpJudgeJobs: what goes on beside the judge's clients: DDL by one session, maintenance by another one.
#
# Each function returns a job at random: [ SQL, patterns of errors that it may meet besides those that everything may ].
package MtpJudgeJobs;

use strict;
use warnings;
use MtpJudgeModel;

sub one_of { my (@what) = @_; return $what[ rand(@what) ]; }

sub some_partition { return 'parted_' . int(rand($MtpJudgeModel::PARTITIONS)); }

sub some_table { return one_of('fed', 'fed', 'kept', 'kept', 'counted', some_partition()); }

# An index that is always there
sub some_index { return one_of('counted_k', 'counted_hits', 'counted_htxt', 'counted_hhits', 'counted_pkey', some_partition() . '_k_ver_idx', some_partition() . '_txt_idx',
		map { ("fed_$_", "kept_$_") } qw(op k txt ts wide n u hk htxt hnote)); }

# Indexes that failed concurrent commands have left.  What is between two commands of index_ddl is put right.
my $clean_up = q{
SELECT format('DROP INDEX %s', indexrelid::regclass) FROM pg_index WHERE NOT indisvalid AND indrelid::regclass::text ~ '^(fed|kept|counted|parted_\d+)$' \gexec
SELECT CASE WHEN to_regclass(t || '_b') IS NULL THEN format('ALTER INDEX %s_b_new RENAME TO %s_b', t, t) ELSE format('DROP INDEX %s_b_new', t) END
	FROM unnest('{fed,kept}'::text[]) t WHERE to_regclass(t || '_b_new') IS NOT NULL \gexec
};

sub clean_up { return $clean_up; }

sub ddl
{
	my $t = one_of('fed', 'kept');
	my $end = rand(4) < 1 ? 'ROLLBACK' : 'COMMIT';
	my $concurrently = rand(2) < 1 ? 'CONCURRENTLY' : '';
	my ($index, $any) = (some_index(), some_table());
	my $n = 1 + int(rand(3));
	my $def = ('USING mtpower_blink (gen, seq)', 'USING mtpower_hash (seq, gen)', 'USING mtpower_blink (note, op) WITH (fillfactor = 60)')[ $n - 1 ];
	# Into mtpower and back, without a rewrite
	my $adopt = "SELECT CASE amname WHEN 'heap' THEN mtpower.adopt(c.oid) ELSE mtpower.release(c.oid) END FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '$any'::regclass;";
	my $am = one_of('heap', 'mtpower');
	my $p = int(rand($MtpJudgeModel::PARTITIONS));
	return one_of(
		[ "BEGIN;\nALTER TABLE parted DETACH PARTITION parted_$p;\nALTER TABLE parted ATTACH PARTITION parted_$p FOR VALUES WITH (MODULUS $MtpJudgeModel::PARTITIONS, REMAINDER $p);\n$end;" ],
		[ 'CREATE INDEX IF NOT EXISTS parted_note ON parted USING ' . one_of('mtpower_blink', 'mtpower_hash') . ' (note);' ],
		[ 'DROP INDEX IF EXISTS parted_note;' ],
		(map { [ "BEGIN;\n$adopt\n$end;" ] } 1 .. 3),
		[ "ALTER TABLE $any SET ACCESS METHOD $am;" ],
		[ "ALTER TABLE $t ALTER k TYPE " . one_of('int', 'bigint') . ', ALTER txt TYPE ' . one_of('text', 'varchar') . ';' ],
		[ "BEGIN;\nALTER TABLE $t ALTER seq TYPE " . one_of('int', 'bigint') . " USING seq;\nUPDATE $t SET cold = cold + 1 WHERE op % 7 = 3;\nROLLBACK;" ],
		[ "BEGIN;\nALTER TABLE $t DROP COLUMN IF EXISTS extra;\nALTER TABLE $t ADD COLUMN extra int DEFAULT " . one_of('7', '(7 + floor(random() / 2)::int)') . ";\n$end;" ],
		[ "ALTER TABLE $t DROP COLUMN IF EXISTS extra;" ],
		[ "CLUSTER $t USING ${t}_" . one_of(qw(op k txt)) . ';' ],
		[ "VACUUM FULL $any;" ],
		[ "REINDEX TABLE $concurrently $any;" ],
		(map { [ "REINDEX INDEX $concurrently $index;" ] } 1 .. 3),
		(map { [ "CREATE INDEX $concurrently IF NOT EXISTS ${t}_x$n ON $t $def;" ] } 1 .. 3),
		[ "BEGIN;\nCREATE INDEX IF NOT EXISTS ${t}_x$n ON $t $def;\nINSERT INTO $t (op, seq) SELECT 0, g FROM generate_series(1, 500) g;\nROLLBACK;" ],
		[ "DROP INDEX $concurrently IF EXISTS ${t}_x$n;" ],
		[ $clean_up ],
		[ $clean_up . "SELECT mtpower.index_ddl('${t}_b', CASE amname WHEN 'btree' THEN 'mtpower_blink' ELSE 'btree' END) FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = '${t}_b'::regclass \\gexec" ],
		[ "ALTER INDEX ${t}_" . one_of(qw(op k txt wide hk htxt)) . ' SET (fillfactor = ' . one_of(20, 50, 90, 100) . ');' ],
		[ "ALTER TABLE $t SET (fillfactor = " . one_of(50, 100) . ', autovacuum_enabled = ' . one_of('on', 'off') . ');' ],
		[ "ALTER INDEX $index SET TABLESPACE " . one_of('elsewhere', 'pg_default') . ';' ],
		[ "ALTER TABLE $any SET TABLESPACE " . one_of('elsewhere', 'pg_default') . ';' ]);
}

# Terminates or cancels a worker while it is at work, which signals at random seldom meet.
sub hunt
{
	my $how = one_of('terminate', 'terminate', 'cancel');
	my $phase = one_of('applying', 'applying', 'sorting', 'cutting');
	return [ "DO \$\$
BEGIN
	FOR i IN 1 .. 300 LOOP
		PERFORM pg_${how}_backend(pid) FROM mtpower.stat_workers WHERE phase LIKE '$phase%';
		EXIT WHEN FOUND;
		PERFORM pg_sleep(0.002);
	END LOOP;
END \$\$;" ];
}

# An index may go while it is looked at.
my @gone = (qr/could not open relation with OID/, qr/could not find (index|relation)/, qr/index "\w+" is not valid/, qr/relation .* does not exist/, qr/cache lookup failed/);

sub maintenance
{
	my ($any, $index) = (some_table(), some_index());
	return one_of(
		(map { hunt() } 1 .. 5),
		[ "VACUUM $any;" ],
		[ "VACUUM $any;" ],
		[ "VACUUM (INDEX_CLEANUP on) $any;" ],
		[ "VACUUM (TRUNCATE off, INDEX_CLEANUP on, FREEZE) $any;" ],
		[ "VACUUM (INDEX_CLEANUP off) $any;" ],
		[ "ANALYZE $any;" ],
		[ 'CHECKPOINT;' ],
		[ 'SELECT pg_switch_wal();' ],
		[ "SELECT count(mtpower.verify_index(index, true)::text) FROM judge.indexes WHERE amname LIKE 'mtpower%' AND tab = '$any'::regclass;", @gone ],
		[ "SELECT count(bt_index_check(index, true)::text) FROM judge.indexes WHERE amname = 'btree' AND tab = '$any'::regclass;", @gone ],
		# All ways to read an index give what a sequential scan of the same snapshot gives.  The lock keeps it from going meanwhile.
		[ "BEGIN ISOLATION LEVEL REPEATABLE READ;\nLOCK TABLE fed, kept, parted, counted IN ACCESS SHARE MODE;\nSELECT 'WRONG $index ' || d FROM judge.differs('$index') d WHERE d NOT LIKE '%not read by%';\nCOMMIT;", @gone ]);
}

1;
