# Threads read, write, evict, purge and change the kind of slabs in the buffer's frames
# (test/unit/frame_test.c, which includes frame.c with delays at each step). ROUNDS= for longer,
# SEED.
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('frame', [ 'test/unit/frame_test.c', 'src/buffer/policy.c' ], [ $ENV{SEED} || int(time), 60000 * ($ENV{ROUNDS} || 1) ], '-pthread');

done_testing();
