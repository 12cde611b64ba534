# MtpJudgeDisturb: what happens to the processes of the judge's server.
package MtpJudgeDisturb;

use strict;
use warnings;
use PostgreSQL::Test::Utils;
use Time::HiRes qw(sleep);

# The processes of a server, those whose working directory is its data directory: { pid => title }
sub processes
{
	my ($dir) = @_;
	my %title;
	foreach my $proc (glob('/proc/[0-9]*'))
	{
		my $cwd = readlink("$proc/cwd");
		next if !defined $cwd || $cwd ne $dir;
		open(my $file, '<', "$proc/cmdline") or next;
		my $title = <$file> // '';
		$title{ $proc =~ s{.*/}{}r } = $title =~ tr/\0/ /r;
	}
	return %title;
}

my $CLIENT = qr/\[local\]/;
my $WORKER = qr/mtpower worker/;

# What is done to whom how often.  A killed process makes the server restart, all others with it.
my @kinds = (
	[ 30, 'cancel', 'INT', $CLIENT ],
	[ 15, 'terminate', 'TERM', $CLIENT ],
	[ 20, 'terminate worker', 'TERM', $WORKER ],
	[ 5, 'cancel worker', 'INT', $WORKER ],
	[ 12, 'stop worker', 'STOP', $WORKER ],
	[ 10, 'stop backend', 'STOP', $CLIENT ],
	[ 8, 'stop any', 'STOP', qr/./ ],
	[ 3, 'cancel autovacuum', 'INT', qr/autovacuum worker/ ],
	[ 0.5, 'kill worker', 'KILL', $WORKER ],
	[ 0.5, 'kill backend', 'KILL', $CLIENT ],
	[ 0.3, 'kill any', 'KILL', qr/checkpointer|background writer|walwriter|walsender|autovacuum|archiver/ ]);

sub signal_one
{
	my ($dir, $signal, $which) = @_;
	my %title = processes($dir);
	my @pids = sort { $a <=> $b } grep { $title{$_} =~ $which } keys %title;
	return 0 if !@pids;
	my $pid = $pids[ rand(@pids) ];
	return 0 if !kill $signal, $pid;
	if ($signal eq 'STOP')
	{
		sleep(0.02 + rand(0.5));
		kill 'CONT', $pid;
	}
	return 1;
}

# Until the round is over; writes down what it has done.
sub disturb
{
	my (%arg) = @_;
	srand($arg{seed});
	my $sum = 0;
	$sum += $_->[0] foreach @kinds;
	while (!-e "$arg{dir}/stop")
	{
		sleep(0.02 + rand(0.25));
		my $dice = rand($sum);
		my $kind;
		foreach (@kinds) { $kind = $_; last if ($dice -= $_->[0]) < 0; }
		append_to_file("$arg{dir}/journal.disturb", "DID $kind->[1]\n") if signal_one($arg{data}, @{$kind}[ 2, 3 ]);
	}
	return;
}

# Kills one process, which makes the postmaster end all others and start them anew; until it has ended them.
sub crash_server
{
	my ($dir) = @_;
	my %old = processes($dir);
	delete $old{ (split /\n/, slurp_file("$dir/postmaster.pid"))[0] };
	for (my $tries = 0; $tries < 1200; $tries++)
	{
		# One that was about to end makes no crash: after ten seconds, twice what a postmaster gives its processes, another one is killed.
		return if $tries % 200 == 0 && !signal_one($dir, 'KILL', qr/\[local\]|mtpower worker|checkpointer|writer/);
		my %now = processes($dir);
		return if !grep { $now{$_} } keys %old;
		sleep(0.05);
	}
	die 'processes outlive the crash of another one: ' . join(', ', values %old);
}

# kill -9 to the postmaster and all its children, or to the postmaster alone, whose children have to take notice.  Returns how many there were.
sub kill_server
{
	my ($node, $alone) = @_;
	my $dir = $node->data_dir;
	my $postmaster = (split /\n/, slurp_file("$dir/postmaster.pid"))[0];
	my %title = processes($dir);
	my $killed = 0;
	if (!$alone)
	{
		# None is to see that another one has gone.
		kill 'STOP', $postmaster;
		$killed += kill 'KILL', grep { $_ != $postmaster } keys %title;
	}
	$killed += kill 'KILL', $postmaster;
	for (my $tries = 0; $tries < 1200 && (%title = processes($dir)); $tries++)
	{
		kill 'KILL', keys %title if !$alone || $tries > 600;
		sleep(0.05);
	}
	die 'processes are left: ' . join(', ', values %title) if %title;

	# Whoever inherited the postmaster has to take notice, too: its number stands in postmaster.pid.
	for (my $tries = 0; $tries < 600 && kill(0, $postmaster); $tries++) { sleep(0.05); }
	$node->{_pid} = undef;			# as kill9() does
	return $killed;
}

1;
