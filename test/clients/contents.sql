-- What a client left in this database: columns, indexes and constraints of its tables, a checksum
-- of the rows of each, and the values of sequences.  Access methods have the names of core's, and
-- indexes none, since dbt chooses them at random.
SET search_path = pg_catalog;
CREATE TEMP VIEW own AS
SELECT c.oid, c.oid::regclass AS name, c.relkind
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname NOT IN ('information_schema', 'mtpower') AND n.nspname NOT LIKE 'pg\_%'
	AND NOT EXISTS (SELECT FROM pg_depend d
		WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY n.nspname, c.relname;
SELECT name, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
FROM pg_temp.own JOIN pg_attribute ON attrelid = own.oid
	LEFT JOIN pg_attrdef ON adrelid = own.oid AND adnum = attnum
WHERE relkind IN ('r', 'p', 'm', 'v') AND attnum > 0 AND NOT attisdropped
ORDER BY name::text, attnum;
SELECT regexp_replace(replace(replace(replace(pg_get_indexdef(own.oid),
	' USING mtpower_blink ', ' USING btree '), ' USING mtpower_hash ', ' USING hash '),
	' USING mtpower_zone ', ' USING brin '), ' INDEX ("[^"]*"|\S+) ON ', ' INDEX ON ')
FROM pg_temp.own WHERE relkind IN ('i', 'I') ORDER BY 1;
SELECT name, conname, pg_get_constraintdef(k.oid)
FROM pg_temp.own JOIN pg_constraint k ON conrelid = own.oid ORDER BY name::text, conname;
SELECT format('SELECT %L, count(*), ''rows'', md5(string_agg(hash, '''' ORDER BY hash))
	FROM (SELECT md5(_row::text) AS hash FROM %s _row) h', name, name)
FROM pg_temp.own WHERE relkind IN ('r', 'm') \gexec
SELECT format('SELECT %L, last_value, is_called FROM %s', name, name)
FROM pg_temp.own WHERE relkind = 'S' \gexec
