# pg_basebackup is held in its middle while loads, splits, growth and VACUUM go on, with
# tablespaces and data checksums. Then the copy is recovered to its end, to a name, a transaction
# and a time inside a load, and right behind single WAL records. What was acknowledged by that
# point is there and nothing else; indexes are sound, the planner uses them, and writes go on.
# pg_verifybackup and pg_checksums find nothing.
#
# MTP_LONG=1 recovers to records of all kinds.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);
use MtpBackup;
use MtpFaults;

my $seed = $ENV{SEED} || int(rand(2**31));
srand($seed);
note "SEED=$seed";

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, has_archiving => 1, extra => ['--data-checksums']);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
mtpower.batching = on
mtpower.batch_min_rows = 0
mtpower.batch_size = 64kB
mtpower.workers = 2
max_worker_processes = 12
max_wal_size = 1GB
autovacuum = off
});
$primary->start;
my $space = PostgreSQL::Test::Utils::tempdir_short;
$primary->safe_psql('postgres', "CREATE TABLESPACE space LOCATION '$space'");
$primary->safe_psql('postgres', backup_schema('space') . 'BEGIN;' . fill_sql(1, 8000) . 'COMMIT;
	CREATE UNLOGGED TABLE brief (k int) USING mtpower; CREATE INDEX brief_k ON brief USING mtpower_blink (k); CREATE INDEX brief_h ON brief USING mtpower_hash (k);
	INSERT INTO brief SELECT generate_series(1, 10000)');

# ---------- the backup: held in its middle until loads and a VACUUM were done ----------

my $load = MtpBackup->new($primary, 2, 1 => '8000 8000 0');
$load->start;
$load->wait_for_operations(2, 0);
my $backup = $primary->backup_dir . '/base';
my $mapped = PostgreSQL::Test::Utils::tempdir_short . '/mapped';
my $err = '';
my $from = $primary->lsn('insert');
my $run = IPC::Run::start([ 'pg_basebackup', '-D', $backup, '-h', $primary->host, '-p', $primary->port, '--checkpoint=fast', '--no-sync', '--max-rate=5M',
		"--tablespace-mapping=$space=$mapped" ], '<', \undef, '2>', \$err);
for (my $tries = 0; $tries < 6000 && !glob("$backup/base/*/PG_VERSION") && !glob("$mapped/*/*"); $tries++) { sleep(0.01); }
$run->signal('STOP');
$load->wait_for_operations(6, 1);
$run->signal('CONT');
ok($run->finish, 'pg_basebackup beside loads') or diag($err);
$load->stop;
$primary->safe_psql('postgres', 'SELECT pg_switch_wal()');
command_ok([ 'pg_verifybackup', $backup ], 'pg_verifybackup');

my ($label) = map { slurp_file($_) } glob($primary->data_dir . '/pg_wal/*.backup');
my ($start) = $label =~ /^START WAL LOCATION: (\S+)/m;
my ($stop) = $label =~ /^STOP WAL LOCATION: (\S+)/m;
$load->judge($primary, undef, undef, 'the primary');
indexes_serve($primary, 'the primary', 10);

sub is_writable
{
	my ($node) = @_;
	$node->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die $node->name . ' does not leave recovery';
	return;
}

# recovered NAME, SETTINGS[, PAUSE]: a server that has recovered from the backup and the archive to where the settings say, and left recovery or paused there.
sub recovered
{
	my ($name, $settings, $pause) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	copy_cluster($node, $backup);
	$node->enable_restoring($primary, 0);
	$node->append_conf('postgresql.conf', "archive_mode = off\nrecovery_target_action = " . ($pause ? 'pause' : 'promote') . "\n$settings\n");
	# Without the library recovery stops, says what it lacks, and goes on later.
	if ($name eq 'at_once')
	{
		$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
		ok(!$node->start(fail_ok => 1), 'recovery without the preload stops');
		like(slurp_file($node->logfile), qr/FATAL:  resource manager with ID 155 not registered\n.*HINT:  Include the extension module that implements this resource manager in "?shared_preload_libraries/,
			'and says what is missing');
		$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'mtpower'");
	}
	$node->start;
	if ($pause) { $node->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die "$name does not pause"; }
	else { is_writable($node); }
	return $node;
}

# Loads, deletions, splits and VACUUM on a recovered server: what an interrupted one left is finished.
sub goes_on
{
	my ($node, $what) = @_;
	$node->safe_psql('postgres', "$_") foreach 'BEGIN;' . fill_sql(77, 4000) . 'COMMIT', 'DELETE FROM fed WHERE k % 2 = 0', 'VACUUM (INDEX_CLEANUP on) fed', 'VACUUM (INDEX_CLEANUP on) kept', 'BEGIN;' . fill_sql(78, 2000) . 'COMMIT';
	is($node->safe_psql('postgres', 'SELECT count(*) FROM kept WHERE load IN (77, 78)'), 6000, "$what: loads go on");
	indexes_serve($node, "$what, later", 10);
	log_is_quiet($node);
	$node->stop;
	return;
}

{
	my $node = recovered('at_once', "recovery_target = 'immediate'");
	my $between = $load->judge($node, $start, $stop, 'at the end of the backup');
	cmp_ok($between, '>=', 1, 'operations were acknowledged during the backup') or diag("$from, $start .. $stop");
	note "$between operations during the backup, " . $load->acknowledged . ' in all';
	indexes_serve($node, 'at the end of the backup', 10);
	is($node->safe_psql('postgres', q{SELECT count(*) FROM brief; SELECT spcname FROM pg_tablespace WHERE spcname = 'space' AND pg_tablespace_location(oid) <> '} . "$space'"), "0\nspace",
		'an unlogged table is empty, the tablespace elsewhere');
	$node->safe_psql('postgres', 'INSERT INTO brief SELECT generate_series(1, 3000)');
	goes_on($node, 'at the end of the backup');
	command_like([ 'pg_checksums', '--check', '-D', $node->data_dir ], qr/Bad checksums:  0$/m, 'checksums of the recovered server');
}

# ---------- points inside a load ----------

my $rows = join('', map { my $k = int(rand(1e8)); "500\t$k\tt$k\n" } 1 .. 16000);
my $faults = MtpFaults->new($primary, 'fed');
my $contents = contents($primary);
my $t0 = $primary->lsn('insert');
my $entries = q{SELECT coalesce(sum(entries), 0) FROM mtpower.stat_batches WHERE index = 'fed_txt'::regclass};
$primary->safe_psql('postgres', 'CREATE TABLE marks (n int, xid xid8 DEFAULT pg_current_xact_id(), at timestamptz DEFAULT clock_timestamp()); SELECT mtpower.stat_reset()');
my $copy = $faults->start_fed('', 'COPY fed (load, k, txt) FROM STDIN');
my @lines = split /^/, $rows;
my %point;

# Feeds a part of the rows, and returns when batches of it are in the indexes.
sub feed
{
	my $part = join('', splice(@lines, 0, 4000));
	my $wanted = $primary->safe_psql('postgres', $entries) + 1000;
	while ($part ne '')
	{
		$faults->feed($copy, substr($part, 0, 8192, ''));
	}
	$faults->wait_for("SELECT ($entries) >= $wanted", 'batches of the load');
	return;
}

feed();
$primary->safe_psql('postgres', q{SELECT pg_create_restore_point('inside')});
feed();
$primary->safe_psql('postgres', 'INSERT INTO marks VALUES (1)');
$point{xid} = $primary->safe_psql('postgres', 'INSERT INTO marks VALUES (2) RETURNING xid');
feed();
$primary->safe_psql('postgres', 'INSERT INTO marks VALUES (3)');
sleep(0.01);
$point{time} = $primary->safe_psql('postgres', 'SELECT clock_timestamp()');
sleep(0.01);
$primary->safe_psql('postgres', 'INSERT INTO marks VALUES (4)');
feed();
my $t1 = $primary->lsn('insert');
is($faults->finish($copy), '', 'the load ends');
my @vacuum = ($primary->lsn('insert'));
$primary->safe_psql('postgres', $_) foreach 'DELETE FROM kept WHERE load <> 1 OR k < 50000000', 'VACUUM (INDEX_CLEANUP on) kept';
push @vacuum, $primary->lsn('insert');
my $after = join("\n", grep { !/^marks/ } split /\n/, contents($primary));
my $last = $primary->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
$primary->poll_query_until('postgres', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die 'not archived';

# Where records of a kind are in the WAL: { info => [ LSN … ] }
sub records
{
	my ($from, $to) = @_;
	my ($out, $err) = run_command([ 'pg_waldump', '--rmgr=custom155', '--path=' . $primary->archive_dir, "--start=$from", "--end=$to" ]);
	my %at;
	push @{ $at{ hex($2) & 0xf0 } }, $1 while $out =~ /lsn: (\S+),.*? \(([0-9a-f]+)\) rmid: 155/g;
	return %at;
}
my %loading = records($t0, $t1);
my %vacuuming = records(@vacuum);
my %kind = (0x10 => 'BLINK_SPLIT', 0x00 => 'BLINK_INSERT', 0xa0 => 'HASH_SPLIT', 0xb0 => 'HASH_META', 0x90 => 'HASH_ADD', 0x80 => 'HASH_INSERT', 0x40 => 'BLINK_VACUUM',
	0x50 => 'BLINK_UNLINK', 0xd0 => 'HASH_VACUUM', 0xe0 => 'HASH_PAGES', 0x20 => 'BLINK_NEWROOT', 0x30 => 'BLINK_DELETE', 0x60 => 'BLINK_REUSE', 0xc0 => 'HASH_DELETE');
note 'records of the load: ' . join(', ', map { ($kind{$_} // $_) . ' ' . @{ $loading{$_} } } sort keys %loading);
note 'records of VACUUM: ' . join(', ', map { ($kind{$_} // $_) . ' ' . @{ $vacuuming{$_} } } sort keys %vacuuming);
ok($loading{0x10} && $loading{0xa0}, 'the load splits pages and buckets') or BAIL_OUT('no splits');
ok($vacuuming{0x50}, 'VACUUM unlinks pages');

# Recovery to such a point: rows as of then, and marks if they are told.  With `pause` it is looked at by queries on the standby first.
sub inside
{
	my ($name, $settings, $marks, $expected, $pause) = @_;
	my $node = recovered($name, $settings, $pause);
	if ($pause)
	{
		indexes_serve($node, "$name, paused", 10);
		is(join("\n", grep { !/^marks/ } split /\n/, contents($node)), $expected, "$name, paused: rows");
		$node->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
		is_writable($node);
	}
	is(join("\n", grep { !/^marks/ } split /\n/, contents($node)), $expected, "$name: rows as of then");
	is($node->safe_psql('postgres', q{SELECT coalesce(string_agg(n::text, ' ' ORDER BY n), '') FROM marks}), $marks, "$name: marks") if defined $marks;
	indexes_serve($node, $name, 10);
	if ($name =~ /by_(xid|time)/) { $node->stop; }
	else { goes_on($node, $name); }
	return;
}

inside('by_name', q{recovery_target_name = 'inside'}, '', $contents);
inside('by_xid', "recovery_target_xid = '$point{xid}'", '1 2', $contents);
inside('by_time', "recovery_target_time = '$point{time}'", '1 2 3', $contents);

# Right behind a record: between the two of a split, after the growth of a hash and before its load, within a VACUUM.
my @kinds = $ENV{MTP_LONG} ? sort keys %loading : (0x10, 0xa0, 0xb0);
foreach my $kind (@kinds)
{
	my $lsns = $loading{$kind};
	my $lsn = $lsns->[ rand(@$lsns) ];
	note "$kind{$kind} at $lsn";
	inside("behind_$kind{$kind}", "recovery_target_lsn = '$lsn'", undef, $contents, 1);
}
@kinds = $ENV{MTP_LONG} ? sort keys %vacuuming : (0x50);
foreach my $kind (@kinds)
{
	my $lsns = $vacuuming{$kind};
	my $lsn = $lsns->[ rand(@$lsns) ];
	note "$kind{$kind} at $lsn";
	inside("in_VACUUM_behind_$kind{$kind}", "recovery_target_lsn = '$lsn'", undef, $after, 1);
}

# ---------- checksums ----------

log_is_quiet($primary);
$contents = contents($primary);
$primary->stop;
my @data = ('-D', $primary->data_dir);
command_like([ 'pg_checksums', '--check', @data ], qr/Bad checksums:  0$/m, 'all checksums are right');
command_ok([ 'pg_checksums', '--disable', '--no-sync', @data ], 'pg_checksums --disable');
$primary->start;
same_contents($primary, $contents, 'without checksums');
$primary->safe_psql('postgres', 'BEGIN;' . fill_sql(600, 5000) . 'COMMIT; DELETE FROM fed WHERE k % 3 = 0; VACUUM (INDEX_CLEANUP on) fed; CHECKPOINT');
$contents = contents($primary);
$primary->stop;
command_ok([ 'pg_checksums', '--enable', '--no-sync', @data ], 'pg_checksums --enable');
command_like([ 'pg_checksums', '--check', @data ], qr/Bad checksums:  0$/m, 'all checksums are right again');
$primary->start;
same_contents($primary, $contents, 'with checksums again');
indexes_serve($primary, 'with checksums again', 10);
$primary->stop;
done_testing();
