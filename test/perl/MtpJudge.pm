# MtpJudge: clients change tables at random while processes are cancelled, terminated, stopped and killed; when a round ends,
# mostly by kill -9, the judge reads everything back.
#
#   MtpJudgeModel    the tables, and what must be in them
#   MtpJudgeClient   transactions, and the journal of what was acknowledged
#   MtpJudgeJobs     DDL and maintenance beside them
#   MtpJudgeDisturb  signals
#   MtpJudgeCompare  reading by each index, comparing servers
package MtpJudge;

use strict;
use warnings;
use Digest::MD5 'md5';
use File::Path 'rmtree';
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);
use MtpFaults;
use MtpPmem;
use MtpJudgeClient;
use MtpJudgeCompare;
use MtpJudgeDisturb;
use MtpJudgeJobs;
use MtpJudgeModel;
use MtpSessions qw(takes_connections);

# seed, clients, seconds (the longest time of a round's load)
sub new
{
	my ($class, %arg) = @_;
	my $self = bless {
		dir => PostgreSQL::Test::Utils::tempdir, clients => 4, seconds => 4, %arg,
		round => 0, backups => 0, pids => [], counts => {}, kinds => {}, modules => MtpFaults::compile('only_index')
	}, $class;
	$self->{home} = home_dir(1) if have_libpmem();
	$ENV{PGCTLTIMEOUT} //= 180;
	note "seed $self->{seed}";
	return $self;
}

# The server that clients connect to from now on.
sub on { my ($self, $node) = @_; $self->{node} = $node; return; }

# A primary with the judge's tables
sub make_primary
{
	my ($self, $name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 1, has_archiving => 1, extra => [ '--wal-segsize=4', $self->{seed} % 2 ? '--data-checksums' : () ]);
	$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = 'mtpower'
session_preload_libraries = '$self->{modules}/only_index.so'
restart_after_crash = on
allow_in_place_tablespaces = on
autovacuum_naptime = 1s
max_connections = 30
max_prepared_transactions = 20
max_locks_per_transaction = 256
max_wal_size = 64MB
max_standby_streaming_delay = 10s
max_standby_archive_delay = 10s
wal_retrieve_retry_interval = 100ms
wal_receiver_timeout = 10s
deadlock_timeout = 200ms
});
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION mtpower; CREATE EXTENSION amcheck; ' . MtpJudgeModel::sql() . MtpJudgeCompare::sql());
	$self->on($node);
	$self->{stops} = $node->safe_psql('postgres', 'SHOW debug_assertions') eq 'on';
	return $node;
}

# The random generators of one round, and of each process in it, begin differently.  (srand() alone hardly mixes.)
sub seed_of { my ($self, $who) = @_; return unpack('N', md5("$self->{seed} $self->{round} $who")); }

# A round's settings: much or little memory, workers or none, with fsync or without, a buffer of any size or none, in memory or in a file.
sub settings
{
	my ($self) = @_;
	$self->{round}++;
	srand($self->seed_of('settings'));
	# A COPY pins a page of each partition, in core's code, so six into 120 find no unpinned buffer in 2 MB, with heap and btree as well.
	my @settings = (
		'shared_buffers = ' . (qw(8MB 16MB 128MB))[ rand(3) ],
		'fsync = ' . (qw(on off off))[ rand(3) ],
		'autovacuum = on',
		"wal_consistency_checking = '" . ('', '', 'all, mtpower')[ rand(3) ] . "'",
		'mtpower.batching = ' . (rand(10) < 1 ? 'off' : 'on'),
		'mtpower.batch_min_rows = ' . (1, 20, 500)[ rand(3) ],
		'mtpower.batch_size = ' . (qw(64kB 64kB 1MB 16MB))[ rand(4) ],
		'mtpower.batch_memory = ' . (qw(1MB 1040kB 64MB 64MB))[ rand(4) ],
		'mtpower.workers = ' . int(rand(4)),
		'mtpower.buffer_size = ' . (qw(0 1MB 8MB 128MB))[ rand(4) ],
		rand(2) < 1 ? $self->home_of($self->{node}) : "mtpower.pmem_path = ''",
		'mtpower.pmem_seal_timeout = ' . (qw(0 1s 30s))[ rand(3) ]);
	note "round $self->{round}: " . join(', ', @settings);
	return join("\n", @settings, '');
}

# Where a server's frames may live.  No two servers share a file, and what is copied from another's directory names that one's.
sub home_of
{
	my ($self, $node) = @_;
	return "mtpower.pmem_path = '" . ($self->{home} ? "$self->{home}/" . $node->name : '') . "'";
}

# A server that is needed no more
sub remove
{
	my ($self, $node) = @_;
	$node->clean_node;
	unlink "$self->{home}/" . $node->name if $self->{home};
	return;
}

# ---------- clients ----------

sub fork_one
{
	my ($self, $do) = @_;
	my $pid = fork();
	die "fork: $!" if !defined $pid;
	if ($pid == 0)
	{
		eval { $do->(); };
		append_to_file("$self->{dir}/journal.disturb", "ERR $@\n") if $@;
		POSIX::_exit(0);
	}
	push @{ $self->{pids} }, $pid;
	return;
}

sub start_clients
{
	my ($self) = @_;
	my ($node, $dir) = ($self->{node}, $self->{dir});
	unlink glob("$dir/journal.*"), "$dir/stop";
	my %own;
	foreach my $row (split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT tab, op, n FROM judge.state'))
	{
		my ($tab, $op, $n) = split /\|/, $row;
		$own{ int($op / 100000) % 100 }{$tab}{$op} = $n;
	}
	my $connstr = $node->connstr('postgres');
	foreach my $client (1 .. $self->{clients}, 'ddl', 'maintenance')
	{
		$self->fork_one(sub {
			my $first = ($self->{round} * 100 + ($client =~ /^\d+$/ ? $client : 0)) * 100000;
			my $c = MtpJudgeClient->new(name => $client, seed => $self->seed_of($client), dir => $dir, connstr => $connstr, first => $first, own => $own{$client} // {}, stops => $self->{stops});
			$client eq 'ddl' ? $c->jobs(\&MtpJudgeJobs::ddl, 0.3) : $client eq 'maintenance' ? $c->jobs(\&MtpJudgeJobs::maintenance, 0.3) : $c->work;
		});
	}
	$self->fork_one(sub { MtpJudgeClient->new(name => 'watchdog', seed => 0, dir => $dir, connstr => $connstr, first => 0)->watch });
	$self->fork_one(sub { MtpJudgeDisturb::disturb(seed => $self->seed_of('disturb'), dir => $dir, data => $node->data_dir) }) if $self->{disturb} // 1;
	return;
}

# They end once the round is over.
sub wait_for_clients
{
	my ($self, $what) = @_;
	append_to_file("$self->{dir}/stop", '');
	my @left = @{ $self->{pids} };
	for (my $end = time + $MtpJudgeClient::LIMIT; @left && time < $end; sleep(0.02)) { @left = grep { waitpid($_, POSIX::WNOHANG) == 0 } @left; }
	return $self->{pids} = [] if !@left;
	diag($self->{node}->safe_psql('postgres', 'SELECT pid, backend_type, state, wait_event_type, wait_event, left(query, 80) FROM pg_stat_activity'));
	kill 'KILL', @left;
	die "$what: a client hangs";
}

# ---------- rounds ----------

# Load and disturbances for a while, and the end of it: all processes, the postmaster alone or any one killed, an immediate shutdown, or clients
# that finish first.  Returns how it ended; the server is up again.
# Starts the server after a crash.  PostgreSQL 15 does not come up at once when it died right after the abort of a transaction that made a file of an
# unlogged relation (TRUNCATE, ROLLBACK, before the abort's record was flushed): what is left of the file is in the way of the one made of the init
# fork.  Heap tables have this without mtpower as well; the second start clears it away.
sub start_again
{
	my ($self) = @_;
	my $node = $self->{node};
	my $from = -s $node->logfile;
	return if $node->start(fail_ok => 1);
	die 'the server does not start' if slurp_file($node->logfile, $from) !~ /FATAL:  could not create file "[^"]+": File exists/;
	$self->{kinds}{'started twice'}++;
	$node->start;
	return;
}

# Waits for a server that restarts after one of its processes has crashed.
sub wait_for_server
{
	my ($self) = @_;
	my $node = $self->{node};
	my $until = time + $PostgreSQL::Test::Utils::timeout_default;
	while (time < $until)
	{
		return if takes_connections($node);
		if (!-e $node->data_dir . '/postmaster.pid')
		{
			$node->_update_pid(0);
			return $self->start_again;
		}
		sleep(0.1);
	}
	die "round $self->{round}: the server does not come back";
}

sub play
{
	my ($self) = @_;
	my $node = $self->{node};
	my $what = "round $self->{round}";
	my $how = (qw(kill kill kill kill kill kill kill postmaster immediate crash quiet quiet))[ rand(12) ];
	my $seconds = 0.5 + rand($self->{seconds} - 0.5);
	$self->{orphaned} = $how eq 'postmaster';
	$self->start_clients;
	sleep($seconds);
	if ($how eq 'quiet')
	{
		$self->wait_for_clients($what);
		# A process killed at last makes the server restart, and an abort of one that was terminated may go on.
		$self->wait_for_server;
		ok($node->poll_query_until('postgres', "SELECT held_bytes = 0 FROM mtpower.stat_memory"), "$what: no memory is held");
	}
	if ($how eq 'immediate') { $node->stop('immediate'); }
	elsif ($how eq 'crash')
	{
		append_to_file("$self->{dir}/stop", '');
		MtpJudgeDisturb::crash_server($node->data_dir);
	}
	else
	{
		# With what the postmaster had: little, if it had just ended all others, since one of them had been killed.
		cmp_ok(MtpJudgeDisturb::kill_server($node, $how eq 'postmaster'), '>', 0, "$what: the server was killed");
		$self->{counts}{kills}++;
	}
	$self->wait_for_clients($what);
	if ($how eq 'crash') { $self->wait_for_server; }
	else { $self->start_again; }
	note "$what: ended by $how after $seconds seconds";
	$self->{kinds}{"end: $how"}++;
	return $how;
}

# ---------- judging ----------

# What the clients have written: { txn => last word }, and errors; counts what there is.
sub read_journals
{
	my ($self, $wrong) = @_;
	my %last;
	foreach my $file (glob("$self->{dir}/journal.*"))
	{
		foreach my $line (split /\n/, slurp_file($file))
		{
			my ($word, $rest) = split / /, $line, 2;
			if ($word eq 'ERR') { push @$wrong, $rest; }
			elsif ($word eq 'CODE') { $self->{kinds}{"error $rest"}++; }
			elsif ($word eq 'DID') { $self->{kinds}{ $file =~ /disturb$/ ? "signal: $rest" : lc(($rest =~ /^([A-Z]+ [A-Z]+|[A-Z]+)/)[0] // 'other') }++; }
			else { $last{$rest} = $word; }
		}
	}
	return %last;
}

# Everything acknowledged must be there, and nothing of what was rolled back; what is prepared comes to an end.
sub judge_transactions
{
	my ($self, $node, $wrong) = @_;
	my %last = $self->read_journals($wrong);
	my %done = map { $_ => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT DISTINCT txn FROM judge.done');
	my %prepared = map { s/judge_//r => 1 } split /\n/, $node->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
	my %count = map { $_ => 0 } qw(TRY ACK NO PREP END);
	foreach my $txn (sort { $a <=> $b } keys %last)
	{
		my $word = $last{$txn};
		$count{$word}++;
		push @$wrong, "transaction $txn was acknowledged and is lost" if $word eq 'ACK' && !$done{$txn};
		push @$wrong, "transaction $txn was prepared and is lost" if $word eq 'PREP' && !$prepared{$txn};
		push @$wrong, "transaction $txn was rolled back and is there" if $word eq 'NO' && ($done{$txn} || $prepared{$txn});
		push @$wrong, "transaction $txn is committed and prepared" if $done{$txn} && $prepared{$txn};
	}
	push @$wrong, map { "nobody began transaction $_" } grep { !$last{$_} } keys %done, keys %prepared;
	foreach my $txn (sort { $a <=> $b } keys %prepared)
	{
		$node->safe_psql('postgres', (rand(2) < 1 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'judge_$txn'");
	}
	my $under_way = $count{TRY} + $count{END} + keys %prepared;
	$self->{counts}{acknowledged} += $count{ACK};
	$self->{counts}{'rolled back'} += $count{NO};
	$self->{counts}{'under way'} += $under_way;
	note "$count{ACK} transactions acknowledged, $count{NO} rolled back, $under_way under way";
	return;
}

# Reads everything back on a server.  $what names the round in the tests' names.
sub judge
{
	my ($self, $node, $what) = @_;
	my @wrong;
	$self->judge_transactions($node, \@wrong);
	$node->safe_psql('postgres', MtpJudgeJobs::clean_up());
	$node->safe_psql('postgres', 'SELECT judge.advance()');
	push @wrong, split /\n/, $node->safe_psql('postgres', 'SELECT * FROM judge.wrong_rows()');
	is(join("\n", splice(@wrong, 0, 10)), '', "$what: everything acknowledged is there, and nothing in part");
	$self->{look} = MtpJudgeCompare::look($node);
	is(join("\n", @{ $self->{look}{wrong} }), '', "$what: indexes are sound and give all rows");
	$self->{counts}{'rows compared'} += $self->{look}{rows};
	$self->{counts}{'indexes verified'} += $self->{look}{indexes};
	$self->{counts}{rounds}++;
	is($self->new_complaints($node), '', "$what: the log is clean");
	leave_alone($node);
	return;
}

# Nothing is vacuumed until the next round begins.  On a standby replay would wait for a reader that waits for a lock that replay holds, which no
# deadlock check of core sees; where WAL is replayed that has such, who only asks how far it is gets canceled.
sub leave_alone
{
	my ($node) = @_;
	$node->append_conf('postgresql.conf', "autovacuum = off\n");
	$node->reload;
	$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type ~ 'autovacuum'}) or die 'autovacuum does not end';
	return;
}

# What core warns of when processes are signaled and stopped, and servers crash, as they are here
my $core_warns = join('|',
	'terminating connection', 'canceling wait', 'archiving', '(?:cannot|skipping) reindex (?:of )?invalid index', 'unexpected directory entry .* pg_tblspc',
	# The postmaster was stopped, or slow, for longer than autovacuum_naptime.
	'autovacuum worker took too long to start',
	# What is hunted has just ended.
	'PID \d+ is not a PostgreSQL backend process', 'could not send signal to process \d+: No such process',
	# The crash came between the end of a prepared transaction, or the checkpoint's write of its file, and that file's removal, or the checkpoint's end.
	'removing (?:stale|future) two-phase state', 'could not recover two-phase state file for transaction');

# A log without what processes say that have outlived the postmaster.  Who waits at a transaction's end for parallel workers, or for room in the
# checkpointer's queue of files to be deleted, sees there that the postmaster has gone, and ends with half of that done: it aborts once more, of
# which core warns, and which is a PANIC where it was a commit, and a failed assertion where there are any.
sub without_orphans
{
	my ($log) = @_;
	my @pids = ($log =~ /\[(\d+)\] \N*WARNING:  Abort(?:Sub)?Transaction while in \w+ state$/mg, $log =~ /^TRAP: \N*PID: (\d+)\)?\n(?:(?!TRAP)\N*\n)*?\N*\((?:RegisterSyncRequest|DestroyParallelContext)\+/mg);
	foreach my $pid (@pids) { $log =~ s/^\N*(?:\[$pid\] \N*(?:WARNING|PANIC): |TRAP: \N*PID: $pid\b)\N*\n//mg; }
	return $log;
}

# What a server has complained about in its log since the last time
sub new_complaints
{
	my ($self, $node) = @_;
	my $from = $self->{log}{ $node->name } // 0;
	my $log = slurp_file($node->logfile, $from) // '';
	$self->{log}{ $node->name } = $from + length($log);
	$log = without_orphans($log) if $self->{orphaned};
	# A crash at an injection point is one of the disturbances.
	my $stops = () = $log =~ /PANIC:  crash at injection point/g;
	$log =~ s/\N*\(PID \d+\) was terminated by signal 6:\N*\n// for 1 .. $stops;
	$self->{kinds}{'crash at an injection point'} += $stops if $stops;
	return join("\n", grep { /TRAP|PANIC:  (?!crash at injection point)|inconsistent page|\(PID \d+\) was terminated by signal (?!9:)|not closed|leak|page verification failed|WARNING:  (?!$core_warns)/ }
		grep { !/LOG:  statement|STATEMENT:/ } split /\n/, $log);
}

# Another server that has replayed the primary's WAL must have what that has had when it was judged.
sub judge_replica
{
	my ($self, $replica, $what, $lsn) = @_;
	$lsn //= $self->{node}->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	$replica->poll_query_until('postgres', "SELECT pg_last_wal_replay_lsn() >= '$lsn'") or die "$what: WAL is not replayed";
	my $look = MtpJudgeCompare::look($replica);
	is(MtpJudgeCompare::differences($look, $self->{look}), '', "$what: equal to the primary, and its indexes are sound");
	$self->{counts}{'rows compared'} += $look->{rows};
	$self->{counts}{'indexes verified'} += $look->{indexes};
	is($self->new_complaints($replica), '', "$what: its log is clean");
	return;
}

# ---------- replay from a backup ----------

sub take_backup
{
	my ($self) = @_;
	my $node = $self->{node};
	rmtree($node->backup_dir . '/base_' . $self->{backups}) if $self->{backups};
	unlink glob($node->archive_dir . '/*');
	$node->backup('base_' . ++$self->{backups});
	return 'base_' . $self->{backups};
}

# kill -9 leaves the operating system's cache alone; so all WAL is replayed onto the last backup as well.
sub judge_backup
{
	my ($self) = @_;
	my $node = $self->{node};
	my $what = "round $self->{round}, replayed onto backup $self->{backups}";
	# The server may go on writing, into a segment that is not archived soon.
	my $lsn = $node->safe_psql('postgres', 'SELECT pg_current_wal_flush_lsn()');
	my $last = $node->safe_psql('postgres', 'SELECT pg_walfile_name(pg_switch_wal())');
	$node->poll_query_until('postgres', "SELECT last_archived_wal >= '$last' FROM pg_stat_archiver") or die "$what: $last is not archived";
	my $replica = PostgreSQL::Test::Cluster->new("replayed_$self->{backups}");
	$replica->init_from_backup($node, "base_$self->{backups}", has_restoring => 1);
	$replica->append_conf('postgresql.conf', $self->home_of($replica));
	$replica->start;
	$self->judge_replica($replica, $what, $lsn);
	$replica->stop;
	$self->remove($replica);
	$self->{counts}{'replays onto a backup'}++;
	return;
}

sub report
{
	my ($self) = @_;
	my ($counts, $kinds) = ($self->{counts}, $self->{kinds});
	return join(', ', map { "$counts->{$_} $_" } sort keys %$counts), join(', ', map { "$_ $kinds->{$_}" } sort keys %$kinds);
}

1;
