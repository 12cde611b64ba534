# Compares the model of weak memory (test/model) with the code that it is of: each access to shared
# memory, each lock and each barrier, in the order of the text.  Calls of functions on either side
# are replaced by what these do.  test/model/accesses says what corresponds.
package MtpAccesses;
use strict;
use warnings;
use Exporter 'import';
use MtpCode qw(tokens definitions line_at);

our @EXPORT_OK = qw(correspondence differences);

my %operation = (read => 'load', write => 'store', compare_exchange => 'compare_and_swap');
my %barrier = (pg_read_barrier => 'read_barrier', pg_write_barrier => 'write_barrier',
	pg_memory_barrier => 'full_barrier');
my %locking = (LWLockAcquire => 'lock', LWLockConditionalAcquire => 'lock',
	LWLockRelease => 'unlock');
my %of_model = map { ($_ => $_) } qw(load store compare_and_swap lock lock_share read_barrier
	acquire_barrier write_barrier full_barrier);
@of_model{qw(unlock unlock_share)} = ('unlock', 'unlock');

# Reads the correspondence: a hash for each word that begins a line.
sub correspondence
{
	my ($text) = @_;
	my %c = (compare => []);

	foreach (grep { /^\w/ } split /\n/, $text)
	{
		my ($what, $name, @rest) = split ' ';
		if ($what =~ /^(?:code|model|large)$/) { $c{$what} = [ $name, @rest ] }
		elsif ($what =~ /^(?:atomic|plain|lock)$/) { $c{$what}{$_} = $name foreach @rest }
		elsif ($what eq 'bytes') { $c{bytes} = $name }
		elsif ($what eq 'call') { $c{call}{$name} = "@rest" }
		elsif ($what eq 'without') { $c{without}{$name} = "@rest" or die "no reason: $_\n" }
		elsif ($what eq 'compare')
		{
			my %as = map { split /=/ } grep { /=/ } @rest;
			push @{ $c{compare} }, { model => $name, code => [ grep { !/=/ } @rest ], as => \%as };
		}
		else { die "unknown: $_\n" }
	}
	return \%c;
}

# One side: the functions of some files, by name
sub side
{
	my ($c, $files, $call) = @_;
	my %side = (c => $c, files => $files, call => $call, reached => {});

	foreach my $file (sort keys %$files)
	{
		my $tokens = tokens($files->{$file});
		foreach my $found (grep { $_->{kind} eq 'function' } @{ definitions($tokens) })
		{
			my ($from) = grep { $tokens->[$_][0] eq '{' } $found->{from} .. $found->{to};
			push @{ $side{functions}{ $found->{name} } }, { name => $found->{name}, file => $file,
				tokens => $tokens, from => $from, to => $found->{to} };
		}
	}
	return \%side;
}

sub access_at
{
	my ($side, $f, $i, $what, $place) = @_;
	my $line = line_at($side->{files}{ $f->{file} }, $f->{tokens}[$i][1]);

	$what .= " $place" if $place ne '';
	return { what => $what, at => "$f->{file}:$line, in $f->{name}" };
}

# The token behind what opens at $i
sub closed
{
	my ($f, $i) = @_;
	my $depth = 0;

	for (;; $i++)
	{
		$depth++ if $f->{tokens}[$i][0] =~ /^[({[]$/;
		$depth-- if $f->{tokens}[$i][0] =~ /^[])}]$/;
		return $i + 1 if $depth == 0;
	}
}

# The token behind the statement at $i
sub behind_statement
{
	my ($f, $i) = @_;
	my $t = $f->{tokens};

	if ($t->[$i][0] eq 'if')
	{
		$i = behind_statement($f, closed($f, $i + 1));
		return $t->[$i][0] eq 'else' ? behind_statement($f, $i + 1) : $i;
	}
	return closed($f, $i) if $t->[$i][0] eq '{';
	$i = $t->[$i][0] =~ /^[({[]$/ ? closed($f, $i) : $i + 1 while $t->[$i][0] ne ';';
	return $i + 1;
}

# The arguments of the call whose parenthesis opens at $i: [from, to]...
sub arguments
{
	my ($f, $i) = @_;
	my $end = closed($f, $i) - 1;
	my @arguments = ([ $i + 1 ]);

	for ($i++; $i < $end; $i++)
	{
		my $what = $f->{tokens}[$i][0];
		$i = closed($f, $i) - 1 if $what =~ /^[({[]$/;
		next unless $what eq ',';
		$arguments[-1][1] = $i;
		push @arguments, [ $i + 1 ];
	}
	$arguments[-1][1] = $end;
	return @arguments;
}

# The last name of an expression, but for what is in its parentheses and brackets
sub last_name
{
	my ($f, $from, $to) = @_;
	my $name = '';

	for (my $i = $from; $i < $to; $i++)
	{
		my $what = $f->{tokens}[$i][0];
		$name = $what if $what =~ /^[A-Za-z_]/;
		$i = closed($f, $i) - 1 if $what =~ /^[({[]$/;
	}
	return $name;
}

# Is what ends at $i the operand of a &, so that it is no access?  *(volatile ...) &x is one.
sub is_address
{
	my ($f, $i) = @_;
	my $t = $f->{tokens};

	for ($i--; $i > $f->{from}; $i--)
	{
		my $what = $t->[$i][0];
		my $depth = 0;
		if ($what =~ /^[])]$/)
		{
			do
			{
				$depth++ if $t->[$i][0] =~ /^[])]$/;
				$depth-- if $t->[$i][0] =~ /^[[(]$/;
			} while ($depth > 0 && $i--);
			next;
		}
		return $what eq '&' && $t->[ $i - 1 ][0] ne ')' unless $what =~ /^(?:\w+|\.|->)$/;
	}
	return 0;
}

# What a function does: its body, with what it calls.  Of several that have the name, the one in the
# caller's file is meant.
sub accesses
{
	my ($side, $name, $caller) = @_;
	my @all = @{ $side->{functions}{$name} // die "there is no function $name\n" };
	my ($f) = grep { @all == 1 || ($caller && $_->{file} eq $caller->{file}) } @all;

	die "there are several functions $name\n" unless $f;
	$side->{reached}{$name} = 1;
	return part($side, $f, $f->{from} + 1, $f->{to});
}

# The same of some of its tokens.  A plain store is performed at the end of its statement.
sub part
{
	my ($side, $f, $from, $to) = @_;
	my (@found, @stores);

	for (my $i = $from; $i < $to; $i++)
	{
		my $what = $f->{tokens}[$i][0];
		if ($what eq ';')
		{
			push @found, splice @stores;
		}
		elsif ($what =~ /^[A-Za-z_]/)
		{
			my ($next, @more) = $side->{call}->($side, $f, $i, \@stores);
			push @found, @more;
			$i = $next - 1;
		}
	}
	return (@found, @stores);
}

# A call that is nothing special: its arguments, then what the function does, if it is one of ours
sub plain_call
{
	my ($side, $f, $i) = @_;
	my $name = $f->{tokens}[$i][0];
	my $end = closed($f, $i + 1);

	return ($end) if grep { $side->{c}{without}{$_} } $name, "$f->{name}:$name";
	return ($end, part($side, $f, $i + 2, $end - 1),
		$side->{functions}{$name} && $name ne $f->{name} ? accesses($side, $name, $f) : ());
}

# What stands at a name of the code: the token behind it, and what it does
sub of_code
{
	my ($side, $f, $i, $stores) = @_;
	my ($c, $t) = ($side->{c}, $f->{tokens});
	my $name = $t->[$i][0];
	my ($before, $after) = ($t->[ $i - 1 ][0], $t->[ $i + 1 ][0]);

	if ($after ne '(')
	{
		my $place = $c->{plain}{"$before$name"} // $c->{plain}{"$name$after"};
		return ($i + 1) if !$place || $c->{without}{"$f->{name}:$place"} || is_address($f, $i);
		my $end = $i + 1;
		$end = $t->[$end][0] eq '[' ? closed($f, $end) : $end + 2
			while $t->[$end][0] =~ /^(?:\.|->|\[)$/;
		return ($i + 1, access_at($side, $f, $i, 'load', $place)) if $t->[$end][0] ne '=';
		push @$stores, access_at($side, $f, $i, 'store', $place);
		return ($i + 1);
	}
	return (closed($f, $i + 1)) if $name =~ /^(?:Assert|MTP_[A-Z_]+)$/;
	return (closed($f, $i + 1), access_at($side, $f, $i, $barrier{$name} // $name, ''))
		if $name =~ /^pg_\w+_barrier$/;
	my ($first, @others) = arguments($f, $i + 1);
	if ($name =~ /^pg_atomic_(\w+)_u\d+$/ || $locking{$name})
	{
		my $last = last_name($f, @$first);
		my $end = closed($f, $i + 1);
		return ($end) if $c->{without}{$last};
		my $what = $locking{$name} // $operation{$1} // $name;
		my $place = $c->{ $locking{$name} ? 'lock' : 'atomic' }{$last} // "($last)";
		$what = 'lock_share' if $what eq 'lock' && $t->[ $others[0][0] ][0] ne 'LW_EXCLUSIVE';
		return ($end, (map { part($side, $f, @$_) } @others),
			access_at($side, $f, $i, $what, $place));
	}
	my ($end, @found) = plain_call($side, $f, $i);
	push @found, access_at($side, $f, $i, split / /, $c->{call}{$name}) if $c->{call}{$name};
	if ($name =~ /^(?:memcpy|memset|memmove|copy)$/)
	{
		my @image;
		foreach my $argument ($first, @others)
		{
			push @image, scalar grep { $t->[$_][0] =~ /(?:^|_)$c->{bytes}$/ }
				$argument->[0] .. $argument->[1] - 1;
		}
		push @found, access_at($side, $f, $i, 'store', $c->{bytes}) if $image[0];
		push @found, access_at($side, $f, $i, 'load', $c->{bytes}) if $image[1];
	}
	return ($end, @found);
}

# The same of the model.  Of what can be taken out, the whole is compared: what stands under
# if (!with(...)), and the else of if (with(...)), is what remains without.
sub of_model
{
	my ($side, $f, $i) = @_;
	my $t = $f->{tokens};
	my $name = $t->[$i][0];

	if ($name eq 'if')
	{
		my $body = closed($f, $i + 1);
		my $condition = join ' ', map { $t->[$_][0] } $i + 2 .. $body - 2;
		return ($i + 1) unless $condition =~ /\bwith \(/;
		my $end = behind_statement($f, $body);
		my $else = $t->[$end][0] eq 'else' ? $end + 1 : undef;
		my $all = defined $else ? behind_statement($f, $else) : $end;
		return ($all, part($side, $f, $body, $end)) if $condition !~ /! with \(/;
		return ($all, defined $else ? part($side, $f, $else, $all) : ());
	}
	return ($i + 1) if $t->[ $i + 1 ][0] ne '(';
	my ($called, @others) = arguments($f, $i + 1);
	if ($name eq 'wait_for_other')
	{
		return (closed($f, $i + 1),
			map { access_at($side, $f, $i, 'load', $t->[ $others[$_][0] ][0]) } 0, 3);
	}
	return plain_call($side, $f, $i) unless $of_model{$name};
	return (closed($f, $i + 1), (map { part($side, $f, @$_) } @others),
		access_at($side, $f, $i, $of_model{$name}, @others ? $t->[ $others[0][0] ][0] : ''));
}

# Accesses to something large that follow each other are one.
sub joined
{
	my ($c, @accesses) = @_;
	my %large = map { ("load $_" => 1, "store $_" => 1) } @{ $c->{large} };
	my @joined;

	foreach my $access (@accesses)
	{
		push @joined, $access
			unless @joined && $large{ $access->{what} } && $joined[-1]{what} eq $access->{what};
	}
	return @joined;
}

# Where they differ: a line each.  text: what a file of the code or the model says.
sub differences
{
	my ($c, $text) = @_;
	my $code = side($c, { map { ($_ => $text->($_)) } @{ $c->{code} } }, \&of_code);
	my $model = side($c, { map { ($_ => $text->($_)) } @{ $c->{model} } }, \&of_model);
	my @differ;

	foreach my $compare (@{ $c->{compare} })
	{
		my @model = joined($c, accesses($model, $compare->{model}));
		my @code = joined($c, map {
			/^(\w+):(\w+)$/ ? { what => "$1 $2", at => 'the caller' } : accesses($code, $_)
		} @{ $compare->{code} });
		my %as = map { ($barrier{$_} => $compare->{as}{$_}) } keys %{ $compare->{as} };
		$_->{what} = $as{ $_->{what} } // $_->{what} foreach @code;
		my $n = 0;
		$n++ while $n < @code && $n < @model && $code[$n]{what} eq $model[$n]{what};
		next if $n == @code && $n == @model;
		my ($is, $should) =
			map { $_ ? "$_->{what} ($_->{at})" : 'nothing more' } ($code[$n], $model[$n]);
		push @differ, "@{$compare->{code}}: the code has $is, the model $should";
	}

	# Nothing that is not compared accesses anything, but for what is left out by name.
	foreach my $name (sort keys %{ $code->{functions} })
	{
		next if $code->{reached}{$name} || $c->{without}{$name};
		my $alone = { %$code, functions => {} };
		push @differ, map { "$name is not in the model, and has $_->{what} ($_->{at})" }
			map { part($alone, $_, $_->{from} + 1, $_->{to}) } @{ $code->{functions}{$name} };
	}
	push @differ, map { "there is no function $_ to be left out" }
		grep { !$code->{functions}{ s/:.*//r } } sort keys %{ $c->{without} };
	return @differ;
}

1;
