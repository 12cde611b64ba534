# Page directories, and searches in them, are compared with a look at each row
# (test/unit/pagedir_test.c): random columns and pages, errors, damage, and memory that changes
# underneath. ROUNDS= for longer, SEED.
use strict;
use warnings;
use FindBin;
use MtpUnit;
use Test::More;

my @sources = ('test/unit/pagedir_test.c', (map { "src/pagedir/$_.c" } qw(layout codes row search)), 'src/page/norm.c');
my @flags = ('-pthread', '-include', "$FindBin::Bin/../../test/unit/blcksz.h");
my $seed = $ENV{SEED} || int(time);
my $rounds = 1000 * ($ENV{ROUNDS} || 1);

note "SEED=$seed";
run_unit("$_-byte blocks", \@sources, [ $seed, $rounds / 4 ], @flags, "-DUNIT_BLCKSZ=$_") for 1024, 32768;
run_unit('without SIMD', \@sources, [ $seed, $rounds / 4 ], @flags, '-DMTP_NO_SIMD');
run_unit('as it is', \@sources, [ $seed, $rounds ], @flags);

done_testing();
