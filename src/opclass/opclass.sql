-- opclass: an operator class for every one that btree and hash have.

CREATE FUNCTION mtpower.sync_opclasses(OUT opclass text, OUT method name, OUT action text)
	RETURNS SETOF record
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_sync_opclasses';
REVOKE ALL ON FUNCTION mtpower.sync_opclasses() FROM PUBLIC;
COMMENT ON FUNCTION mtpower.sync_opclasses() IS
	'gives mtpower''s index access methods the operator classes of other extensions and of user-defined types';

-- In this script: those that are built in.
SELECT FROM mtpower.sync_opclasses();

