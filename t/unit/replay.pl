# The buffer's replacement policy on small traces (test/unit/replay_test.c).
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('replay',
	[ 'test/unit/replay_test.c', (map { "bench/replay/$_.c" } qw(map ours shift traces)), 'src/buffer/policy.c' ],
	[], '-O2');

done_testing();
