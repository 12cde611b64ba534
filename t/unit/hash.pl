# Pages and address space of the hash index are compared with models (test/unit/hash_test.c), for
# several block sizes, with and without SIMD.
use strict;
use warnings;
use FindBin;
use MtpUnit;
use Test::More;

my @sources = ('test/unit/hash_test.c', 'src/hash/bucket.c', 'src/hash/space.c');
my @include = ('-include', "$FindBin::Bin/../../test/unit/blcksz.h");

run_unit("$_-byte blocks", \@sources, [ 1, 60 ], @include, "-DUNIT_BLCKSZ=$_") for 1024, 32768;
run_unit('without SIMD', \@sources, [ 2, 60 ], @include, '-DMTP_NO_SIMD');
run_unit('as it is', \@sources, [ 3, 200 ], @include);

done_testing();
