\echo Use "CREATE EXTENSION mtpower" to load this file. \quit

-- The library must have been loaded by shared_preload_libraries: its resource manager, shared
-- memory and hooks exist only then.
CREATE FUNCTION mtpower.check_preload() RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_check_preload';
REVOKE ALL ON FUNCTION mtpower.check_preload() FROM PUBLIC;
SELECT mtpower.check_preload();

GRANT USAGE ON SCHEMA mtpower TO PUBLIC;

