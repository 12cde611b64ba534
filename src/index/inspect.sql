-- Looking into indexes

CREATE FUNCTION mtpower.verify_index(index regclass, heapallindexed boolean DEFAULT false) RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_verify_index';
REVOKE ALL ON FUNCTION mtpower.verify_index(regclass, boolean) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.verify_index(regclass, boolean)
	IS 'raises an error at the first thing that is wrong with an index';

CREATE FUNCTION mtpower.verify_all(schema regnamespace DEFAULT NULL, heapallindexed boolean DEFAULT false,
	parallel integer DEFAULT 0, OUT index regclass, OUT result text, OUT sqlstate text,
	OUT message text, OUT detail text)
	RETURNS SETOF record
	LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 100 SET search_path = pg_catalog, pg_temp
	AS 'MODULE_PATHNAME', 'mtp_verify_all';
REVOKE ALL ON FUNCTION mtpower.verify_all(regnamespace, boolean, integer) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.verify_all(regnamespace, boolean, integer)
	IS 'checks mtpower''s indexes, and btree indexes of its tables, and reports on each';

CREATE FUNCTION mtpower.page_info(index regclass, blkno bigint,
	OUT type text, OUT level integer, OUT items integer, OUT tids integer, OUT lists integer,
	OUT dead integer, OUT free_bytes integer, OUT "left" bigint, OUT "right" bigint, OUT high_key text, OUT flags text[], OUT format integer,
	OUT lsn pg_lsn)
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_page_info';
REVOKE ALL ON FUNCTION mtpower.page_info(regclass, bigint) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.page_info(regclass, bigint) IS 'what is on a block of an index';
