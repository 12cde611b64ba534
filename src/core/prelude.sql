\echo Use "CREATE EXTENSION mtpower" to load this file. \quit

-- The library must have been loaded by shared_preload_libraries: its resource manager, shared
-- memory and hooks exist only then.
CREATE FUNCTION mtpower.check_preload() RETURNS void
	LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'mtp_check_preload';
REVOKE ALL ON FUNCTION mtpower.check_preload() FROM PUBLIC;
SELECT mtpower.check_preload();

GRANT USAGE ON SCHEMA mtpower TO PUBLIC;

CREATE FUNCTION mtpower.stat_reset(target text DEFAULT NULL) RETURNS void
	LANGUAGE C VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'mtp_stat_reset';
REVOKE ALL ON FUNCTION mtpower.stat_reset(text) FROM PUBLIC;
COMMENT ON FUNCTION mtpower.stat_reset(text) IS
	'sets the counters of stat_batches ("batches"), of stat_workers ("workers"), of stat_buffer ("buffer") or all (null) to zero';
