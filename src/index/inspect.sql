-- Looking into indexes

CREATE FUNCTION mtpower.verify_index(index regclass, heapallindexed boolean DEFAULT false) RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_verify_index';
REVOKE ALL ON FUNCTION mtpower.verify_index(regclass, boolean) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.verify_index(regclass, boolean)
	IS 'raises an error at the first thing that is wrong with an index';

CREATE FUNCTION mtpower.page_info(index regclass, blkno bigint,
	OUT type text, OUT level integer, OUT items integer, OUT tids integer, OUT lists integer,
	OUT dead integer, OUT free_bytes integer, OUT "left" bigint, OUT "right" bigint, OUT high_key text, OUT flags text[], OUT format integer,
	OUT lsn pg_lsn)
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_page_info';
REVOKE ALL ON FUNCTION mtpower.page_info(regclass, bigint) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.page_info(regclass, bigint) IS 'what is on a block of an index';
