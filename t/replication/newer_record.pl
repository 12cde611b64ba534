# A standby whose library is older than its primary's stops at the first record that it does not
# know, and says why. It has lost nothing: what came before is there.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use MtpFaults;

my $dir = MtpFaults::compile('newer_record');
my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf',
	"shared_preload_libraries = 'mtpower'\ndynamic_library_path = '$dir:\$libdir'\nlog_error_verbosity = verbose");
$primary->start;
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION mtpower;
CREATE FUNCTION newer_record() RETURNS pg_lsn LANGUAGE c AS 'newer_record';
CREATE TABLE t (a int) USING mtpower;
CREATE INDEX ON t USING mtpower_blink (a);
INSERT INTO t SELECT g FROM generate_series(1, 1000) g;
});
$primary->wait_for_catchup($standby);
$primary->safe_psql('postgres', 'SELECT newer_record(); SELECT pg_switch_wal()');
foreach (1 .. 600)
{
	last if !-e $standby->data_dir . '/postmaster.pid';
	select(undef, undef, undef, 0.1);
}
ok(!-e $standby->data_dir . '/postmaster.pid', 'the standby has ended');
my $log = slurp_file($standby->logfile);
like($log, qr/FATAL:  0A000: cannot replay a WAL record that mtpower \d+\.\d+ does not know/, 'with an error that says why');
like($log, qr/DETAIL:  The record at [0-9A-F]+\/[0-9A-F]+, of kind 200, was written by a newer version\./, 'which record');
like($log, qr/HINT:  Install that version here and start the server again\./, 'and what to do');
unlike($log, qr/PANIC|terminated by signal/, 'and no crash');

like($log, qr{CONTEXT:  WAL redo at [0-9A-F]+/[0-9A-F]+ for mtpower/MORE: kind 200}, 'the record has a description');
$standby->_update_pid(0);
$primary->stop('immediate');
done_testing();
