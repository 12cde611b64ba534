# Page layout, directory and search are compared with a model (test/unit/page_test.c), for several
# block sizes, with and without SIMD; and lists of TIDs with what they should be (list_test.c).
use strict;
use warnings;
use FindBin;
use MtpUnit;
use Test::More;

my @sources = ('test/unit/page_test.c', 'src/page/*.c');
my @include = ('-include', "$FindBin::Bin/../../test/unit/blcksz.h");

run_unit("$_-byte blocks", \@sources, [ 1, 60 ], @include, "-DUNIT_BLCKSZ=$_") for 1024, 32768;
run_unit('without SIMD', \@sources, [ 2, 60 ], @include, '-DMTP_NO_SIMD');
run_unit('as it is', \@sources, [ 3, 200 ], @include);

@sources = ('test/unit/list_test.c', 'src/page/*.c');
run_unit("lists, $_-byte blocks", \@sources, [ 1, 60 ], @include, "-DUNIT_BLCKSZ=$_") for 1024, 32768;
run_unit('lists', \@sources, [ 2, 200 ], @include);

done_testing();
