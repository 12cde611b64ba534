# Without libpmem (make WITH_PMEM=no) mtpower refuses a pool file with a message, and works
# without.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;
my $pg_config = $ENV{PG_CONFIG} || 'pg_config';

# What does not depend on it is taken as it was built.
system("cp -r $FindBin::Bin/../../Makefile $FindBin::Bin/../../mtpower.control $FindBin::Bin/../../src $dir/") == 0 or die;
unlink(glob("$dir/src/buffer/*.o"));
delete @ENV{qw(MAKEFLAGS MAKELEVEL MFLAGS)};
command_ok([ 'make', '-s', '-C', $dir, "PG_CONFIG=$pg_config", 'with_llvm=no', 'WITH_PMEM=no', 'mtpower.so' ], 'make WITH_PMEM=no builds');
unlike(`nm -D $dir/mtpower.so`, qr/\spmem_/, 'and needs nothing of libpmem');

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq{
shared_preload_libraries = '$dir/mtpower.so'
mtpower.buffer_size = 2MB
mtpower.pmem_path = '$dir/frames'
mtpower.batch_min_rows = 0
});
$node->start;
like(slurp_file($node->logfile), qr/WARNING:  mtpower does not use file "\Q$dir\E\/frames": mtpower was built without libpmem\n.*DETAIL:  Frames live in shared memory/, 'a warning');
ok(!-e "$dir/frames", 'no file is made');

is($node->safe_psql('postgres', 'SHOW mtpower.pmem_path'), "$dir/frames", 'the server runs');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'mtpower sealer'}), '0', 'without a worker for a file');
$node->stop;
unlike(slurp_file($node->logfile), qr/TRAP|PANIC|frames in file/, 'the log is clean');
done_testing();
