-- The table access method, and the ways into it and out of it.

CREATE FUNCTION mtpower.table_handler(internal) RETURNS table_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_table_handler';
REVOKE ALL ON FUNCTION mtpower.table_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower TYPE TABLE HANDLER mtpower.table_handler;
COMMENT ON ACCESS METHOD mtpower IS 'heap tables whose loads maintain indexes in batches';

-- These check that the caller owns the table, so anybody may call them.

CREATE FUNCTION mtpower.adopt(relation regclass) RETURNS void
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_adopt';
COMMENT ON FUNCTION mtpower.adopt(regclass) IS
	'makes a heap table or materialized view one of access method mtpower, without rewriting it';

CREATE FUNCTION mtpower.release(relation regclass) RETURNS void
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_release';
COMMENT ON FUNCTION mtpower.release(regclass) IS
	'makes an mtpower table or materialized view one of access method heap, without rewriting it';

CREATE FUNCTION mtpower.release_all() RETURNS SETOF regclass
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_release_all';
COMMENT ON FUNCTION mtpower.release_all() IS
	'releases all mtpower tables of this database that the caller owns, and returns them';

-- Not strict: NULL as the only column means something.
CREATE FUNCTION mtpower.set_directory(relation regclass, VARIADIC columns name[] DEFAULT '{}') RETURNS void
	LANGUAGE C VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_table_set_directory';
COMMENT ON FUNCTION mtpower.set_directory(regclass, name[]) IS
	'chooses the columns of the directories of a table''s pages: a single NULL for no directories, nothing for what is learnt';

CREATE FUNCTION mtpower.directory(relation regclass, OUT choice text, OUT columns name[], OUT origin regclass) RETURNS record
	LANGUAGE C STRICT STABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'mtp_table_show_directory';
COMMENT ON FUNCTION mtpower.directory(regclass) IS
	'what was chosen, or learnt, for the directories of a table''s pages, and by whose labels';

-- Names in the commands are qualified because they are not visible under this search_path.
CREATE FUNCTION mtpower.index_ddl(index regclass, to_am name) RETURNS SETOF text
	LANGUAGE C STRICT STABLE PARALLEL RESTRICTED SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'mtp_table_index_ddl';
COMMENT ON FUNCTION mtpower.index_ddl(regclass, name) IS
	'the commands that replace an index by one of another access method';

