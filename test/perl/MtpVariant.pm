# The index access method that a variant of a test is about, and how its indexes are verified.
package MtpVariant;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(access_method verifying verification);

# Of the variants blink, hash and btree; blink without one
sub access_method
{
	my $variant = $ENV{MTP_VARIANT} || 'blink';
	return $variant eq 'btree' ? 'btree' : "mtpower_$variant";
}

# SQL, behind CREATE EXTENSION mtpower: verify_one(index) for mtpower's indexes and for btree's
sub verifying
{
	return q{
CREATE EXTENSION IF NOT EXISTS amcheck;
CREATE OR REPLACE FUNCTION verify_one(i regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT relam = 403 FROM pg_class WHERE oid = i) THEN
		PERFORM bt_index_check(i, true);
	ELSE
		PERFORM mtpower.verify_index(i, true);
	END IF;
END $$;
};
}

# For queries of pg_class c and pg_am: which indexes can be verified, and how.  The variant btree has run verifying().
sub verification
{
	my $btree = access_method() eq 'btree';
	return ("amname IN ('mtpower_blink', 'mtpower_hash'" . ($btree ? ", 'btree')" : ')'), $btree ? 'verify_one(c.oid)' : 'mtpower.verify_index(c.oid, true)');
}

1;
