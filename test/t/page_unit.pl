# Page layout, directory and search against a model (test/unit/page_test.c), for several block sizes, with and without
# SIMD, under the address and undefined-behaviour sanitizers where the compiler has them.
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

sub run_unit
{
	my ($name, $seed, $rounds, @flags) = @_;
	my @cmd = (
		$cc, qw(-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare
		  -Wno-missing-field-initializers -DUSE_ASSERT_CHECKING=1 -D_GNU_SOURCE -ffunction-sections), '-Wl,--gc-sections',
		@sanitize, "-I$top/src", "-I$top/test/unit", "-I$include", '-include', "$top/test/unit/blcksz.h", @flags,
		"$top/test/unit/page_test.c", glob("$top/src/page/*.c"), '-lm', '-o', "$dir/page_test");
	command_ok(\@cmd, "$name: compiles");
	command_like([ "$dir/page_test", $seed, $rounds ], qr/^ok$/, "$name: page and model agree");
}

run_unit("$_-byte blocks", 1, 60, "-DUNIT_BLCKSZ=$_") for 1024, 32768;
run_unit('without SIMD', 2, 60, '-DMTP_NO_SIMD');
run_unit('as it is', 3, 200);

done_testing();
