# C code that inserts into tables with hash indexes: batch_c_code.pl with hash in place of B-link.
use strict;
use warnings;
use FindBin;
use PostgreSQL::Test::Cluster;		# now: its INIT block does not run when it is loaded by do

$ENV{MTP_INDEX_AM} = 'mtpower_hash';
do "$FindBin::Bin/batch_c_code.pl";
die $@ if $@;
