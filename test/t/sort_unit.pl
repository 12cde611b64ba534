# The sorting of index entries against qsort (test/unit/sort_test.c), under the address and undefined-behaviour sanitizers
# where the compiler has them.
use strict;
use warnings;
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = dirname(__FILE__) . '/../..';
my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my $cc = $ENV{CC} || 'gcc';
my $dir = PostgreSQL::Test::Utils::tempdir;
chomp(my $include = `$pg_config --includedir-server`);

my @sanitize = ('-fsanitize=address,undefined', '-fno-sanitize-recover=all');
open(my $file, '>', "$dir/probe.c") or die;
print $file "int main(void) { return 0; }\n";
close($file);
@sanitize = () if system("$cc @sanitize $dir/probe.c -o $dir/probe >$dir/probe.out 2>&1") != 0;
note @sanitize ? 'with sanitizers' : 'without sanitizers';

command_ok(
	[
		$cc, qw(-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare
		  -Wno-missing-field-initializers -DUSE_ASSERT_CHECKING=1 -D_GNU_SOURCE -ffunction-sections), '-Wl,--gc-sections',
		@sanitize, "-I$top/src", "-I$top/test/unit", "-I$include", "$top/test/unit/sort_test.c", "$top/src/batch/sort.c",
		'-o', "$dir/sort_test"
	],
	'compiles');
command_like([ "$dir/sort_test", 1, 60 ], qr/^ok$/, 'sorted as qsort sorts');

done_testing();
