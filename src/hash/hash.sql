-- Linear hash index access method

CREATE FUNCTION mtpower.hash_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_hash_handler';
REVOKE ALL ON FUNCTION mtpower.hash_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_hash TYPE INDEX HANDLER mtpower.hash_handler;
COMMENT ON ACCESS METHOD mtpower_hash IS 'linear hash index access method, fed in batches';

