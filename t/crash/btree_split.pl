# A crash or an error comes while a batch splits a leaf of core's btree: when its new pages are
# there, behind the record of the split, or between its downlinks. All rows are found, on the
# server, on a standby, after recovery to a point in between, and without mtpower; the split is
# finished by whoever writes next; no page is lost.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;
use MtpSessions;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1, has_archiving => 1);
$node->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.workers = 0
wal_consistency_checking = 'mtpower, btree'
autovacuum = off
bgwriter_lru_maxpages = 0
shared_buffers = 32MB
restart_after_crash = on
log_error_verbosity = verbose
});
$node->start;
plan skip_all => 'the server was built without assertions, so without injection points'
	if $node->safe_psql('postgres', 'SHOW debug_assertions') ne 'on';
# pages(index): of each page whether it is all zeroes, or its links, level and flags.  index_state(index): pages with the flag BTP_INCOMPLETE_SPLIT,
# pages that no link leads to, pages of zeroes.
$node->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE EXTENSION amcheck;
CREATE EXTENSION pageinspect;
CREATE FUNCTION pages(i regclass, OUT blk bigint, OUT zero bool, OUT next bigint, OUT level bigint, OUT flags int) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE size int := current_setting('block_size');
BEGIN
	FOR blk IN 1 .. pg_relation_size(i) / size - 1 LOOP
		zero := get_raw_page(i::text, 'main', blk) = decode(repeat('00', size), 'hex');
		SELECT NULL, NULL, NULL INTO next, level, flags;
		IF NOT zero THEN
			SELECT btpo_next, btpo_level, btpo_flags INTO next, level, flags FROM bt_page_stats(i::text, blk);
		END IF;
		pages.blk := blk;
		RETURN NEXT;
	END LOOP;
END $$;
CREATE FUNCTION index_state(i regclass, OUT incomplete bigint, OUT stray bigint, OUT zeroes bigint) LANGUAGE sql AS $$
	WITH p AS MATERIALIZED (SELECT * FROM pages(i)), live AS (SELECT * FROM p WHERE NOT zero AND flags & 4 = 0)
	SELECT (SELECT count(*) FROM live WHERE flags & 128 <> 0),
		(SELECT count(*) - count(DISTINCT level) FROM live WHERE blk NOT IN (SELECT next FROM live)),
		(SELECT count(*) FROM p WHERE zero) $$;
CREATE FUNCTION short(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(a::text, 10, '0') $$;
CREATE FUNCTION long(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT short(a) || string_agg(md5(g || ' ' || a), '') FROM generate_series(1, 13) g $$;
CREATE FUNCTION wide(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT long(a) || long(a + 1) || long(a + 2) $$;
CREATE FUNCTION few(a int) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT short(a / 10000 % 3) $$;
CREATE FUNCTION own(a int) RETURNS int IMMUTABLE LANGUAGE sql AS $$ SELECT a $$;
});
my $standby = standby_of($node, 'standby', q{wal_retrieve_retry_interval = '100ms'});

# The key, a function of a; how many rows there are, with a = 10000, 20000, ...; what the batch inserts; how many splits are incomplete, at least,
# when none of them is finished (a page that is alone on its level is split in two); whether pages that VACUUM has deleted are free.
my %cases = (
	middle => [ 'short', 2000, '300001 + g FROM generate_series(1, 3000) g', 5 ],
	root => [ 'short', 250, 'g FROM generate_series(1, 3000) g', 1 ],
	free => [ 'short', 2000, '300001 + g FROM generate_series(1, 3000) g', 5, 1 ],
	right => [ 'short', 2000, '30000000 + g FROM generate_series(1, 5000) g', 5 ],
	equal => [ 'few', 2000, '10000 FROM generate_series(1, 20000) g', 5 ],
	long => [ 'long', 300, '300001 + g FROM generate_series(1, 600) g', 5 ],
	wide => [ 'wide', 60, '300001 + g FROM generate_series(1, 150) g', 5 ],
	pkey => [ 'own', 2000, '300001 + g FROM generate_series(1, 6000) g', 5 ]);

# Does the record come before it?
my %behind = (btree_allocates => 0, btree_page_allocated => 0, btree_locked => 0, btree_split => 1, btree_unfinished => 1);
my %action = (btree_allocates => 'error', btree_page_allocated => 'disk_full', btree_locked => 'error', btree_split => 'disk_full', btree_unfinished => 'error');

sub rows_sql { my ($name, $case) = @_; return "INSERT INTO $name SELECT g * 10000 FROM generate_series(1, $cases{$case}[1]) g"; }
sub insert_sql { my ($name, $case) = @_; return "INSERT INTO $name SELECT $cases{$case}[2]"; }

# Fills a table that is empty.
sub fill
{
	my ($name, $case) = @_;
	$node->safe_psql('postgres', rows_sql($name, $case) . "; REINDEX INDEX ${name}_i");
	return if !$cases{$case}[4];
	$node->safe_psql('postgres', "INSERT INTO $name SELECT 500001 + g FROM generate_series(1, 9000) g; DELETE FROM $name WHERE a % 10000 <> 0");
	# Pages are free when no transaction is left that might have been on its way to them.
	$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
	$node->safe_psql('postgres', 'SELECT txid_current()');
	$node->safe_psql('postgres', "INSERT INTO $name VALUES (1); DELETE FROM $name WHERE a = 1");
	$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
	return;
}

sub make_table
{
	my ($name, $case) = @_;
	my $key = $cases{$case}[0];
	$node->safe_psql('postgres', qq{
		CREATE TABLE $name (a int, b @{[ $key eq 'own' ? 'int' : 'text COLLATE "C"' ]} GENERATED ALWAYS AS ($key(a)) STORED) USING mtpower;
		@{[ $key eq 'own' ? "ALTER TABLE $name ADD CONSTRAINT ${name}_i PRIMARY KEY (b)" : "CREATE INDEX ${name}_i ON $name (b) WITH (fillfactor = 100)" ]}});
	fill($name, $case);
	return;
}

sub size { my ($name) = @_; return $node->safe_psql('postgres', "SELECT pg_relation_size('${name}_i')"); }
sub state { my ($server, $name) = @_; return split(/\|/, $server->safe_psql('postgres', "SELECT * FROM index_state('${name}_i')")); }

# The index agrees with the table, and has so many rows; those that were there first are found one by one.
sub sound
{
	my ($server, $name, $case, $rows, $what) = @_;
	my $key = $cases{$case}[0];
	# Where there are many rows of a key, some searches are enough.
	my $some = $key eq 'few' ? 20 : $cases{$case}[1];
	my ($out, $err);
	my $amcheck = $server->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't' ? "bt_index_check('${name}_i', true)" : "bt_index_parent_check('${name}_i', true, true)";
	my $range = $key eq 'own' ? 'b > 0' : "b > ''";
	my $rc = $server->psql('postgres', qq{SELECT $amcheck;
		SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
		SELECT count(a) FROM $name WHERE $range;
		SELECT count(*) FROM generate_series(1, $some) g WHERE EXISTS (SELECT FROM $name WHERE b = $key(g * 10000) AND a = g * 10000)}, stdout => \$out, stderr => \$err);
	is("$rc $err$out", "0 \n$rows\n$some", "$name, $what: all rows are found, and amcheck finds nothing");
	my (undef, $stray) = state($server, $name);
	is($stray, 0, "$name, $what: no page is lost");
	return;
}

sub run_insert
{
	my ($server, $name, $sql, $what) = @_;
	my $err;
	is($server->psql('postgres', "SET mtpower.batch_min_rows = 0; $sql", stderr => \$err), 0, "$name, $what: the insert works") or diag($err);
	return;
}

# No split is incomplete, and of pages that were given up none is lost: they are used again, or free pages are enough.
sub splits_finished
{
	my ($name, $case, $what, $size) = @_;
	my ($incomplete, undef, $zeroes) = state($node, $name);
	is($incomplete, 0, "$name, $what: all splits are finished");
	if ($cases{$case}[4]) { is(size($name), $size, "$name, $what: free pages are used"); }
	else { is($zeroes, 0, "$name, $what: zeroed pages are used again"); }
	return;
}

foreach my $case (sort keys %cases)
{
	my ($key, $rows, undef, $least) = @{ $cases{$case} };
	foreach my $point (sort keys %behind)
	{
		my $name = $case . '_' . $point =~ s/^btree_//r;
		my ($out, $err);
		# Of the root's first split nothing is between two downlinks, but of others that come next.
		my $flagged = !$behind{$point} ? 0 : $point eq 'btree_split' ? $least : 1;
		make_table($name, $case);
		my $size = size($name);

		# An error exactly there, then back to a savepoint
		is( $node->psql('postgres', qq{
			\\set ON_ERROR_STOP 0
			\\set VERBOSITY sqlstate
			SET mtpower.batch_min_rows = 0;
			BEGIN;
			INSERT INTO $name VALUES (500000000);
			SAVEPOINT s;
			SET LOCAL mtpower.debug_injection = '$point=$action{$point}';
			@{[ insert_sql($name, $case) ]};
			ROLLBACK TO s;
			SELECT * FROM index_state('${name}_i');
			SELECT bt_index_parent_check('${name}_i', true, true);
			COMMIT;
			SELECT held_bytes FROM mtpower.stat_memory}, on_error_stop => 0, stdout => \$out, stderr => \$err), 0, "$name: going on after an error");
		my $sqlstate = $action{$point} eq 'error' ? 'XX000' : '53100';
		like($err, qr/^(psql:<stdin>:\d+: )?ERROR:  $sqlstate$/, "$name: the error has its SQLSTATE, and is the only one");
		like($out, qr/^\d+\|0\|\d+\n\n0$/, "$name: no page is lost, no memory is held");
		my ($incomplete, undef, $zeroes) = $out =~ /(\d+)/g;
		cmp_ok($incomplete, $flagged ? '>=' : '==', $flagged, "$name: incomplete splits");
		cmp_ok($zeroes, $point =~ /locked|page_allocated/ ? '>' : '==', 0, "$name: new pages that were given up are zeroed");
		sound($node, $name, $case, $rows + 1, 'error');
		$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
		sound($node, $name, $case, $rows + 1, 'error, VACUUM');

		# The same insert finishes the splits, and uses the pages.
		run_insert($node, $name, insert_sql($name, $case), 'after the error');
		splits_finished($name, $case, 'next insert', $size);
		my $all = $node->safe_psql('postgres', "SELECT count(*) FROM $name");
		sound($node, $name, $case, $all, 'next insert');

		# A crash exactly there
		$node->safe_psql('postgres', "TRUNCATE $name");
		fill($name, $case);
		$node->psql('postgres', "SET mtpower.batch_min_rows = 0; SET mtpower.debug_injection = '$point=panic'; @{[ insert_sql($name, $case) ]}", stderr => \$err);
		like($err, qr/crash at injection point|terminat|closed/, "$name: the server crashed");
		wait_for_restart($node);
		($incomplete) = state($node, $name);
		cmp_ok($incomplete, $flagged ? '>=' : '==', $flagged, "$name: replay leaves the splits incomplete");
		is($incomplete, 1, "$name: one page became two") if $case eq 'root' && $point eq 'btree_split';
		sound($node, $name, $case, $rows, 'crash');
		catch_up($node, $standby);
		sound($standby, $name, $case, $rows, 'standby');
		$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
		sound($node, $name, $case, $rows, 'crash, VACUUM');
		is((state($node, $name))[0], $incomplete, "$name: VACUUM leaves incomplete splits alone");
		catch_up($node, $standby);
		sound($standby, $name, $case, $rows, 'standby, VACUUM');
		next if $behind{$point};
		run_insert($node, $name, insert_sql($name, $case), 'after the crash');
		splits_finished($name, $case, 'crash, next insert', $size);
		sound($node, $name, $case, $node->safe_psql('postgres', "SELECT count(*) FROM $name"), 'crash, next insert');
	}
}
my @left = map { my $case = $_; map { [ $case, "${case}_$_" ] } 'split', 'unfinished' } sort keys %cases;

# Recovery ends between the record of the split and the downlinks.  The standby reads there as well.
my @points = ([ 'middle', 'btree_unfinished' ], [ 'root', 'btree_split' ], [ 'wide', 'btree_unfinished' ], [ 'pkey', 'btree_split' ]);
make_table("pitr_$_->[0]", $_->[0]) foreach @points;
$node->backup('pitr', backup_options => [ '--checkpoint', 'fast' ]);
foreach (@points)
{
	my ($case, $point) = @$_;
	my $name = "pitr_$case";
	hold($node, 155);
	my $job = start_psql($node, 'postgres', 'SET mtpower.batch_min_rows = 0', "SET mtpower.debug_injection = '$point=wait'", insert_sql($name, $case));
	$node->poll_query_until('postgres', waits_sql("query LIKE 'INSERT INTO $name%'")) or die "no session comes to $point";
	$node->safe_psql('postgres', "SELECT pg_create_restore_point('$name')");
	catch_up($node, $standby);
	sound($standby, $name, $case, $cases{$case}[1], "standby at $point");
	cmp_ok((state($standby, $name))[0], '>', 0, "$name: incomplete splits on the standby");
	if ($point eq 'btree_unfinished')
	{
		# Others come first: they finish the splits, and go on with the pages.
		is($node->safe_psql('postgres', "SELECT bt_index_check('${name}_i', true)"), '', "$name: amcheck between the downlinks");
		$node->safe_psql('postgres', "SET mtpower.batching = off; INSERT INTO $name SELECT 300001 + g % 2900 FROM generate_series(1, 6000) g");
		$node->safe_psql('postgres', "SET mtpower.batch_min_rows = 0; INSERT INTO $name SELECT 300001 + g % 100 FROM generate_series(1, 300) g");
		is((state($node, $name))[0], 0, "$name: others finish the splits");
		$node->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
	}
	release(155);
	is(finish($job), '', "$name: the session goes on");
	sound($node, $name, $case, $node->safe_psql('postgres', "SELECT count(*) FROM $name"), 'inserted');
	is(join('|', state($node, $name)), '0|0|0', "$name: all downlinks are there");
}
my $segment = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$node->poll_query_until('postgres', "SELECT last_archived_wal >= '$segment' FROM pg_stat_archiver") or die 'the WAL is not archived';
foreach (@points)
{
	my ($case, $point) = @$_;
	my $name = "pitr_$case";
	my $restored = PostgreSQL::Test::Cluster->new("restored_$case");
	$restored->init_from_backup($node, 'pitr', has_restoring => 1, standby => 0);
	$restored->append_conf('postgresql.conf', "recovery_target_name = '$name'\nrecovery_target_action = promote\narchive_mode = off\n");
	$restored->start;
	$restored->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'recovery does not end';
	cmp_ok((state($restored, $name))[0], '>', 0, "$name, recovered to $point: splits are incomplete");
	sound($restored, $name, $case, $cases{$case}[1], 'recovered');
	run_insert($restored, $name, insert_sql($name, $case), 'recovered');
	is((state($restored, $name))[0], 0, "$name, recovered: splits are finished");
	sound($restored, $name, $case, $restored->safe_psql('postgres', "SELECT count(*) FROM $name"), 'recovered, next insert');
	$restored->safe_psql('postgres', "VACUUM (INDEX_CLEANUP on) $name");
	sound($restored, $name, $case, $restored->safe_psql('postgres', "SELECT count(*) FROM $name"), 'recovered, VACUUM');
	$restored->stop;
	unlike(slurp_file($restored->logfile), qr/TRAP|PANIC|re-find|inconsistent page/, "$name, recovered: the log is clean");
}

# A server without mtpower: tables that were released, and the pages of others, are core's own.
my @released = grep { $_->[1] =~ /^(middle_split|root_split|free_unfinished|equal_unfinished|wide_unfinished|pkey_split)$/ } @left;
my $digests = q{SELECT i, md5(string_agg(s::text || coalesce((SELECT string_agg(t::text, ' ') FROM bt_page_items(i, p.blk) t), ''), ' ' ORDER BY p.blk))
	FROM unnest(ARRAY['middle_unfinished_i', 'pkey_unfinished_i']) i, pages(i) p, bt_page_stats(i, p.blk) s GROUP BY i ORDER BY i};
my $before = $node->safe_psql('postgres', $digests);
catch_up($node, $standby);
$node->stop;

# Meanwhile the standby, which is promoted exactly there, and the primary finish what is incomplete.
sub finished
{
	my ($server, $where, @tables) = @_;
	foreach (@tables)
	{
		my ($case, $name) = @$_;
		cmp_ok((state($server, $name))[0], '>', 0, "$name, $where: splits are incomplete");
		sound($server, $name, $case, $cases{$case}[1], $where);
		run_insert($server, $name, insert_sql($name, $case), $where);
		is((state($server, $name))[0], 0, "$name, $where: splits are finished");
		sound($server, $name, $case, $server->safe_psql('postgres', "SELECT count(*) FROM $name"), "$where, next insert");
		$server->safe_psql('postgres', "DELETE FROM $name; VACUUM (INDEX_CLEANUP on) $name");
		is($server->safe_psql('postgres', "SELECT bt_index_parent_check('${name}_i', true, true)"), '', "$name, $where: amcheck after all rows were deleted");
		$server->safe_psql('postgres', rows_sql($name, $case));
		sound($server, $name, $case, $cases{$case}[1], "$where, rows again");
	}
	return;
}
$standby->promote;
finished($standby, 'promoted standby', @left);
$standby->stop;

$node->start;
$node->safe_psql('postgres', "SELECT mtpower.release('$_->[1]')") foreach @released;
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''\nwal_consistency_checking = 'btree'\n");
$node->restart;
is($node->safe_psql('postgres', $digests), $before, 'without mtpower: pages are read as nbtree reads them');
foreach (@released)
{
	my ($case, $name) = @$_;
	cmp_ok((state($node, $name))[0], '>', 0, "$name, without mtpower: splits are incomplete");
	sound($node, $name, $case, $cases{$case}[1], 'without mtpower');
	$node->safe_psql('postgres', insert_sql($name, $case));
	is((state($node, $name))[0], 0, "$name, without mtpower: splits are finished");
	sound($node, $name, $case, $node->safe_psql('postgres', "SELECT count(*) FROM $name"), 'without mtpower, next insert');
	$node->safe_psql('postgres', "DELETE FROM $name WHERE a > 10000; VACUUM $name");
	is($node->safe_psql('postgres', "SELECT bt_index_parent_check('${name}_i', true, true)"), '', "$name, without mtpower: amcheck after VACUUM");
}
my ($rc, undef, $err) = $node->psql('postgres', "SELECT bt_index_parent_check('middle_unfinished_i', false, true)");
like($err, qr/mtpower must be loaded via "shared_preload_libraries"/, 'without mtpower: amcheck cannot open a table that was not released');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'mtpower'\nwal_consistency_checking = 'mtpower, btree'\n");
$node->restart;
my %released = map { $_->[1] => 1 } @released;
finished($node, 'primary', grep { !$released{ $_->[1] } } @left);
is($node->safe_psql('postgres', 'SELECT held_bytes FROM mtpower.stat_memory'), 0, 'no memory is held');
$node->stop;
unlike(slurp_file($_->logfile), qr/TRAP|re-find|inconsistent page|could not find (?!information of kind)|WARNING:.*(leak|still)/, 'the log is clean: ' . $_->name) foreach $node, $standby;
done_testing();
