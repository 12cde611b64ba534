# Unit tests in C: compiled with what they test and without a server, under the address and undefined-behaviour sanitizers
# where the compiler has them.
package MtpUnit;
use strict;
use warnings;
use Exporter 'import';
use FindBin;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(run_unit);

my $top = "$FindBin::Bin/../..";
my $cc = $ENV{CC} || 'gcc';
my $pg_config = $ENV{PG_CONFIG} || 'pg_config';
my $dir = PostgreSQL::Test::Utils::tempdir;
my @sanitize = ('-fsanitize=address,undefined', '-fno-sanitize-recover=all');

append_to_file("$dir/probe.c", "int main(void) { return 0; }\n");
@sanitize = () if system("$cc @sanitize $dir/probe.c -o $dir/probe >$dir/probe.out 2>&1") != 0;
note @sanitize ? 'with sanitizers' : 'without sanitizers';
chomp(my $include = `$pg_config --includedir-server`);

# run_unit NAME, [SOURCES as patterns below the top], [ARGUMENTS], FLAGS and libraries...: compiles the program, which has to print "ok"; returns its name.
sub run_unit
{
	my ($name, $sources, $args, @flags) = @_;

	command_ok([
		$cc, qw(-std=gnu11 -g -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare
		  -Wno-missing-field-initializers -DUSE_ASSERT_CHECKING=1 -D_GNU_SOURCE -ffunction-sections), '-Wl,--gc-sections',
		@sanitize, "-I$top/src", "-I$top/test/unit", "-I$include", (grep { !/\.a$/ } @flags), (map { glob("$top/$_") } @$sources), (grep { /\.a$/ } @flags), '-lm', '-o', "$dir/unit" ],
		"$name: compiles");
	command_like([ "$dir/unit", @$args ], qr/^ok$/, "$name: right");
	return "$dir/unit";
}

1;
