
-- The buffer: what it did, and what is in it.
CREATE FUNCTION mtpower.stat_get_buffer(OUT kind text, OUT frames bigint, OUT bytes bigint,
	OUT hits bigint, OUT torn bigint, OUT misses bigint, OUT published bigint, OUT refused bigint,
	OUT evicted bigint, OUT staled bigint, OUT purged bigint, OUT waits bigint, OUT sealed bigint, OUT taken_over bigint, OUT aged bigint)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 3
	AS 'MODULE_PATHNAME', 'mtp_stat_buffer';

CREATE VIEW mtpower.stat_buffer AS
	SELECT kind, frames, bytes, hits, torn, misses, published, refused, evicted, staled, purged, waits, sealed, taken_over, aged
	FROM mtpower.stat_get_buffer();
COMMENT ON VIEW mtpower.stat_buffer IS 'frames of the buffer by kind of page, and what became of reads and changes';
GRANT SELECT ON mtpower.stat_buffer TO PUBLIC;

CREATE FUNCTION mtpower.stat_get_content(OUT relation regclass, OUT block bigint, OUT kind text, OUT heat real)
	RETURNS SETOF record
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED ROWS 10000
	AS 'MODULE_PATHNAME', 'mtp_buffer_content';
REVOKE ALL ON FUNCTION mtpower.stat_get_content() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mtpower.stat_get_content() TO pg_monitor;

CREATE VIEW mtpower.buffer_content AS
	SELECT relation, block, kind, heat FROM mtpower.stat_get_content();
COMMENT ON VIEW mtpower.buffer_content IS 'pages of this database that have frames, and how warm they are, in accesses';
GRANT SELECT ON mtpower.buffer_content TO pg_monitor;
