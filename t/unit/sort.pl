# The sorting of index entries is compared with qsort (test/unit/sort_test.c).
use strict;
use warnings;
use MtpUnit;
use Test::More;

run_unit('sort', [ 'test/unit/sort_test.c', 'src/batch/sort.c', 'src/batch/order.c', 'src/batch/letters.c', 'src/page/norm.c' ], [ 1, 60 ]);

done_testing();
