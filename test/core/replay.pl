# test/core/replay.pl CONF INDEXES LOG OUT COMMAND...: runs pg_regress on a server beside a standby that replays all of it under
# wal_consistency_checking, and compares them.
#
# The server has the settings in CONF; its log is LOG afterwards.  The command is told host and port; what it prints goes to OUT.
# At least INDEXES indexes of ours must be left to compare.
use strict;
use warnings;
use File::Copy;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpReplica;

my ($conf, $least, $log, $out, @command) = @ARGV;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1, extra => [ '--encoding=UTF8', '--no-locale' ]);
# As pg_regress's own servers, where the tests' output depends on it; and room, for each record comes with its pages.
$primary->append_conf('postgresql.conf', slurp_file($conf) . q{
shared_buffers = 128MB
max_connections = 100
log_statement = none
wal_consistency_checking = 'all, mtpower'
wal_log_hints = off
max_wal_size = 1GB
});
$primary->start;
$primary->safe_psql('postgres', q{SELECT pg_create_physical_replication_slot('standby', true)});
my $standby = standby_of($primary, 'standby', "primary_slot_name = 'standby'\nmax_standby_streaming_delay = 600s\n");

my ($stdout, $stderr) = run_command([ @command, '--bindir=', '--host=' . $primary->host, '--port=' . $primary->port ]);
append_to_file($out, "$stdout\n$stderr\n");

keep_still($primary);
my ($tables, $indexes) = same_servers('after the suite', $primary, $standby);
cmp_ok($tables, '>', 500, 'so many tables');
cmp_ok($indexes, '>=', $least, 'so many indexes of mtpower are left');
unlike(slurp_file($standby->logfile), qr/inconsistent page|PANIC|TRAP|FATAL:  (?!the database system is starting up)/, 'redo agrees with every page');
$standby->stop;
$primary->stop;
mkdir $log =~ s{/[^/]*$}{}r;
copy($primary->logfile, $log) or die "cannot copy the log: $!";
done_testing();
