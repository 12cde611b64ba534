-- Zone index access method

CREATE FUNCTION mtpower.zone_handler(internal) RETURNS index_am_handler
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_zone_handler';
REVOKE ALL ON FUNCTION mtpower.zone_handler(internal) FROM PUBLIC;

CREATE ACCESS METHOD mtpower_zone TYPE INDEX HANDLER mtpower.zone_handler;
COMMENT ON ACCESS METHOD mtpower_zone IS
	'least and largest values of every two pages of a table, for bitmap scans';
