# Commands that want a table or its hash indexes' files while workers stand in the middle of their work: batch_ddl.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;		# now: its INIT block does not run when it is loaded by do

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/batch_ddl.pl";
die $@ if $@;
