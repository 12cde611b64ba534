# MtpFrames: what tests of the buffer share: questions that are answered in frames, in locked pages and by the table itself; what
# is in the buffer.
package MtpFrames;

use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(frames_sql);

# answer(how, query): a digest of the query's rows.  how: 'seq', or what is to be used: 'frames', 'locked', with '_bitmap' or '_only'; 'directory'.
# disagree(query): '' if all of these say the same, else who says what; disagree_keys(query): the same for index-only scans.
# frames_of(index): its frames.  orphans(): frames of files that have gone.  stat(count[, kind]): what stat_buffer says of index pages, or those of another kind.
# warm(table, column, step): looks each step-th value up, twice, so that the index's pages are published, and are read in frames.
sub frames_sql
{
	return q{
CREATE FUNCTION scans(how text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('enable_seqscan', (how IN ('seq', 'directory'))::text, true), set_config('mtpower.enable_directoryscan', (how = 'directory')::text, true), set_config('enable_indexscan', (how IN ('frames', 'locked', 'frames_only', 'locked_only'))::text, true),
		set_config('enable_bitmapscan', (how LIKE '%_bitmap')::text, true), set_config('enable_indexonlyscan', (how LIKE '%_only')::text, true),
		set_config('enable_sort', (how IN ('seq', 'directory') OR how LIKE '%_bitmap')::text, true),
		set_config('enable_hashjoin', (how IN ('seq', 'directory'))::text, true), set_config('enable_mergejoin', 'off', true), set_config('mtpower.use_frames', (how = 'directory' OR how LIKE 'frames%')::text, true) $$;
CREATE FUNCTION answer(how text, query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE t text;
BEGIN
	PERFORM scans(how);
	EXECUTE format('SELECT count(*) || '' '' || coalesce(md5(string_agg(q::text, '','' ORDER BY q::text)), '''') FROM (%s) q', query) INTO t;
	RETURN t;
END $$;
CREATE FUNCTION disagree(query text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(format('%s: %s instead of %s', how, got, want), '; '), '')
	FROM (SELECT answer('seq', query) AS want) w, LATERAL (SELECT how, answer(how, query) AS got
		FROM unnest('{frames,locked,frames_bitmap,locked_bitmap,frames,directory}'::text[]) how) a WHERE got <> want $$;
CREATE FUNCTION disagree_keys(query text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(format('%s: %s instead of %s', how, got, want), '; '), '')
	FROM (SELECT answer('seq', query) AS want) w, LATERAL (SELECT how, answer(how, query) AS got
		FROM unnest('{frames_only,locked_only,frames_only}'::text[]) how) a WHERE got <> want $$;
CREATE FUNCTION frames_of(index regclass) RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mtpower.stat_get_content() WHERE relation = index $$;
CREATE FUNCTION orphans() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM mtpower.stat_get_content() WHERE relation IS NULL $$;
CREATE FUNCTION stat(name text, pages text DEFAULT 'index') RETURNS bigint LANGUAGE sql AS $$ SELECT (to_jsonb(s) ->> name)::bigint FROM mtpower.stat_buffer s WHERE kind = pages $$;
CREATE FUNCTION warm(name text, col text, step int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE n bigint;
BEGIN
	PERFORM scans('frames');
	FOR i IN 1 .. 2 LOOP
		EXECUTE format('SELECT count(r.v) FROM (SELECT %1$I AS key FROM %2$I WHERE a %% %3$s = 0) g, LATERAL (SELECT v FROM %2$I WHERE %1$I = g.key OFFSET 0) r',
			col, name, step) INTO n;
	END LOOP;
	RETURN n;
END $$;
};
}

1;
