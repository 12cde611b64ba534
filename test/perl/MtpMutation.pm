# Mutations: changes of the source that tests must notice (test/mutations, test/mutate).
#
# A mutation is a header, "Mutation:", "Why:" and "Tests:", "Release:" where one release of PostgreSQL
# alone has what it breaks, and then for each change
#
#     @@ function take in buffer/
#      context
#     -old
#     +new
#
# The change is made in the definition of that function (type, macro, variable), in whatever file
# below src it stands; "in" and the beginning of a path are needed where several have the name.  The
# lines with a blank or a minus are the old text, those with a blank or a plus the new one.  The old
# text must stand in the definition exactly once.  It is compared token by token and may begin and
# end in the middle of a line.
package MtpMutation;
use strict;
use warnings;
use Exporter 'import';
use MtpCode qw(tokens definitions source_files slurp line_at);

our @EXPORT_OK = qw(read_mutation source_of mutated);

# A mutation's fields and changes: {kind, name, where, old, new}.  A patch has fields alone.
sub read_mutation
{
	my ($text) = @_;
	my ($header, $rest) = $text =~ /\A(.*?)(^(?:@@ |--- |diff ).*)?\z/ms;
	my %mutation = (changes => []);

	while ($header =~ /^(\w+): *(.*(?:\n[ \t]+.*)*)/mg)
	{
		my ($field, $value) = ($1, $2);
		$mutation{$field} = $value =~ s/\s*\n\s*/ /gr;
	}
	return \%mutation if ($rest // '') =~ /^(?:--- |diff )/;
	foreach (split /^(?=@@ )/m, $rest // '')
	{
		my ($at, @lines) = split /\n/;
		$at =~ /^\@\@ (function|type|macro|variable) (\w+)(?: in (\S+))?\s*$/
			or die "no change begins like this: $at\n";
		my $change = { kind => $1, name => $2, where => $3 // '' };
		foreach my $line (@lines)
		{
			$line =~ /^([ +-]?)(.*)$/s or die "neither old nor new: $line\n";
			die "neither old nor new: $line\n" if $1 eq '' && $line ne '';
			push @{ $change->{old} }, $2 if $1 ne '+';
			push @{ $change->{new} }, $2 if $1 ne '-';
		}
		$change->{$_} = join "\n", @{ $change->{$_} // [] } foreach qw(old new);
		push @{ $mutation{changes} }, $change;
	}
	return \%mutation;
}

# A source of these files (name => text)
sub source_of
{
	my ($files) = @_;
	my %source = (files => $files);

	foreach my $file (sort keys %$files)
	{
		my $tokens = $source{tokens}{$file} = tokens($files->{$file});
		my $found = eval { definitions($tokens) } or die "$file: $@";
		push @{ $source{"$_->{kind} $_->{name}"} }, { %$_, file => $file } foreach @$found;
	}
	return \%source;
}

sub place
{
	my ($source, $file, $i) = @_;

	return "$file:" . line_at($source->{files}{$file}, $source->{tokens}{$file}[$i][1]);
}

# Where these tokens stand among a file's from ... to: the first one's number each time
sub occurrences
{
	my ($tokens, $from, $to, $old) = @_;
	my @found;

	foreach my $at ($from .. $to - $#$old)
	{
		my $n = 0;
		$n++ while $n < @$old && $tokens->[ $at + $n ][0] eq $old->[$n][0];
		push @found, $at if $n == @$old;
	}
	return @found;
}

# The longest part of the old text that the definition has, for whoever has to mend the mutation
sub nearest
{
	my ($source, $definition, $old) = @_;
	my $tokens = $source->{tokens}{ $definition->{file} };
	my ($most, $where, $part) = (0);

	foreach my $first (0 .. $#$old)
	{
		foreach my $at ($definition->{from} .. $definition->{to})
		{
			my $n = 0;
			$n++ while $first + $n < @$old && $at + $n <= $definition->{to}
				&& $tokens->[ $at + $n ][0] eq $old->[ $first + $n ][0];
			($most, $where, $part) = ($n, $at, $first) if $n > $most;
		}
	}
	return 'nothing of it stands there' unless $most;
	my $has = substr $source->{files}{ $definition->{file} }, $tokens->[$where][1],
		$tokens->[ $where + $most - 1 ][2] - $tokens->[$where][1];
	return sprintf '%s has %d of its %d tokens: %s', place($source, $definition->{file}, $where),
		$most, scalar @$old, $has =~ s/\s+/ /gr;
}

# Other definitions that have the old text
sub elsewhere
{
	my ($source, $old) = @_;
	my @found;

	foreach my $name (sort grep { /^function / } keys %$source)
	{
		foreach my $definition (@{ $source->{$name} })
		{
			my $tokens = $source->{tokens}{ $definition->{file} };
			push @found, map { "$name, " . place($source, $definition->{file}, $_) }
				occurrences($tokens, @$definition{qw(from to)}, $old);
		}
	}
	return @found ? "it stands in $found[0]" : 'it stands nowhere';
}

# Finds where a change applies, or dies saying why it does not.
sub locate
{
	my ($source, $change) = @_;
	my $what = "$change->{kind} $change->{name}";
	my @all = @{ $source->{$what} // [] };
	my @found = grep { index($_->{file}, "src/$change->{where}") == 0 } @all;
	my $old = tokens($change->{old});

	die "a change of $what has no old text\n" unless @$old;
	die "there is no $what"
		. (@all ? " in $change->{where}, but in " . join(', ', map { $_->{file} } @all) : '')
		. '; of the old text, ' . elsewhere($source, $old) . "\n" unless @found;
	die "there are several of $what: " . join(', ', map { $_->{file} } @found) . "\n"
		if grep { $_->{file} ne $found[0]{file} } @found;

	# Several in one file are what the preprocessor chooses from.
	my $file = $found[0]{file};
	my $tokens = $source->{tokens}{$file};
	my @at = map { occurrences($tokens, @$_{qw(from to)}, $old) } @found;
	die "$what has the old text several times: " . join(', ', map { place($source, $file, $_) } @at)
		. "\n" if @at > 1;
	die "$what does not have the old text: " . nearest($source, $found[0], $old) . '; '
		. elsewhere($source, $old) . "\n" unless @at;

	# In a macro, each line but the last one ends in a backslash.
	my $new = $change->{new};
	$new =~ s/\n/ \\\n/g if $change->{kind} eq 'macro';
	return { file => $file, from => $tokens->[ $at[0] ][1],
		to => $tokens->[ $at[0] + $#$old ][2], new => $new };
}

# What becomes of the files that a mutation changes: file => text.  Dies saying why it does not
# apply.
sub mutated
{
	my ($source, $mutation) = @_;
	my (%edits, %texts);

	die "it changes nothing\n" unless @{ $mutation->{changes} };
	foreach my $edit (map { locate($source, $_) } @{ $mutation->{changes} })
	{
		push @{ $edits{ $edit->{file} } }, $edit;
	}
	foreach my $file (keys %edits)
	{
		my $end = length($texts{$file} = $source->{files}{$file});
		foreach my $edit (sort { $b->{from} <=> $a->{from} } @{ $edits{$file} })
		{
			die "two changes overlap in $file\n" if $edit->{to} > $end;
			substr($texts{$file}, $edit->{from}, $edit->{to} - $edit->{from}) = $edit->{new};
			$end = $edit->{from};
		}
		die "$file stays as it is\n"
			if join(' ', map { $_->[0] } @{ tokens($texts{$file}) })
			eq join(' ', map { $_->[0] } @{ $source->{tokens}{$file} });
	}
	return \%texts;
}

# ---------- for test/mutate ----------

sub name_of
{
	my ($file) = @_;

	return $file =~ m{([^/]*?)(?:\.\w+)?$} ? $1 : $file;
}

# field FILE NAME: what the header says
sub field
{
	my ($file, $name) = @_;

	print read_mutation(slurp($file))->{$name} // '', "\n";
}

# list FILE...: each mutation with what it breaks, why that matters, and what notices it
sub list
{
	foreach my $file (@_)
	{
		my $mutation = read_mutation(slurp($file));
		print name_of($file), "\n",
			(map { "    $_\n" } @$mutation{qw(Mutation Why)},
				"-> $mutation->{Tests}" . ($mutation->{Release} ? " (PostgreSQL $mutation->{Release})" : '')),
			"\n";
	}
}

# tests FILE...: all that are to notice them, a line each
sub tests
{
	my %tests = map { ($_ => 1) } map { split ' ', read_mutation(slurp($_))->{Tests} // '' } @_;

	print "$_\n" foreach sort keys %tests;
}

# check TREE FILE...: do they apply, with all of the header?  Ends with status 1 if one does not.
sub check
{
	my ($tree, @files) = @_;
	my $source = source_of(source_files($tree));
	my $bad = 0;

	foreach my $file (@files)
	{
		my $mutation = eval { read_mutation(slurp($file)) };
		my @missing = grep { !$mutation->{$_} } qw(Mutation Why Tests);
		my $release = $mutation->{Release} // 15;

		if (!grep { $_ eq $release } qw(15 17 18))
		{
			print name_of($file), ": there is no release $release\n";
			$bad = 1;
			next;
		}
		next if $mutation && !@missing && eval { mutated($source, $mutation) };
		print name_of($file), ': ',
			$mutation && @missing ? "it has no line \"$missing[0]: ...\"\n" : $@;
		$bad = 1;
	}
	exit $bad;
}

# apply TREE FILE [--dry-run]: changes the tree, and prints which files of it.  Status 1 if it does
# not apply.
sub apply
{
	my ($tree, $file, $dry) = @_;
	my $texts = eval { mutated(source_of(source_files($tree)), read_mutation(slurp($file))) };

	unless ($texts)
	{
		print "   $@";
		exit 1;
	}
	foreach my $changed (sort keys %$texts)
	{
		print "$changed\n";
		next if $dry;
		open my $out, '>', "$tree/$changed" or die "$tree/$changed: $!\n";
		print $out $texts->{$changed};
		close $out or die "$tree/$changed: $!\n";
	}
}

1;
