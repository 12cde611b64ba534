# Sessions beside each other, and processes held at injection points (test/README.md).
package MtpSessions;

use strict;
use warnings;
use Exporter 'import';
use IPC::Run;
use Time::HiRes qw(sleep);

our @EXPORT = qw(start_psql finish hold release set_stop waits_sql takes_connections wait_for_restart kill_a_session kill_and_restart kill_server);

# psql in the background, each statement a -c of its own.  The database's name may be followed by other words of a connection string.
sub start_psql
{
	my ($node, $db, @sql) = @_;
	my ($dbname, $more) = split(/ /, $db, 2);
	my $job = { out => '', err => '' };
	$job->{run} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=sqlstate', '-d', $node->connstr($dbname) . ' ' . ($more // ''), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$job->{out}, '2>', \$job->{err});
	return $job;
}

# Waits for its end and returns what it complained of.
sub finish
{
	my ($job) = @_;
	$job->{run}->finish;
	return $job->{err};
}

# Does the server, which may be down, take connections?  (psql() and poll_query_until() would feed a psql that may be gone already, and die of it.)
sub takes_connections
{
	my ($node) = @_;
	my $job = start_psql($node, 'postgres', 'SELECT 1');
	return finish($job) eq '' && $job->{out} eq "1\n";
}

# Waits until the server, which restarts after a crash, takes connections.
sub wait_for_restart
{
	my ($node) = @_;
	for (my $tries = 0; $tries < 1200; $tries++)
	{
		# The postmaster may take a connection before it has seen that a process is gone.
		my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile);
		my $crashes = () = $log =~ /PANIC:  /g;
		my $restarts = () = $log =~ /all server processes terminated; reinitializing/g;
		if ($restarts < $crashes)
		{
			sleep(0.05);
			next;
		}
		return if takes_connections($node);
		sleep(0.05);
	}
	die 'no restart';
}

# kill -9 to a session of its own; waits until the server, which restarts for it, takes connections again.
sub kill_a_session
{
	my ($node) = @_;
	my $victim = $node->background_psql('postgres');
	kill_and_restart($node, $victim->query_safe('SELECT pg_backend_pid()'));
	eval { $victim->quit };
}

# kill -9 to a process of the server; waits until the server, which restarts for it, takes connections again.
sub kill_and_restart
{
	my ($node, $pid) = @_;
	my $restarted = qr/all server processes terminated; reinitializing/;
	my $before = () = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /$restarted/g;
	kill('KILL', $pid);
	for (1 .. 1200)
	{
		my $now = () = PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /$restarted/g;
		return if $now > $before && takes_connections($node);
		sleep(0.05);
	}
	die 'no restart';
}

# kill -9 to a postmaster; waits until its processes, which notice, are gone.
sub kill_server
{
	my ($node) = @_;
	my @pids = split(/\n/, $node->safe_psql('postgres', 'SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()'));
	$node->kill9;
	for (1 .. 1200)
	{
		return if !grep { kill(0, $_) } @pids;
		sleep(0.05);
	}
	die 'processes of ' . $node->name . ' stay';
}

# Holds the advisory lock that an injection point waits for, in a session of its own, until it is released.
my %holders;

sub hold
{
	my ($node, $lock) = @_;
	$holders{$lock} = $node->background_psql('postgres');
	$holders{$lock}->query_safe("SELECT pg_advisory_lock($lock)");
}

sub release
{
	my ($lock) = @_;
	(delete $holders{$lock})->quit;
}

# For all sessions and workers; those that are to have none of it set it to '' themselves.
sub set_stop
{
	my ($node, $stop) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET mtpower.debug_injection = '$stop'");
	$node->safe_psql('postgres', 'SELECT pg_reload_conf()');
	$node->poll_query_until('postgres', "SELECT current_setting('mtpower.debug_injection') = '$stop'") or die "injection point $stop is not set";
}

# Does anybody whom the condition describes stand at an injection point?
sub waits_sql
{
	my ($who) = @_;
	return "SELECT count(*) > 0 FROM pg_stat_activity WHERE $who AND wait_event = 'advisory' AND pid <> pg_backend_pid()";
}

1;
