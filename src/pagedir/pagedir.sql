
-- How pairs of table pages come to have directories.
CREATE FUNCTION mtpower.stat_get_directories(OUT queued bigint, OUT asked bigint, OUT built bigint, OUT refused bigint,
	OUT unfit bigint, OUT failed bigint, OUT dropped bigint)
	LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED AS 'MODULE_PATHNAME', 'mtp_stat_directories';

CREATE VIEW mtpower.stat_directories AS
	SELECT queued, asked, built, refused, unfit, failed, dropped FROM mtpower.stat_get_directories();
COMMENT ON VIEW mtpower.stat_directories IS 'directories of table pages: what was asked for, and what has become of it';
GRANT SELECT ON mtpower.stat_directories TO PUBLIC;
