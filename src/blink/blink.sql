-- B-link tree index access method

CREATE FUNCTION mtpower.blink_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_blink_handler';
REVOKE ALL ON FUNCTION mtpower.blink_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_blink TYPE INDEX HANDLER mtpower.blink_handler;
COMMENT ON ACCESS METHOD mtpower_blink IS 'B-link tree index access method, fed in batches';

