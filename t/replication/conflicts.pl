# VACUUM, inserters that delete entries, growth, reuse of pages and DDL are replayed beside a
# standby's queries. With our indexes the same queries are cancelled as with core's, with the same
# error and in the same column of pg_stat_database_conflicts; the others read on. The one
# difference is a scene of its own.
#
# Each scene is played with btree and B-link, or with core's hash and ours, and the outcomes are
# compared.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', q{
shared_preload_libraries = 'mtpower'
autovacuum = off
wal_consistency_checking = 'all, mtpower'
max_wal_size = 1GB
shared_buffers = 16MB
log_statement = none
});
$primary->start;
$primary->safe_psql('postgres', 'CREATE EXTENSION mtpower');
my $standby = standby_of($primary, 'standby', q{
max_standby_streaming_delay = 0
wal_receiver_status_interval = 1s
});

my @trees = qw(btree mtpower_blink);
my @hashes = qw(hash mtpower_hash);
my $by_index = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
my $by_bitmap = 'SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;';
my $counters = 'SELECT confl_tablespace, confl_lock, confl_snapshot, confl_bufferpin, confl_deadlock FROM pg_stat_database_conflicts WHERE datname = current_database()';

# A session on the standby that does $before, waits until it is told, and does $after.
sub session
{
	my ($before, $after) = @_;
	my $run = { out => '', err => '' };
	$run->{h} = IPC::Run::start([ 'psql', '-XAtq', '-d', $standby->connstr('postgres') . ' application_name=session', map { ('-c', $_) } @$before, 'SELECT pg_advisory_lock(1)', @$after, 'COMMIT' ],
		'<', '/dev/null', '>', \$run->{out}, '2>', \$run->{err});
	return $run;
}

# play(scene, am): the outcome: what the session read, what it was told, what was counted; and what is found afterwards
sub play
{
	my ($scene, $am) = @_;
	my ($name, $kind) = ($scene->{name}, $scene->{kind} // 'ordered');
	my $mode = $scene->{feedback} ? 'on' : 'off';
	$primary->safe_psql('postgres', "CREATE TABLE t (a int, b int, filler text) USING heap WITH (autovacuum_enabled = off); ALTER TABLE t ALTER filler SET STORAGE plain; CREATE INDEX t_i ON t USING $am (a)");
	$primary->safe_psql('postgres', $_) foreach @{ $scene->{fill} };
	catch_up($primary, $standby);
	my $counted = $standby->safe_psql('postgres', $counters);
	my $holder = $standby->background_psql('postgres');
	$holder->query_safe('SELECT pg_advisory_lock(1)');
	my $run = session($scene->{before}, $scene->{after} // []);
	$standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'advisory'}) or die "$name, $am: $run->{err}";
	$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NOT NULL FROM pg_stat_replication') or die "$name: no feedback" if $scene->{feedback};
	$primary->safe_psql('postgres', $_) foreach @{ $scene->{meanwhile} };
	catch_up($primary, $standby);
	$holder->quit;
	$run->{h}->finish;
	# What was counted is known when the session's process has ended, which psql does not wait for.
	$standby->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'session'}) or die "$name, $am: the session does not end";
	my $err = join(' ', grep { /ERROR|FATAL|DETAIL/ } split /\n/, $run->{err});
	my @read = grep { $_ ne '' } split /\n/, $run->{out};

	# The startup process tells it once more if it does not go at once.  Whether that comes before the session's next command is chance.
	my $twice = $err =~ s/^(ERROR:  canceling .*\.) FATAL:  terminating connection due to conflict with recovery DETAIL:  [^.]*\.$/$1 ERROR:  current transaction is aborted, commands ignored until end of transaction block/;
	my $count = '';
	my @was = split /\|/, $counted;
	my @is = split /\|/, $standby->safe_psql('postgres', $counters);
	my @names = qw(tablespace lock snapshot bufferpin deadlock);
	$count .= "$names[$_] " . ($is[$_] - $was[$_]) . ' ' foreach grep { $is[$_] != $was[$_] } 0 .. $#is;
	$count =~ s/^(\w+) 2 $/$1 1 / if $twice;
	my $found = join('/', map { my $server = $_; my ($out, $e); $server->psql('postgres', "$by_index SELECT count(filler), count(*) FROM t WHERE a >= 0", stdout => \$out); $out } $primary, $standby)
	  if $kind ne 'hash';
	$found //= join('/', map { $_->safe_psql('postgres', "$by_index SELECT count(*) FROM t WHERE a = 7") } $primary, $standby);
	my ($bad) = indexes_verify($standby, 'postgres');
	is($bad, '', "$name, $am: the index verifies on the standby");
	$primary->safe_psql('postgres', 'DROP TABLE t');
	return join("\n", 'read: ' . join(' ', @read), "told: $err", "counted: $count", "found: $found");
}

# scene(settings): the access methods must give the same, and something that matches {like}.
sub scene
{
	my (%scene) = @_;
	$standby->safe_psql('postgres', "ALTER SYSTEM SET hot_standby_feedback = " . ($scene{feedback} ? 'on' : 'off'));
	$standby->reload;
	$primary->poll_query_until('postgres', 'SELECT backend_xmin IS NULL FROM pg_stat_replication') or die 'feedback goes on' if !$scene{feedback};
	my @ams = ($scene{kind} // '') eq 'hash' ? @hashes : @trees;
	my ($core, $ours) = map { play(\%scene, $_) } @ams;
	is($ours, $core, "$scene{name}: $ams[1] as $ams[0]") if !$scene{ours};
	like($core, $scene{like}, "$scene{name}: $ams[0]");
	like($ours, $scene{ours}, "$scene{name}: $ams[1]") if $scene{ours};
	return;
}

my $snapshot = qr/told: ERROR:  canceling statement due to conflict with recovery DETAIL:  User query might have needed to see row versions that must be removed\..*\ncounted: snapshot 1 \n/;
my $pin = qr/told: ERROR:  canceling statement due to conflict with recovery DETAIL:  User was holding shared buffer pin for too long\..*\ncounted: bufferpin 1 \n/;
my $lock = qr/told: ERROR:  canceling statement due to conflict with recovery DETAIL:  User was holding a relation lock for too long\..*\ncounted: lock 1 \n/;
my $none = qr/told: \ncounted: \n/;
my @old = ('BEGIN ISOLATION LEVEL REPEATABLE READ', 'SELECT count(*) FROM t');
sub cursor { my ($set, $query) = @_; return [ split(/; */, $set), 'BEGIN', "DECLARE c CURSOR FOR $query", $query =~ /ORDER/ ? 'FETCH 1 FROM c' : 'MOVE 1 FROM c' ]; }
my $rest = [ 'FETCH ALL FROM c' ];

foreach my $kind (qw(ordered hash))
{
	# What differs: how many rows have the key
	my $key = $kind eq 'hash' ? '7' : 'g';
	my $column = $kind eq 'hash' ? 'b' : 'a';
	my $where = $kind eq 'hash' ? 'a = 7' : 'a > 0';
	my %all = (kind => $kind);
	my @fill = ("INSERT INTO t SELECT $key, g, repeat('x', 400) FROM generate_series(1, 200) g", 'VACUUM t');

	# ---------- snapshots ----------

	# Rows so long that no page of the table is pruned: that would be a conflict of its own.
	my @long = ("INSERT INTO t SELECT $key, g, repeat('x', 3000) FROM generate_series(1, 500) g");
	my @taken = ("DELETE FROM t WHERE b BETWEEN 101 AND 400", "$by_index SELECT count(*) FROM t WHERE $where", "SET mtpower.batching = off; INSERT INTO t SELECT " . ($kind eq 'hash' ? 7 : '200 + g % 10') . ", 1000 + g FROM generate_series(1, 500) g");
	scene(%all, name => "$kind, entries taken away by an inserter", fill => \@long, before => \@old, meanwhile => \@taken, after => ['SELECT count(*) FROM t'], like => $snapshot);
	scene(%all, name => "$kind, VACUUM", fill => \@fill, before => \@old, meanwhile => [ 'DELETE FROM t WHERE b > 100', 'VACUUM (INDEX_CLEANUP on) t' ], like => $snapshot);
	scene(%all, name => "$kind, VACUUM, feedback", feedback => 1, fill => \@fill, before => \@old, meanwhile => [ 'DELETE FROM t WHERE b > 100', 'VACUUM (INDEX_CLEANUP on) t' ],
		after => [ split(/; */, $by_index), "SELECT count(*), sum(b) FROM t WHERE $where" ], like => qr/read: 200 200\|20100\n$none/);
	scene(%all, name => "$kind, entries taken away, feedback", feedback => 1, fill => \@long, before => \@old, meanwhile => \@taken, after => [ split(/; */, $by_index), "SELECT count(*), sum(b) FROM t WHERE $where" ],
		like => qr/read: 500 500\|125250\n$none/);

	# ---------- pins ----------

	my @dead = (@fill, 'DELETE FROM t WHERE b BETWEEN 50 AND 150');
	my @vacuum = ('VACUUM (INDEX_CLEANUP on) t');
	my $want = join(' ', 2 .. 49, 151 .. 200);
	my $query = "SELECT $column FROM t WHERE $where" . ($kind eq 'hash' ? '' : ' ORDER BY a');
	scene(%all, name => "$kind, cursor by bitmap", fill => \@dead, before => cursor($by_bitmap, $query =~ s/ ORDER BY a//r), meanwhile => \@vacuum, after => $rest, like => qr/read: $want\n$none/);
	if ($kind eq 'hash')
	{
		scene(%all, name => 'hash, cursor', fill => \@dead, before => cursor($by_index, $query), meanwhile => \@vacuum, after => $rest, like => $pin);
		scene(%all, name => 'hash, cursor beside growth', fill => [ 'INSERT INTO t SELECT 7, g FROM generate_series(1, 20) g' ], before => cursor($by_index, $query),
			meanwhile => [ 'INSERT INTO t SELECT g, g FROM generate_series(100, 6000) g' ], after => $rest, like => $pin);
		# Here we differ, as below.  Core's hash takes the bucket from the lowest bits.
		my $elsewhere = 'DELETE FROM t WHERE a = (SELECT min(g) FROM generate_series(2900, 2990) g WHERE hashint4(g) & 1 <> hashint4(7) & 1)';
		scene(%all, name => 'hash, cursor in a bucket where VACUUM deletes nothing', fill => [ 'INSERT INTO t SELECT 7, g FROM generate_series(1, 20) g; INSERT INTO t SELECT g, g FROM generate_series(100, 3000) g', 'DELETE FROM t WHERE a = 2999', @vacuum, $elsewhere ],
			before => cursor($by_index, $query), meanwhile => \@vacuum, after => ['MOVE ALL FROM c'], like => $none, ours => $pin);
	}
	else
	{
		scene(name => 'cursor on the index alone', fill => \@dead, before => cursor($by_index, $query), meanwhile => \@vacuum, after => $rest, like => $pin);
		scene(name => 'cursor on the index alone, backward', fill => \@dead, before => cursor($by_index, "$query DESC"), meanwhile => \@vacuum, after => $rest, like => $pin);
		scene(name => 'cursor on index and table', fill => \@dead, before => cursor($by_index, 'SELECT a + length(left(filler, 0)) FROM t WHERE a > 0 ORDER BY a'), meanwhile => \@vacuum, after => $rest, like => qr/read: 1 $want\n$none/);
		scene(name => 'cursor on index and table, backward', fill => \@dead, before => cursor($by_index, 'SELECT a + length(left(filler, 0)) FROM t WHERE a > 0 ORDER BY a DESC'),
			meanwhile => \@vacuum, after => $rest, like => qr/read: 200 199 .* 2 1\n$none/);
		# Here we differ: replay waits for cursors on each leaf that VACUUM has passed, since an inserter may have deleted what the cursor has read and
		# not returned yet (src/blink/README.md; t/replication/blink_vacuum.pl has the case).
		scene(name => 'cursor on a leaf where VACUUM deletes nothing', fill => [ @fill, 'INSERT INTO t SELECT g, g FROM generate_series(1000, 8000) g', 'VACUUM t', 'DELETE FROM t WHERE a > 7000' ], before => cursor($by_index, $query),
			meanwhile => ['VACUUM (INDEX_CLEANUP on, TRUNCATE off) t'], after => ['MOVE ALL FROM c'], like => $none, ours => $pin);
		# A page that was deleted is used again.
		scene(name => 'page reused', fill => [ 'INSERT INTO t SELECT g, g FROM generate_series(1, 10000) g', 'DELETE FROM t WHERE a < 9000' ], before => \@old,
			meanwhile => [ 'VACUUM t', 'SELECT txid_current()', 'VACUUM t', 'INSERT INTO t SELECT g, g FROM generate_series(10001, 15000) g' ], like => $snapshot);
	}

	# ---------- locks ----------

	my @reader = ('BEGIN ISOLATION LEVEL REPEATABLE READ', "SELECT count(*) FROM t WHERE $where");
	scene(%all, name => "$kind, $_", fill => \@fill, before => \@reader, meanwhile => [$_], after => ['SELECT count(*) FROM t'], like => $lock)
	  foreach 'REINDEX INDEX t_i', 'DROP INDEX t_i', 'TRUNCATE t';
	scene(%all, name => "$kind, $_", fill => \@fill, before => \@reader, meanwhile => [$_], after => ['SELECT count(*) FROM t'], like => qr/read: 200 200\n$none/)
	  foreach 'ALTER INDEX t_i SET (fillfactor = 50)', 'INSERT INTO t SELECT g, g FROM generate_series(1, 100) g';
}
unlike(slurp_file($_->logfile), qr/inconsistent page|PANIC|TRAP/, 'the log is clean: ' . $_->name) foreach $primary, $standby;
$standby->stop;
$primary->stop;
done_testing();
