# The buffer's heat and policy are compared with exact sums and models
# (test/unit/policy_test.c).
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('policy', [ 'test/unit/policy_test.c', 'src/buffer/policy.c' ], [ 1, 6 ]);

done_testing();
