# The buffer's frames under threads that read, write, evict, purge and change the kind of extents (test/unit/frame_test.c, which has frame.c in it, with
# delays at each step).  ROUNDS= for longer.
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('frame', [ 'test/unit/frame_test.c', 'src/buffer/heat.c', 'src/buffer/pool.c' ], [ $ENV{SEED} || int(time), 60000 * ($ENV{ROUNDS} || 1) ], '-pthread');

done_testing();
