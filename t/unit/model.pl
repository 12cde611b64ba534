# The protocols of the buffer's frames and hazard pointers under a weak memory model, in all orders
# (test/model/README.md).  The machine knows what AArch64 may do.  The model makes the accesses that
# the code makes.  Every scenario is right, and each barrier, look and lock that is taken out makes
# one wrong, for its own reason.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../perl";
use MtpAccesses qw(correspondence differences);
use MtpCode qw(slurp);
use MtpMutation qw(source_of read_mutation mutated);
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::Bin/../..";
my $dir = PostgreSQL::Test::Utils::tempdir;
my $model = "$dir/model";

sub compile
{
	my ($program, @sources) = @_;

	command_ok(
		[ $ENV{CC} || 'gcc', qw(-std=gnu11 -O2 -Wall -Wextra -Werror),
			qw(-Wno-sign-compare -Wno-missing-field-initializers),
			(map { "$top/test/model/$_.c" } qw(program machine search), @sources),
			'-o', "$dir/$program" ],
		"$program: compiles");
}

# What the model says of a scenario, without how many states it has
sub outcome
{
	my ($out, $err) = run_command([ $model, @_ ]);

	return $out =~ /^(.*) \((\d+) states, \d+ ends\)$/ ? $1 : "nothing: $out$err";
}

compile('litmus', 'litmus');
compile('model', qw(model frames pairs hazards));

command_like([ "$dir/litmus" ], qr/^ok, \d+ programs$/,
	'the machine does what AArch64 may do in programs of which that is known');

my (@scenarios, @removals);
foreach (split /\n/, (run_command([ $model, 'list' ]))[0])
{
	my ($what, @rest) = split /\t/;
	push @scenarios, @rest if $what eq 'scenario';
	push @removals, { name => $rest[0], scenario => $rest[1], wrong => $rest[2], what => $rest[3] }
		if $what eq 'removal';
}

# ---------- the model is one of the code ----------

my $correspondence = correspondence(slurp("$top/test/model/accesses"));
my %text = map { ($_ => slurp("$top/$_")) } map { @{ $correspondence->{$_} } } qw(code model);

# The first difference that a change of the code makes, or ''
sub difference
{
	my ($change) = @_;
	my %code = map { ($_ => $text{$_}) } @{ $correspondence->{code} };
	my $changed = ref $change ? $change : mutated(source_of(\%code), read_mutation($change));
	my %all = (%text, %$changed);

	return (differences($correspondence, sub { $all{ $_[0] } }))[0] // '';
}

is(join("\n", differences($correspondence, sub { $text{ $_[0] } })), '',
	'the code makes the accesses of the model, in its order');

# A barrier that is taken out is missed, wherever it stands.
my $barriers = 0;
foreach my $file (@{ $correspondence->{code} })
{
	while ($text{$file} =~ /pg_\w+_barrier\(\)/g)
	{
		my $line = 1 + ($` =~ tr/\n//);
		isnt(difference({ $file => $` . $' }), '', "the barrier at $file:$line is missed");
		$barriers++;
	}
}
cmp_ok($barriers, '>', 10, "$barriers barriers");

# So is any other change of an access, and the difference names the function and the line.
sub missed
{
	my ($what, $function, $named, $change) = @_;
	my $difference = difference("@@ function $function\n$change");

	like($difference, qr{\(src/\S+:\d+, in $named\)}, "$what: $named is named");
	return;
}

missed('two accesses are exchanged', 'take_away', 'take_away', <<'C');
-pg_atomic_write_u64(&header->version, version + 1);
 pg_write_barrier();
+pg_atomic_write_u64(&header->version, version + 1);
C
missed('a word goes behind the lock', 'take_away', 'take_away', <<'C');
-pg_atomic_write_u64(word, 0);
 LWLockRelease(partition_lock(b, hash));
+pg_atomic_write_u64(word, 0);
C
missed('a look less', 'mtp_frame_stale_pair', 'take_away', <<'C');
-word = word_of(b, tag, kind, hash);
C
missed('a shared lock', 'mtp_frame_publish', 'mtp_frame_publish', <<'C');
-LW_EXCLUSIVE
+LW_SHARED
C
missed('no compare-and-swap', 'take_frame', 'take_frame', <<'C');
-taken = pg_atomic_compare_exchange_u64(&header->version, &version, version + 1);
+pg_atomic_write_u64(&header->version, version + 1);
 pg_write_barrier();
 return taken;
C
missed('an operation that the model does not know', 'let_go', 'let_go', <<'C');
-pg_atomic_write_u64(&header->version, pg_atomic_read_u64(&header->version) + 1);
+pg_atomic_fetch_add_u64(&header->version, 1);
C
missed('an atomic that the model does not know', 'count_event', 'count_event', <<'C');
 mtp_frame_count(b, mtp_policy_page_kind(kind), what);
+pg_atomic_write_u64(&b->other, 1);
C
missed('a function gets its first access', 'mtp_frame_headers', 'mtp_frame_headers', <<'C');
 uint64 n = 0;
+pg_read_barrier();
C
missed('a plain load becomes a store', 'mtp_frame_page', 'mtp_frame_page', <<'C');
-*tag = header->tag;
+header->tag = *tag;
C

# What is marked in the code stands in the names of the model's steps, and each barrier of these can
# be taken out.
my $code = join '', @text{ @{ $correspondence->{code} } };
my $model_text = join '', @text{ @{ $correspondence->{model} } };
my %known = map { ($_->{name} => 1) } @removals;
my @unnamed = grep { $_ ne 'name' && $model_text !~ /"[^"\n]*\b\Q$_\E\b[^"\n]*"/ }
	$code =~ /MTP_FRAME_STEP\((\w+)\)/g;
is("@unnamed", '', 'each step that is marked in the code is one of the model');
is(join(' ', grep { !$known{$_} } $model_text =~ /with\("(\w+)"\)/g), '',
	'all that the model can leave out is in its list');
my $fixed = $model_text =~ s/if \(with\("\w+"\)\)\s+\w+_barrier\("[^"]+"\);//gr;
is(join(' ', grep { $_ ne 'hears' } $fixed =~ /_barrier\("([^"]+)"/g), '',
	'each barrier of the model is one that it can leave out');

# ---------- what may happen ----------

is(outcome($_), 'right', "$_: right") foreach @scenarios;

# In some orders more may be wrong: what is looked for is what the thing is there for.
foreach (@removals)
{
	my @expect = $_->{wrong} ? ('-expect', $_->{wrong}) : ();

	is(outcome($_->{scenario}, '-without', $_->{name}, @expect),
		@expect ? "wrong: $_->{wrong}" : 'right',
		"$_->{scenario} without $_->{what}: " . ($_->{wrong} || 'right'));
}

# What is not needed to be right is not needed altogether.
my @idle = map { ('-without', $_->{name}) }
	grep { $_->{wrong} eq '' && $_->{scenario} eq 'purge' } @removals;
is(outcome('purge', @idle, '-without', 'take_lock'), 'right', 'purge without all of these');

# What index pages have would not do for directories.  The builder makes the frame odd without the
# lock; the process that makes it stale finds it odd, and leaves it.
my $old = 'a reader accepted a page older than what it knew of';
is(outcome(qw(rebuilt -without fill_lock -without pair_lock -expect), $old), "wrong: $old",
	'rebuilt without the lock on both sides: an old page');

# On x86-64 the barriers of frames are for the compiler alone; that of a hazard pointer is not.
my @barriers = map { ('-without', $_) }
	grep { /^(find|still|take|let_go).*barrier$/ } sort keys %known;
my @pairs = qw(-without pair_write_barrier);
my @fills = (@pairs, qw(-without fill_write_barrier));
foreach (['evict'], [ 'core', @pairs ], ['split'], ['twice'], ['contended'],
	[ 'rebuilt', @fills ], [ 'reused', @fills ])
{
	my ($scenario, @more) = @$_;

	is(outcome($scenario, '-tso', @barriers, @more), 'right',
		"$scenario with total store order and without the barriers of frames: right");
}
like(outcome('scans', '-tso', '-without', 'hazard_reader_barrier'), qr/^wrong: a reader acted/,
	"scans with total store order and without a reader's full barrier: wrong");

done_testing();
