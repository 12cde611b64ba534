# Loads into hash indexes that are interrupted in every phase: batch_interrupts.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/batch_interrupts.pl";
die $@ if $@;
