# The source as C tokens, and where its functions, types, macros and variables are defined: what
# test/mutate and the test of the memory model (t/unit/model.pl) read.  White space, line
# breaks and comments are no tokens, so none of them matters.
package MtpCode;
use strict;
use warnings;
use Exporter 'import';
use File::Find;

our @EXPORT_OK = qw(tokens definitions source_files slurp line_at);

sub slurp
{
	my ($file) = @_;

	open my $in, '<', $file or die "$file: $!\n";
	local $/;
	my $text = <$in>;
	close $in;
	return $text;
}

# The C files below TREE/src, by their names in TREE
sub source_files
{
	my ($tree) = @_;
	my %files;

	find({ no_chdir => 1, wanted => sub
	{
		return unless /\.[ch]$/ && -f;
		$files{substr $_, length($tree) + 1} = slurp($_);
	} }, "$tree/src");
	return \%files;
}

sub line_at
{
	my ($text, $at) = @_;

	return 1 + (substr($text, 0, $at) =~ tr/\n//);
}

# The tokens of a text: [what, from, to, directive], the last one being 2 where a preprocessor
# directive begins, 1 within it, else 0.  String literals side by side are one token.
sub tokens
{
	my ($text) = @_;
	my @tokens;
	my ($new_line, $directive) = (1, 0);

	pos($text) = 0;
	while (pos($text) < length $text)
	{
		if ($text =~ m{\G(?:\\\n|/\*.*?\*/|//[^\n]*)}gcs)
		{
			next;
		}
		if ($text =~ /\G\s+/gc)
		{
			($new_line, $directive) = (1, 0) if $& =~ /\n/;
			next;
		}
		$text =~ m{\G(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*
			|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)}gcsx or last;
		my ($what, $to) = ($&, pos $text);
		$directive = 2 if $new_line && $what eq '#';
		$new_line = 0;
		if ($what =~ /^"/ && @tokens && $tokens[-1][0] =~ /^"/)
		{
			$tokens[-1][0] = substr($tokens[-1][0], 0, -1) . substr($what, 1);
			$tokens[-1][2] = $to;
			next;
		}
		push @tokens, [ $what, $to - length $what, $to, $directive ];
		$directive = 1 if $directive;
	}
	return \@tokens;
}

# The identifier at the end of a declarator: in front of the parenthesis of a function's arguments,
# or of what follows a variable's name
sub function_name
{
	my ($tokens) = @_;
	my $depth = 0;

	for (my $i = $#$tokens; $i > 0; $i--)
	{
		my ($before, $what) = ($tokens->[ $i - 1 ][0], $tokens->[$i][0]);
		$depth++ if $what eq ')';
		$depth-- if $what eq '(';
		return $before if $depth == 0 && $what eq '(' && $before =~ /^\w/;
	}
	return undef;
}

# What a declaration of these tokens defines: [kind, name]...
sub defines
{
	my ($body, @tokens) = @_;
	my (@defined, $depth);

	return () if $tokens[0][0] eq 'extern';
	if (defined $body && $body > 0 && $tokens[ $body - 1 ][0] eq ')')
	{
		my $name = function_name([ @tokens[ 0 .. $body - 1 ] ]);
		return defined $name ? [ 'function', $name ] : ();
	}
	foreach my $i (0 .. $#tokens - 2)
	{
		push @defined, [ 'type', $tokens[ $i + 1 ][0] ]
			if $tokens[$i][0] =~ /^(?:struct|union|enum)$/ && $tokens[ $i + 2 ][0] eq '{';
	}
	if ($tokens[0][0] eq 'typedef')
	{
		my $name = $tokens[-2][0];
		push @defined, [ 'type', $name ] if defined $body && !grep { $_->[1] eq $name } @defined;
		return @defined;
	}
	$depth = 0;
	foreach my $i (0 .. $#tokens - 1)
	{
		$depth++ if $tokens[$i][0] =~ /^[({[]$/;
		$depth-- if $tokens[$i][0] =~ /^[])}]$/;
		next if $depth > 0 || $tokens[$i][0] !~ /^[A-Za-z_]/;
		return (@defined, [ 'variable', $tokens[$i][0] ])
			if $i > 0 && $tokens[ $i + 1 ][0] =~ /^[[=;]$/;
	}
	return @defined;
}

# What a file defines: {kind, name, from, to}, from and to being tokens' numbers.  Where the
# preprocessor has a choice, each of its branches begins as deep in braces as the first one.
sub definitions
{
	my ($tokens) = @_;
	my (@found, @now, $body, @ifs);
	my $depth = 0;

	for (my $i = 0; $i < @$tokens; $i++)
	{
		my $what = $tokens->[$i][0];

		if ($tokens->[$i][3])
		{
			my $from = $i;
			$i++ while $i < $#$tokens && $tokens->[ $i + 1 ][3] && $tokens->[ $i + 1 ][3] == 1;
			next if $i == $from;
			my $directive = $tokens->[ $from + 1 ][0];
			push @ifs, $depth if $directive =~ /^if/;
			$depth = $ifs[-1] if $directive =~ /^el/;
			pop @ifs if $directive eq 'endif';
			next unless $directive eq 'define';
			my $name = $tokens->[ $from + 2 ][0];
			push @found, { kind => 'macro', name => $name, from => $from, to => $i };
			next;
		}
		push @now, $i;
		if ($what =~ /^[({[]$/)
		{
			$body = $#now if $what eq '{' && $depth == 0 && !defined $body;
			$depth++;
		}
		$depth-- if $what =~ /^[])}]$/;
		next if $depth != 0;
		my $is_function = defined $body && $body > 0 && $tokens->[ $now[ $body - 1 ] ][0] eq ')';
		next unless $what eq ';' || ($what eq '}' && $is_function);
		push @found, map { { kind => $_->[0], name => $_->[1], from => $now[0], to => $i } }
			defines($body, map { $tokens->[$_] } @now);
		@now = ();
		$body = undef;
	}
	die "braces do not match\n" if $depth != 0;
	return \@found;
}

1;
