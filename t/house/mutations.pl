# All of test/mutations apply, and what does not is refused with the function and the place to look
# at.  So does what the benchmark breaks (bench/ceiling).  How a change is found depends on tokens
# alone: not on files, white space, comments or line breaks.
# (test/mutate compiles mutations, and tells whether tests notice them.)
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../../test/perl";
use MtpCode qw(source_files);
use MtpMutation qw(read_mutation source_of mutated);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $script = "$top/test/mutate";
my @names = map { m|([^/]*)\.mutation$| } glob("$top/test/mutations/*.mutation");
my $count = @names;

command_like([ $script, '--check' ], qr/^$count mutations, all apply$/m,
	'all mutations apply, and their tests are there');

my ($list) = run_command([ $script, '--list' ]);
is(scalar(() = $list =~ /^\w+\n    \S.*\n    \S.*\n    -> \S/mg), $count,
	'the list says of each what it breaks, why that matters, and what notices it');

foreach my $file (glob("$top/bench/*/*.mutation"))
{
	eval { mutated(source_of(source_files($top)), read_mutation(slurp_file($file))) };
	is($@, '', "the benchmark's $file applies");
}

# ---------- how a change is found ----------

my %files = (
	'src/buffer/frame.c' => <<'C',
#include "buffer/frame.h"
#define MOST_TRIES 1000			/* for a frame */
#define BOTH(a, b) \
	((a) + \
	 (b))

typedef struct Head
{
	uint64 version;
	int unused;
} Head;

static const int sizes[] = {1, 2, 3};

extern int count(int n);

/* A comment with count(1) and a brace { */
static bool
take(Head *head, int why)
{
	if (head->version % 2 != 0)
	{
		elog(LOG, "a { in a string");
		return false;
	}
#ifdef DEBUG
	if (why) {
#else
	if (!why) {
#endif
		count(1);
	}
	count(2);
	count(why + 2);
	return true;
}

int
count(int n)
{
	return n;
}
C
	'src/batch/take.c' => "static int\ntake(void)\n{\n\treturn 1;\n}\n");

# What becomes of the files, or the error
sub try
{
	my ($changes, %other) = @_;
	my $mutation = "Mutation: x\nWhy: y\nTests: z\n\n$changes";
	my $texts = eval { mutated(source_of({ %files, %other }), read_mutation($mutation)) };

	return $texts ? join '', map { $texts->{$_} } sort keys %$texts : $@;
}

my $wait = "@@ function take in buffer/\n-if (head->version % 2 != 0)\n+if (false)\n";
like(try($wait), qr/\n\tif \(false\)\n\t\{\n\t\telog/,
	'a change replaces its old text and nothing else');
like(try($wait,
	'src/buffer/frame.c' => $files{'src/buffer/frame.c'} =~
		s{if \(head->version % 2}{if (\n\t\t/* why */ head -> version\n\t\t\t% 2}r),
	qr/\n\tif \(false\)\n/, 'white space, line breaks and comments do not count');
like(try($wait =~ s/frame/x/r, 'src/buffer/frame.c' => '',
	'src/buffer/y/z.h' => $files{'src/buffer/frame.c'}),
	qr/if \(false\)/,
	'nor does the file');
like(try("@@ function take in buffer/\n-count(2);\n"), qr/count\(1\);\n\t\}\n\t\n\tcount\(why/,
	'an old text can go');
like(try("@@ function take in buffer/\n count(2);\n+count(3);\n"), qr/count\(2\);\ncount\(3\);\n/,
	'a new text can come behind an old one');
like(try("@@ function take in buffer/\n-why + 2\n+why\n\n" .
	"@@ function take in buffer/\n-2 != 0\n+2 != 1\n"),
	qr/% 2 != 1\)(?s:.*)count\(why\);/,
	'two changes of a function');
like(try("@@ macro MOST_TRIES\n-1000\n+1\n"), qr/^#define MOST_TRIES 1\t/m, 'a macro');
like(try("@@ macro BOTH\n-(b)\n+(b +\n+ 1)\n"), qr/^\t \(b \+ \\\n 1\)\)$/m,
	'a macro of several lines');
like(try("@@ type Head\n-int unused;\n"), qr/uint64 version;\n\t\n\}/, 'a type');
like(try("@@ variable sizes\n-2\n+4\n"), qr/\{1, 4, 3\}/, 'a variable');
like(try("@@ function count\n-n;\n+n + 1;\n"), qr/\treturn n \+ 1;/,
	'a function, not its declaration');

# ---------- refused ----------

like(try("@@ function take\n-return true;\n"),
	qr{^there are several of function take: src/batch/take\.c, src/buffer/frame\.c$},
	'a name of several functions');
like(try("@@ function gone\n-count(2);\n"),
	qr{^there is no function gone; of the old text, it stands in function take, \S+frame\.c:\d+$},
	'a function that is not there: where the old text is');
like(try("@@ function take in wal/\n-count(2);\n"),
	qr{^there is no function take in wal/, but in src/},
	'a place where it is not');
like(try("@@ function take in buffer/\n-count(why + 3);\n"),
	qr{^function take does not have the old text: \S+frame\.c:34 has 4 of its 7 tokens: count\(why},
	'an old text that is not there: the nearest place');
like(try("@@ function take in buffer/\n-count\n+x\n"),
	qr{^function take has the old text several times: \S+frame\.c:31, \S+frame\.c:33},
	'an old text that is there several times: all places');
like(try("@@ function take in buffer/\n+count(3);\n"),
	qr/^a change of function take has no old text$/,
	'no old text');
like(try("@@ function take in buffer/\n-count(2);\n+count( 2 );\n"),
	qr/^src\/buffer\/frame\.c stays as it is$/,
	'a change of nothing');
like(try("@@ function take in buffer/\n-count(2); count(why\n+x(\n\n" .
	"@@ function take in buffer/\n-(why + 2)\n+()\n"),
	qr/^two changes overlap in src\/buffer\/frame\.c$/,
	'two changes of the same text');
like(try("@@ function take in buffer/\ncount(2);\n"), qr/^neither old nor new: count\(2\);$/,
	'a line of neither text');
like(try("@@ somewhere\n-x\n"), qr/^no change begins like this: @@ somewhere$/,
	'another place than a definition');

my $dir = PostgreSQL::Test::Utils::tempdir;

sub refused
{
	my ($what, $args, $like) = @_;
	my ($out, $err);
	IPC::Run::run([ $script, @$args ], '>', \$out, '2>', \$err);

	is($? >> 8, 2, "$what: status 2");
	like("$out$err", $like, "$what: it says so");
	return;
}

sub own
{
	my ($name, $text) = @_;

	append_to_file("$dir/$name", $text);
	return "$dir/$name";
}

my $header = "Mutation: x\nWhy: y\nTests: tap/unit/page\n\n";
my $change = "@@ function mtp_tag_hash\n-return h ^ h >> 33;\n+return h;\n";
command_like([ $script, '--check', own('fine.mutation', $header . $change) ],
	qr/^1 mutations, all apply$/m,
	'a mutation of one\'s own');
refused('another source', [ '--check', own('other.mutation', $header . $change =~ s/33/34/r) ],
	qr{^other: function mtp_tag_hash does not have the old text: src/\S+ has 5 of its 7 tokens: }m);
refused('no reason', [ '--check', own('bare.mutation', $header =~ s/Why.*\n//r . $change) ],
	qr/^bare: it has no line "Why: \.\.\."$/m);
refused('a release that is not there', [ '--check', own('later.mutation', "Release: 16\n$header$change") ],
	qr/^later: there is no release 16$/m);
refused('a test that is not there',
	[ '--check', own('untested.mutation', $header =~ s{unit/page}{none}r . $change) ],
	qr{there is no test "tap/none"});
my $patch = "--- a/Makefile\n+++ b/Makefile\n@@ -1,2 +1,2 @@\n-other\n+x\n more\n";
refused('a patch of another source', [ '--check', own('other.patch', $patch) ],
	qr/FAILED/);
refused('no such file', ["$dir/none.patch"],
	qr/"\Q$dir\E\/none\.patch" is no mutation, no file and no test/);
refused('no such test', [ "$dir/fine.mutation", 'tap/none' ],
	qr/"tap\/none" is no mutation, no file and no test/);

done_testing();
