# The pool file lies on memory that loses what was not made durable, with a thousand seeds
# (test/unit/pool_file_test.c). Nothing wrong is believed afterwards. SEED= for others, ROUNDS= for
# more.
use strict;
use warnings;
use MtpUnit;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'there is no libpmem.h (libpmem-dev)' if system('pkg-config --exists libpmem 2>/dev/null') != 0;

my $seed = $ENV{SEED} || 1;
my ($port) = grep { -e $_ } map { chomp(my $d = `$ENV{PG_CONFIG} --$_`); "$d/libpgport.a" } 'libdir', 'pkglibdir';
my @sources = ((map { "src/pmem/$_.c" } qw(seal marker media)), (map { "src/buffer/$_.c" } qw(frame policy)),
	'test/unit/pool_file_test.c', 'test/unit/loss.c');

my $unit = run_unit('pool file', \@sources, [ $seed, 1000 * ($ENV{ROUNDS} || 1) ], '-DMTP_WITH_PMEM', '-DMTP_FRAME_STEP(name)=((void)0)', $port ? $port : ());

# A test that can fail
command_fails([ $unit, $seed, 1000, 'deaf' ], 'where nothing is durable this is noticed');
done_testing();
