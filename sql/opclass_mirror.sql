-- Every built-in operator class of btree has a mirror in mtpower_blink, and it is complete.

-- Operator families, operator classes, and members: what btree has and ours lacks, or the reverse.
CREATE TEMP VIEW btree_am AS SELECT oid FROM pg_am WHERE amname = 'btree';
CREATE TEMP VIEW blink_am AS SELECT oid FROM pg_am WHERE amname = 'mtpower_blink';
CREATE TEMP VIEW families AS
	SELECT opfmethod AS am, opfnamespace::regnamespace AS nsp, opfname AS name
	FROM pg_opfamily WHERE opfnamespace = 'pg_catalog'::regnamespace;
CREATE TEMP VIEW classes AS
	SELECT c.opcmethod AS am, c.opcnamespace::regnamespace AS nsp, c.opcname AS name, f.opfname AS family,
		c.opcintype::regtype AS type, c.opcdefault AS is_default
	FROM pg_opclass c JOIN pg_opfamily f ON f.oid = c.opcfamily WHERE c.opcnamespace = 'pg_catalog'::regnamespace;
CREATE TEMP VIEW operators AS
	SELECT o.amopmethod AS am, f.opfname AS family, o.amopstrategy AS strategy, o.amopopr::regoperator AS operator,
		o.amoplefttype::regtype AS lefttype, o.amoprighttype::regtype AS righttype, o.amoppurpose AS purpose
	FROM pg_amop o JOIN pg_opfamily f ON f.oid = o.amopfamily WHERE f.opfnamespace = 'pg_catalog'::regnamespace;
CREATE TEMP VIEW functions AS
	SELECT f.opfmethod AS am, f.opfname AS family, p.amprocnum AS number, p.amproc::regprocedure AS function,
		p.amproclefttype::regtype AS lefttype, p.amprocrighttype::regtype AS righttype
	FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily WHERE f.opfnamespace = 'pg_catalog'::regnamespace;

CREATE FUNCTION pg_temp.compare(source text, columns text, OUT only_in text, OUT what text) RETURNS SETOF record
LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format(
		$q$ WITH b AS (SELECT %2$s FROM %1$s WHERE am IN (TABLE btree_am)),
			m AS (SELECT %2$s FROM %1$s WHERE am IN (TABLE blink_am))
			SELECT 'btree', x::text FROM (TABLE b EXCEPT ALL TABLE m) x
			UNION ALL SELECT 'mtpower_blink', x::text FROM (TABLE m EXCEPT ALL TABLE b) x $q$, source, columns);
END $$;
SELECT * FROM pg_temp.compare('families', 'nsp, name');
SELECT * FROM pg_temp.compare('classes', 'nsp, name, family, type, is_default');
SELECT * FROM pg_temp.compare('operators', 'family, strategy, operator, lefttype, righttype, purpose');
SELECT * FROM pg_temp.compare('functions', 'family, number, function, lefttype, righttype');

-- The comparison does find something where there is something: other access methods.
SELECT count(*) > 30 AS families_found FROM families WHERE am IN (TABLE btree_am);
SELECT count(*) > 40 AS classes_found FROM classes WHERE am IN (TABLE blink_am);
SELECT count(*) > 250 AS operators_found FROM operators WHERE am IN (TABLE blink_am);
SELECT count(*) > 100 AS functions_found FROM functions WHERE am IN (TABLE blink_am);

-- All support function numbers that btree uses.  (PostgreSQL 18 added 6, for skip scans.)
SELECT DISTINCT number FROM functions WHERE am IN (TABLE blink_am) AND number <= 5 ORDER BY 1;

-- What the schema pg_catalog holds for mtpower_blink are members of the extension, all of it.
SELECT 'operator class' AS kind, count(*) = count(d.objid) AS all_members
FROM pg_opclass c LEFT JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass AND d.objid = c.oid AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'mtpower')
WHERE c.opcmethod IN (TABLE blink_am) AND c.opcnamespace = 'pg_catalog'::regnamespace
UNION ALL
SELECT 'operator family', count(*) = count(d.objid)
FROM pg_opfamily f LEFT JOIN pg_depend d ON d.classid = 'pg_opfamily'::regclass AND d.objid = f.oid AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'mtpower')
WHERE f.opfmethod IN (TABLE blink_am) AND f.opfnamespace = 'pg_catalog'::regnamespace;

-- No storage type differs from the key's; name_ops stores the name.
SELECT opcname, opckeytype::regtype FROM pg_opclass WHERE opcmethod IN (TABLE blink_am) AND opckeytype <> 0;

-- The validator finds nothing to complain about.
SELECT opcname FROM pg_opclass WHERE opcmethod IN (TABLE blink_am) AND NOT amvalidate(oid);

-- Members belong to their operator class or family as btree's would: those for one type to the class, all optional
-- functions and everything that crosses types to the family.
SELECT d.refclassid::regclass, d.deptype, o.amoplefttype = o.amoprighttype AS one_type
FROM pg_amop o JOIN pg_depend d ON d.classid = 'pg_amop'::regclass AND d.objid = o.oid
WHERE o.amopmethod IN (TABLE blink_am) AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
SELECT d.refclassid::regclass, d.deptype, p.amproclefttype = p.amprocrighttype AS one_type, p.amprocnum = 1 AS compares
FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily
	JOIN pg_depend d ON d.classid = 'pg_amproc'::regclass AND d.objid = p.oid
WHERE f.opfmethod IN (TABLE blink_am) AND d.refclassid IN ('pg_opclass'::regclass, 'pg_opfamily'::regclass)
GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4;

-- psql lists them.
\dAc mtpower_blink int*
\dAf mtpower_blink interval
\dAo mtpower_blink float_ops
\dAp mtpower_blink float_ops

-- Operator classes other than the defaults are found by the names that btree has.
CREATE TABLE opclass_named (t text, v varchar, c char(10), n name, ti tid);
CREATE INDEX ON opclass_named USING mtpower_blink (t text_pattern_ops);
CREATE INDEX ON opclass_named USING mtpower_blink (v varchar_pattern_ops);
CREATE INDEX ON opclass_named USING mtpower_blink (v varchar_ops);
CREATE INDEX ON opclass_named USING mtpower_blink (c bpchar_pattern_ops);
CREATE INDEX ON opclass_named USING mtpower_blink (n);
CREATE INDEX ON opclass_named USING mtpower_blink (ti);
SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = 'opclass_named'::regclass ORDER BY indexrelid;
DROP TABLE opclass_named;

