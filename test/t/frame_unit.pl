# The buffer's frames under threads that read, write, evict, purge and change the kind of extents (test/unit/frame_test.c, which has frame.c in it, with
# delays at each step).  SECONDS= for longer.
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('frame', [ 'test/unit/frame_test.c', 'src/buffer/heat.c', 'src/buffer/pool.c' ], [ $ENV{SEED} || int(time), $ENV{SECONDS} || 5 ], '-pthread');

done_testing();
