
-- Loads a relation's pages into the buffer.
CREATE FUNCTION mtpower.warm(regclass) RETURNS bigint
	LANGUAGE C STRICT VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'mtp_warm';
COMMENT ON FUNCTION mtpower.warm(regclass) IS 'loads the pages of an index or table of mtpower into the buffer; returns how many frames they have afterwards';
