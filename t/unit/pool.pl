# The buffer's heat and its pool of frames are compared with exact sums and models
# (test/unit/pool_test.c).
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('pool', [ 'test/unit/pool_test.c', 'src/buffer/pool.c' ], [ 1, 6 ]);

done_testing();
